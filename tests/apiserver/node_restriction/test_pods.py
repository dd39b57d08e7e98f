"""Pods created, deleted, evicted and updated by nodes: kubernetes
``plugin/pkg/admission/noderestriction/admission_test.go``, ``Test_nodePlugin_Admit`` and
``Test_nodePlugin_Admit_OwnerReference`` (v1.36)."""

import copy
from typing import Any

import pytest
from tests.apiserver.api import Object
from tests.apiserver.node_restriction.writes import BOB, BY_NAME, EXISTING, admit, expect, labelled, make_pod
from tests.tables import cases

UNEXPECTED = "forbidden: unexpected operation"
ITSELF = "spec.nodeName set to itself"
MIRRORS_ONLY = "can only create mirror pods"


def eviction(name: str) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "ns"}}


def _rows() -> list[Any]:
    """What may be done to the pods: create, update and delete of the pod and its status, and its eviction."""
    rows = []
    for whose, prefix in (("self", "my"), ("another", "other"), ("no node", "unbound")):
        for kind, name in (("mirror", f"{prefix}mirrorpod"), ("normal", f"{prefix}pod")):
            own = "" if whose == "self" else ITSELF
            create = own if kind == "mirror" else MIRRORS_ONLY
            for row, operation, expected in (
                ("pods", "CREATE", create),
                ("pods", "UPDATE", UNEXPECTED),
                ("pods", "DELETE", own),
                ("pods/status", "CREATE", UNEXPECTED),
                ("pods/status", "UPDATE", own),
                ("pods/status", "DELETE", UNEXPECTED),
                ("pods/eviction", "CREATE", own),
                ("pods/eviction", "UPDATE", UNEXPECTED),
                ("pods/eviction", "DELETE", UNEXPECTED),
                ("pods/eviction unnamed", "CREATE", own),
            ):
                message = "forbid" if expected else "allow"
                title = f"{message} {operation.lower()} of {row} for {kind} pod bound to {whose}"
                rows.append(pytest.param(operation, row, name, expected, id=title))
    return rows


@pytest.mark.parametrize(("operation", "subject", "name", "expected"), _rows())
def test_pods_are_restricted_by_node(operation: str, subject: str, name: str, expected: str) -> None:
    resource, _blank, unnamed = subject.partition(" ")
    pod = BY_NAME[name]
    if resource == "pods/eviction":
        body = eviction("" if unnamed else name)
        expect(admit(operation, resource, body, name=name, namespace="ns"), expected)
        return
    new = None if operation == "DELETE" else copy.deepcopy(pod)
    old = None if operation == "CREATE" else pod
    existing = EXISTING[:1] if operation == "CREATE" else EXISTING
    expect(admit(operation, resource, new, old, name=name, namespace="ns", existing=existing), expected)


MYPOD = BY_NAME["mypod"]


@cases(
    "new, old",
    {
        "added label": (labelled(MYPOD, a="a", b="b"), labelled(MYPOD, a="a")),
        "removed label": (labelled(MYPOD, a="a"), labelled(MYPOD, a="a", b="b")),
        "the first": (labelled(MYPOD, a="a"), MYPOD),
        "removed all labels": (MYPOD, labelled(MYPOD, a="a")),
        "changed": (labelled(MYPOD, a="b"), labelled(MYPOD, a="a")),
    },
)
def test_status_update_cannot_change_labels(new: Object, old: Object) -> None:
    expect(admit("UPDATE", "pods/status", new, old), "cannot update labels through pod status")


def with_status(**status: Any) -> Object:
    return {**MYPOD, "status": status}


def mapped(request: str) -> Object:
    status = {"resourceClaimName": "c", "requestMappings": [{"requestName": request}]}
    return with_status(extendedResourceClaimStatus=status)


@cases(
    "new, old, words",
    {
        "extended resources": (
            with_status(extendedResourceClaimStatus={"resourceClaimName": "myclaim"}),
            MYPOD,
            "cannot update extended resource claim status",
        ),
        "mapped to other requests": (mapped("b"), mapped("a"), "cannot update extended resource claim status"),
        "a claim gets its name": (
            with_status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "mine"}]),
            with_status(resourceClaimStatuses=[{"name": "a"}]),
            "cannot update resource claim statues",
        ),
        "a claim less": (
            with_status(),
            with_status(resourceClaimStatuses=[{"name": "a"}]),
            "cannot update resource claim statues",
        ),
        "other fields of the status": (
            with_status(phase="Running", resourceClaimStatuses=[{"name": "a", "resourceClaimName": "b"}]),
            with_status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "b"}]),
            "",
        ),
    },
)
def test_status_update_cannot_change_resource_claim_statuses(new: Object, old: Object, words: str) -> None:
    expect(admit("UPDATE", "pods/status", new, old), words)


@cases(
    "operation, resource, obj, name, words",
    {
        "delete": ("DELETE", "pods", None, "mypod", 'pod "mypod" not found'),
        "evict": ("CREATE", "pods/eviction", eviction("mypod"), "mypod", 'pod "mypod" not found'),
        "evict, unnamed": ("CREATE", "pods/eviction", eviction(""), "mypod", 'pod "mypod" not found'),
        "update of eviction": ("UPDATE", "pods/eviction", eviction("mypod"), "mypod", UNEXPECTED),
        "delete of eviction": ("DELETE", "pods/eviction", eviction("mypod"), "mypod", UNEXPECTED),
    },
)
def test_missing_pod(operation: str, resource: str, obj: Object | None, name: str, words: str) -> None:
    error = admit(operation, resource, obj, name=name, namespace="ns", existing=())
    expect(error, words)
    if "not found" in words:
        assert error is not None
        assert (error.code, error.details) == (404, {"name": "mypod", "kind": "pod"})


@cases(
    "operation, name, words",
    {
        "allow create by the name in the eviction": ("CREATE", "mypod", ""),
        "forbid create without any name": ("CREATE", "", "could not determine pod from request data"),
        "forbid update": ("UPDATE", "mypod", UNEXPECTED),
        "forbid delete": ("DELETE", "mypod", UNEXPECTED),
    },
)
def test_eviction_without_a_pod_name_in_the_path(operation: str, name: str, words: str) -> None:
    expect(admit(operation, "pods/eviction", eviction(name), name="", namespace="ns"), words)


def volume(**source: Any) -> Object:
    return make_pod("p", mirror=True, volumes=[{"name": "v", **source}])


def projected(**source: Any) -> Object:
    return volume(projected={"sources": [source]})


def contained(field: str = "containers", **container: Any) -> Object:
    pod = make_pod("p", mirror=True)
    pod["spec"][field] = [{"name": "c", **container}]
    return pod


@cases(
    "pod, words",
    {
        "account": (make_pod("p", mirror=True, serviceAccountName="foo"), "reference serviceaccounts"),
        "secret": (volume(secret={"secretName": "foo"}), "reference secrets"),
        "configmap": (volume(configMap={"name": "foo"}), "reference configmaps"),
        "trust bundle": (projected(clusterTrustBundle={"name": "foo"}), "reference clustertrustbundles"),
        "claim": (volume(persistentVolumeClaim={"claimName": "foo"}), "reference persistentvolumeclaims"),
        "resource claim": (
            make_pod("p", mirror=True, resourceClaims=[{"name": "a", "resourceClaimName": "b"}]),
            "reference resourceclaims",
        ),
        "pull": (make_pod("p", mirror=True, imagePullSecrets=[{"name": "s"}]), "reference secrets"),
        "secret in a variable": (
            contained(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            "reference secrets",
        ),
        "envFrom": (contained("initContainers", envFrom=[{"configMapRef": {"name": "c"}}]), "reference configmaps"),
        "cinder": (volume(cinder={"volumeID": "v", "secretRef": {"name": "s"}}), "reference secrets"),
        "csi": (volume(csi={"driver": "d"}), "reference csidrivers (via CSI volumes)"),
        "glusterfs": (volume(glusterfs={}), "reference endpoints (via glusterFS volumes)"),
        "ephemeral": (volume(ephemeral={}), "persistentvolumeclaims (via ephemeral volumes)"),
        "azureFile": (volume(azureFile={"shareName": "s"}), "secrets (via azureFile volumes)"),
        "token": (projected(serviceAccountToken={}), "serviceaccounts (via projected volumes)"),
        "projected configmap": (projected(configMap={}), "configmaps (via projected volumes)"),
        "pod certificate": (projected(podCertificate={}), "reference podcertificates"),
        "unknown projection": (
            projected(unheardOf={}),
            'error checking mirror pod for API references: unknown source for projected volume "v"',
        ),
        "unknown volume": (
            volume(unheardOf={}),
            'error checking mirror pod for API references: unknown volume type for volume  "v"',
        ),
        "hostPath": (volume(hostPath={"path": "/"}), ""),
        "projected downward API": (projected(downwardAPI={}), ""),
    },
)
def test_mirror_pod_references(pod: Object, words: str) -> None:
    expect(admit("CREATE", "pods", pod, existing=EXISTING[:1]), words)


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "mynode", "uid": "mynode-uid", "controller": True}
ANOTHER_UID = (("nodes", {"metadata": {"name": "mynode", "uid": "mynode-unexpected-uid"}}),)
OWN = "can only create pods with an owner reference set to itself"


@cases(
    "owners, existing, words",
    {
        "no owner": ([], EXISTING[:1], f'pods "test" is forbidden: node "mynode" {OWN}'),
        "valid owner": ([OWNER], EXISTING[:1], ""),
        "duplicate owner": ([OWNER, OWNER], EXISTING[:1], "with a single owner reference set to itself"),
        "invalid name": ([{**OWNER, "name": "other"}], EXISTING[:1], OWN),
        "invalid UID": (
            [OWNER],
            ANOTHER_UID,
            "node mynode UID mismatch: expected mynode-uid got mynode-unexpected-uid",
        ),
        "node not found": ([OWNER], (), 'node "mynode" not found'),
        "invalid API version": ([{**OWNER, "apiVersion": "v2"}], EXISTING[:1], OWN),
        "invalid kind": ([{**OWNER, "kind": "Pod"}], EXISTING[:1], OWN),
        "nil controller": ([{**OWNER, "controller": None}], EXISTING[:1], "a controller owner reference"),
        "false controller": ([{**OWNER, "controller": False}], EXISTING[:1], "a controller owner reference"),
        "invalid blockOwnerDeletion": (
            [{**OWNER, "blockOwnerDeletion": True}],
            EXISTING[:1],
            "must not set blockOwnerDeletion on an owner reference",
        ),
    },
)
def test_mirror_pod_owner_references(owners: list[Object], existing: Any, words: str) -> None:
    pod = make_pod("test", mirror=True)
    pod["metadata"]["ownerReferences"] = owners
    expect(admit("CREATE", "pods", pod, existing=existing), words)


def test_other_subresources_are_forbidden() -> None:
    error = admit("UPDATE", "pods/ephemeralcontainers", MYPOD, MYPOD)
    expect(error, "unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed")


@pytest.mark.parametrize("resource", ["pods", "pods/status"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_an_unrelated_user(operation: str, resource: str) -> None:
    pod = BY_NAME["unboundpod"]
    old = None if operation == "CREATE" else pod
    expect(admit(operation, resource, None if operation == "DELETE" else pod, old, user=BOB), "")
