"""Pods that nodes create, delete, evict and report about: kubernetes
``plugin/pkg/admission/noderestriction/admission_test.go``, ``Test_nodePlugin_Admit`` and
``Test_nodePlugin_Admit_OwnerReference`` (v1.36)."""

import copy
from typing import Any

import pytest
from tests.apiserver.api import Object
from tests.apiserver.node_restriction.writes import BOB, BY_NAME, EXISTING, admit, expect, labelled, make_pod

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
            for what, operation, expected in (
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
                told = "forbid" if expected else "allow"
                title = f"{told} {operation.lower()} of {what} for {kind} pod bound to {whose}"
                rows.append(pytest.param(operation, what, name, expected, id=title))
    return rows


@pytest.mark.parametrize(("operation", "what", "name", "expected"), _rows())
def test_pods_by_their_node(operation: str, what: str, name: str, expected: str) -> None:
    resource, _blank, unnamed = what.partition(" ")
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


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(labelled(MYPOD, a="a", b="b"), labelled(MYPOD, a="a"), id="one more"),
        pytest.param(labelled(MYPOD, a="a"), labelled(MYPOD, a="a", b="b"), id="one less"),
        pytest.param(labelled(MYPOD, a="a"), MYPOD, id="the first"),
        pytest.param(MYPOD, labelled(MYPOD, a="a"), id="none left"),
        pytest.param(labelled(MYPOD, a="b"), labelled(MYPOD, a="a"), id="changed"),
    ],
)
def test_a_status_brings_no_labels(new: Object, old: Object) -> None:
    expect(admit("UPDATE", "pods/status", new, old), "cannot update labels through pod status")


def with_status(**status: Any) -> Object:
    return {**MYPOD, "status": status}


def mapped(request: str) -> Object:
    status = {"resourceClaimName": "c", "requestMappings": [{"requestName": request}]}
    return with_status(extendedResourceClaimStatus=status)


@pytest.mark.parametrize(
    ("new", "old", "words"),
    [
        pytest.param(
            with_status(extendedResourceClaimStatus={"resourceClaimName": "myclaim"}),
            MYPOD,
            "cannot update extended resource claim status",
            id="extended resources",
        ),
        pytest.param(
            mapped("b"),
            mapped("a"),
            "cannot update extended resource claim status",
            id="mapped to other requests",
        ),
        pytest.param(
            with_status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "mine"}]),
            with_status(resourceClaimStatuses=[{"name": "a"}]),
            "cannot update resource claim statues",
            id="a claim gets its name",
        ),
        pytest.param(
            with_status(),
            with_status(resourceClaimStatuses=[{"name": "a"}]),
            "cannot update resource claim statues",
            id="a claim less",
        ),
        pytest.param(
            with_status(phase="Running", resourceClaimStatuses=[{"name": "a", "resourceClaimName": "b"}]),
            with_status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "b"}]),
            "",
            id="all other status",
        ),
    ],
)
def test_a_status_changes_no_claims(new: Object, old: Object, words: str) -> None:
    expect(admit("UPDATE", "pods/status", new, old), words)


@pytest.mark.parametrize(
    ("operation", "resource", "obj", "name", "words"),
    [
        pytest.param("DELETE", "pods", None, "mypod", 'pod "mypod" not found', id="delete"),
        pytest.param("CREATE", "pods/eviction", eviction("mypod"), "mypod", 'pod "mypod" not found', id="evict"),
        pytest.param("CREATE", "pods/eviction", eviction(""), "mypod", 'pod "mypod" not found', id="evict, unnamed"),
        pytest.param("UPDATE", "pods/eviction", eviction("mypod"), "mypod", UNEXPECTED, id="update of eviction"),
        pytest.param("DELETE", "pods/eviction", eviction("mypod"), "mypod", UNEXPECTED, id="delete of eviction"),
    ],
)
def test_a_pod_that_is_not_there(operation: str, resource: str, obj: Object | None, name: str, words: str) -> None:
    error = admit(operation, resource, obj, name=name, namespace="ns", existing=())
    expect(error, words)
    if "not found" in words:
        assert error is not None
        assert (error.code, error.details) == (404, {"name": "mypod", "kind": "pod"})


@pytest.mark.parametrize(
    ("operation", "name", "words"),
    [
        pytest.param("CREATE", "mypod", "", id="allow create by the name in the eviction"),
        pytest.param("CREATE", "", "could not determine pod from request data", id="forbid create without any name"),
        pytest.param("UPDATE", "mypod", UNEXPECTED, id="forbid update"),
        pytest.param("DELETE", "mypod", UNEXPECTED, id="forbid delete"),
    ],
)
def test_an_eviction_that_names_no_pod_in_its_path(operation: str, name: str, words: str) -> None:
    expect(admit(operation, "pods/eviction", eviction(name), name="", namespace="ns"), words)


def volume(**source: Any) -> Object:
    return make_pod("p", mirror=True, volumes=[{"name": "v", **source}])


def projected(**source: Any) -> Object:
    return volume(projected={"sources": [source]})


def contained(field: str = "containers", **container: Any) -> Object:
    pod = make_pod("p", mirror=True)
    pod["spec"][field] = [{"name": "c", **container}]
    return pod


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        pytest.param(make_pod("p", mirror=True, serviceAccountName="foo"), "reference serviceaccounts", id="account"),
        pytest.param(volume(secret={"secretName": "foo"}), "reference secrets", id="secret"),
        pytest.param(volume(configMap={"name": "foo"}), "reference configmaps", id="configmap"),
        pytest.param(projected(clusterTrustBundle={"name": "foo"}), "reference clustertrustbundles", id="trust bundle"),
        pytest.param(
            volume(persistentVolumeClaim={"claimName": "foo"}), "reference persistentvolumeclaims", id="claim"
        ),
        pytest.param(
            make_pod("p", mirror=True, resourceClaims=[{"name": "a", "resourceClaimName": "b"}]),
            "reference resourceclaims",
            id="resource claim",
        ),
        pytest.param(make_pod("p", mirror=True, imagePullSecrets=[{"name": "s"}]), "reference secrets", id="pull"),
        pytest.param(
            contained(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
            "reference secrets",
            id="secret in a variable",
        ),
        pytest.param(
            contained("initContainers", envFrom=[{"configMapRef": {"name": "c"}}]), "reference configmaps", id="envFrom"
        ),
        pytest.param(volume(cinder={"volumeID": "v", "secretRef": {"name": "s"}}), "reference secrets", id="cinder"),
        pytest.param(volume(csi={"driver": "d"}), "reference csidrivers (via CSI volumes)", id="csi"),
        pytest.param(volume(glusterfs={}), "reference endpoints (via glusterFS volumes)", id="glusterfs"),
        pytest.param(volume(ephemeral={}), "persistentvolumeclaims (via ephemeral volumes)", id="ephemeral"),
        pytest.param(volume(azureFile={"shareName": "s"}), "secrets (via azureFile volumes)", id="azureFile"),
        pytest.param(projected(serviceAccountToken={}), "serviceaccounts (via projected volumes)", id="token"),
        pytest.param(projected(configMap={}), "configmaps (via projected volumes)", id="projected configmap"),
        pytest.param(projected(podCertificate={}), "reference podcertificates", id="pod certificate"),
        pytest.param(
            projected(unheardOf={}),
            'error checking mirror pod for API references: unknown source for projected volume "v"',
            id="unknown projection",
        ),
        pytest.param(
            volume(unheardOf={}),
            'error checking mirror pod for API references: unknown volume type for volume  "v"',
            id="unknown volume",
        ),
        pytest.param(volume(hostPath={"path": "/"}), "", id="hostPath"),
        pytest.param(projected(downwardAPI={}), "", id="projected downward API"),
    ],
)
def test_what_mirror_pods_refer_to(pod: Object, words: str) -> None:
    expect(admit("CREATE", "pods", pod, existing=EXISTING[:1]), words)


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "mynode", "uid": "mynode-uid", "controller": True}
ANOTHER_UID = (("nodes", {"metadata": {"name": "mynode", "uid": "mynode-unexpected-uid"}}),)
OWN = "can only create pods with an owner reference set to itself"


@pytest.mark.parametrize(
    ("owners", "existing", "words"),
    [
        pytest.param([], EXISTING[:1], f'pods "test" is forbidden: node "mynode" {OWN}', id="no owner"),
        pytest.param([OWNER], EXISTING[:1], "", id="valid owner"),
        pytest.param([OWNER, OWNER], EXISTING[:1], "with a single owner reference set to itself", id="duplicate owner"),
        pytest.param([{**OWNER, "name": "other"}], EXISTING[:1], OWN, id="invalid name"),
        pytest.param(
            [OWNER],
            ANOTHER_UID,
            "node mynode UID mismatch: expected mynode-uid got mynode-unexpected-uid",
            id="invalid UID",
        ),
        pytest.param([OWNER], (), 'node "mynode" not found', id="node not found"),
        pytest.param([{**OWNER, "apiVersion": "v2"}], EXISTING[:1], OWN, id="invalid API version"),
        pytest.param([{**OWNER, "kind": "Pod"}], EXISTING[:1], OWN, id="invalid kind"),
        pytest.param(
            [{**OWNER, "controller": None}], EXISTING[:1], "a controller owner reference", id="nil controller"
        ),
        pytest.param(
            [{**OWNER, "controller": False}], EXISTING[:1], "a controller owner reference", id="false controller"
        ),
        pytest.param(
            [{**OWNER, "blockOwnerDeletion": True}],
            EXISTING[:1],
            "must not set blockOwnerDeletion on an owner reference",
            id="invalid blockOwnerDeletion",
        ),
    ],
)
def test_owners_of_mirror_pods(owners: list[Object], existing: Any, words: str) -> None:
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
