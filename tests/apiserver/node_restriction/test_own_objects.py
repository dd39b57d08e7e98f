"""Nodes, Leases, CSINodes, ResourceSlices, claims and certificates: kubernetes
``plugin/pkg/admission/noderestriction/admission_test.go`` (v1.36), ``Test_nodePlugin_Admit``,
``Test_getModifiedLabels``, ``TestAdmitPVCStatus`` and ``TestAdmitResourceSlice``."""

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.apiserver.api import Object
from tests.apiserver.node_restriction.writes import admit, expect, make_node
from tests.tables import cases

from pilothouse.apiserver.admission.node_restriction.nodes import (
    KUBELET_LABEL_NAMESPACES,
    KUBELET_LABELS,
    modified_labels,
)
from pilothouse.apiserver.authentication.identity import Identity


def allowed_labels(value: str = "value") -> dict[str, str]:
    keys = {
        "foo",
        "example.com/foo",
        "kubelet.kubernetes.io/foo",
        "foo.kubelet.kubernetes.io/foo",
        "node.kubernetes.io/foo",
        "foo.node.kubernetes.io/foo",
        *KUBELET_LABELS,
        *(f"{namespace}/foo" for namespace in KUBELET_LABEL_NAMESPACES),
        *(f"foo.{namespace}/foo" for namespace in KUBELET_LABEL_NAMESPACES),
    }
    return dict.fromkeys(sorted(keys), value)


def forbidden_labels(value: str = "value") -> dict[str, str]:
    return {
        "node-restriction.kubernetes.io/foo": value,
        "foo.node-restriction.kubernetes.io/foo": value,
        "other.kubernetes.io/foo": value,
        "other.k8s.io/foo": value,
    }


def test_kubelet_labels() -> None:
    assert sorted(KUBELET_LABELS) == [
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    ]


ALL_LABELS = {**allowed_labels(), **forbidden_labels()}
FORBIDDEN = (
    "foo.node-restriction.kubernetes.io/foo, node-restriction.kubernetes.io/foo, other.k8s.io/foo, "
    "other.kubernetes.io/foo"
)
MINE, OTHER = make_node(), make_node("othernode")
TAINT_A, TAINT_B = (make_node(taints=[{"key": "mykey", "value": value}]) for value in "AB")
CONFIG_A, CONFIG_B = (
    make_node(configSource={"configMap": {"name": name, "namespace": "bar", "kubeletConfigKey": "kubelet"}})
    for name in ("foo", "qux")
)
OWNED_A, OWNED_B = make_node(owner="fooerA"), make_node(owner="fooerB")
NO_LABELS = f"is not allowed to modify labels: {FORBIDDEN}"
NO_CONFIG = "update configSource to a new non-nil configSource"
NO_TAINTS = 'node "mynode" is not allowed to modify taints'
NO_OWNERS = 'node "mynode" is not allowed to modify ownerReferences'
NOT_THAT = 'node "mynode" is not allowed to modify node "othernode"'


@cases(
    "operation, new, old, words",
    {
        "allow create of my node": ("CREATE", MINE, None, ""),
        "allow create of my node with taints": ("CREATE", TAINT_A, None, ""),
        "allow create of my node with labels": ("CREATE", make_node(labels=allowed_labels()), None, ""),
        "forbid create of my node with forbidden labels": (
            "CREATE",
            make_node(labels=forbidden_labels()),
            None,
            f"is not allowed to set the following labels: {FORBIDDEN}",
        ),
        "allow update of my node": ("UPDATE", MINE, MINE, ""),
        "allow delete of my node": ("DELETE", None, MINE, ""),
        "forbid create of my node with non-nil configSource": (
            "CREATE",
            CONFIG_A,
            None,
            "is not allowed to create pods with a non-nil configSource",
        ),
        "forbid update: nil configSource to non-nil": ("UPDATE", CONFIG_A, MINE, NO_CONFIG),
        "forbid update: configSource to another": ("UPDATE", CONFIG_B, CONFIG_A, NO_CONFIG),
        "allow update: non-nil configSource unchanged": ("UPDATE", CONFIG_A, CONFIG_A, ""),
        "allow update: non-nil configSource to nil": ("UPDATE", MINE, CONFIG_A, ""),
        "allow update: no change to taints": ("UPDATE", TAINT_A, TAINT_A, ""),
        "allow update: add allowed labels": ("UPDATE", make_node(labels=allowed_labels()), MINE, ""),
        "allow update: remove allowed labels": ("UPDATE", MINE, make_node(labels=allowed_labels()), ""),
        "allow update: modify allowed labels": (
            "UPDATE",
            make_node(labels=allowed_labels("b")),
            make_node(labels=allowed_labels("a")),
            "",
        ),
        "allow update: same labels": ("UPDATE", make_node(labels=ALL_LABELS), make_node(labels=ALL_LABELS), ""),
        "allow update: add allowed labels while forbidden labels exist unmodified": (
            "UPDATE",
            make_node(labels=ALL_LABELS),
            make_node(labels=forbidden_labels()),
            "",
        ),
        "allow update: remove allowed labels while forbidden labels exist unmodified": (
            "UPDATE",
            make_node(labels=forbidden_labels()),
            make_node(labels=ALL_LABELS),
            "",
        ),
        "forbid update: add taints": ("UPDATE", TAINT_A, MINE, NO_TAINTS),
        "forbid update: remove taints": ("UPDATE", MINE, TAINT_A, NO_TAINTS),
        "forbid update: change taints": ("UPDATE", TAINT_A, TAINT_B, NO_TAINTS),
        "forbid update: add labels": ("UPDATE", make_node(labels=forbidden_labels()), MINE, NO_LABELS),
        "forbid update: remove labels": ("UPDATE", MINE, make_node(labels=forbidden_labels()), NO_LABELS),
        "forbid update: change labels": (
            "UPDATE",
            make_node(labels=forbidden_labels("new")),
            make_node(labels=forbidden_labels("old")),
            NO_LABELS,
        ),
        "forbid update: add owner reference": ("UPDATE", OWNED_A, MINE, NO_OWNERS),
        "forbid update: remove owner reference": ("UPDATE", MINE, OWNED_A, NO_OWNERS),
        "forbid update: change owner reference": ("UPDATE", OWNED_A, OWNED_B, NO_OWNERS),
        "forbid create of other node": ("CREATE", OTHER, None, NOT_THAT),
        "forbid update of other node": ("UPDATE", OTHER, OTHER, NOT_THAT),
        "forbid delete of other node": ("DELETE", None, OTHER, NOT_THAT),
    },
)
def test_nodes(operation: str, new: Object | None, old: Object | None, words: str) -> None:
    expect(admit(operation, "nodes", new, old), words)


@cases(
    "node, words",
    {"own Node": (MINE, ""), "another Node": (OTHER, "is not allowed to modify node")},
)
def test_the_status_of_nodes(node: Object, words: str) -> None:
    expect(admit("UPDATE", "nodes/status", node, node), words)


def test_node_without_a_name_is_rejected() -> None:
    node = {"metadata": {"generateName": "mynode"}}
    expect(admit("CREATE", "nodes", node, name=""), 'node "mynode" is not allowed to modify node ""')


def test_user_of_group_nodes_without_a_node_name() -> None:
    unauthenticated = Identity("system:node:", ("system:nodes",))
    configmap = {"metadata": {"name": "c", "namespace": "ns"}}
    expect(
        admit("CREATE", "configmaps", configmap, user=unauthenticated),
        'could not determine node from user "system:node:"',
    )


@cases(
    "old, new, modified",
    {
        "empty": ({}, {}, ""),
        "no change": ({"x": "1", "y": "2"}, {"x": "1", "y": "2"}, ""),
        "added": ({}, {"a": "0"}, "a"),
        "removed": ({"z": "3"}, {}, "z"),
        "changed": ({"z": "3"}, {"z": "4"}, "z"),
        "added empty": ({}, {"a": ""}, "a"),
        "removed empty": ({"z": ""}, {}, "z"),
        "changed to empty": ({"z": "3"}, {"z": ""}, "z"),
        "changed from empty": ({"z": ""}, {"z": "3"}, "z"),
        "added, removed and changed": ({"a": "1", "b": "2"}, {"a": "2", "c": "3"}, "abc"),
    },
)
def test_modified_labels(old: dict[str, str], new: dict[str, str], modified: str) -> None:
    assert modified_labels(new, old) == set(modified)


LEASE_NAMESPACE = 'can only access leases in the "kube-node-lease" system namespace'
LEASE_NAME = "can only access node lease with the same name as the requesting node"
CSI_NODE = "can only access CSINode with the same name as the requesting node"


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@cases(
    "resource, meta, words",
    {
        "lease": ("leases", {"name": "mynode", "namespace": "kube-node-lease"}, ""),
        "lease in another namespace": ("leases", {"name": "mynode", "namespace": "foo"}, LEASE_NAMESPACE),
        "another node's lease": ("leases", {"name": "foo", "namespace": "kube-node-lease"}, LEASE_NAME),
        "CSINode": ("csinodes", {"name": "mynode"}, ""),
        "another node's CSINode": ("csinodes", {"name": "foo"}, CSI_NODE),
        "unrelated object": ("configmaps", {"name": "mycm", "namespace": "myns"}, ""),
    },
)
def test_objects_are_restricted_by_name(operation: str, resource: str, meta: Object, words: str) -> None:
    new = None if operation == "DELETE" else {"metadata": meta}
    old = None if operation == "CREATE" else {"metadata": meta}
    expect(admit(operation, resource, new, old), words)


@cases(
    "operation, node, words",
    {
        "create allowed": ("CREATE", "mynode", ""),
        "create disallowed": ("CREATE", "other", "can only create ResourceSlice with the same NodeName"),
        "create, no node name": ("CREATE", "", "can only create ResourceSlice with the same NodeName"),
        "update allowed, same node": ("UPDATE", "mynode", ""),
        "update allowed, other node": ("UPDATE", "other", ""),
        "update allowed, no node": ("UPDATE", "", ""),
        "delete allowed": ("DELETE", "mynode", ""),
        "delete disallowed": ("DELETE", "other", "can only delete ResourceSlice with the same NodeName"),
        "delete, no node name": ("DELETE", "", "can only delete ResourceSlice with the same NodeName"),
    },
)
def test_resource_slices(operation: str, node: str, words: str) -> None:
    result = {"metadata": {"name": "something"}, "spec": {"nodeName": node} if node else {}}
    new = None if operation == "DELETE" else result
    expect(admit(operation, "resourceslices", new, None if operation == "CREATE" else result), words)


def claim(condition: str = "", allocated: str = "10G", resize_status: str = "") -> Object:
    """``makeTestPVC``."""
    status: Object = {
        "capacity": {"storage": allocated},
        "phase": "Bound",
        "allocatedResources": {"storage": allocated},
    }
    if resize_status:
        status["allocatedResourceStatuses"] = {"storage": resize_status}
    if condition:
        status["conditions"] = [{"type": condition, "status": "True"}]
    meta = {"name": "foo", "namespace": "default", "resourceVersion": "7"}
    return {"metadata": meta, "spec": {"volumeName": "volume1"}, "status": status}


def changed(**more: Any) -> Object:
    resized = claim("Resizing")
    return {**resized, "metadata": {**resized["metadata"], **more}}


NOT_ALLOWED = "is not allowed to update fields other than status.quantity and status.conditions"


@cases(
    "operation, resource, new, words",
    {
        "claim instead of its status": ("UPDATE", "persistentvolumeclaims", claim(), "may only update PVC status"),
        "a new claim": ("CREATE", "persistentvolumeclaims", claim(), "may only update PVC status"),
        "condition": ("UPDATE", "persistentvolumeclaims/status", claim("FileSystemResizePending"), ""),
        "capacity": ("UPDATE", "persistentvolumeclaims/status", claim("Resizing", "15G"), ""),
        "resizing": ("UPDATE", "persistentvolumeclaims/status", claim("Resizing", "10G", "NodeResizeInfeasible"), ""),
        "revision": ("UPDATE", "persistentvolumeclaims/status", changed(resourceVersion="8"), ""),
        "labels": ("UPDATE", "persistentvolumeclaims/status", changed(labels={"a": "b"}), NOT_ALLOWED),
        "finalizers": ("UPDATE", "persistentvolumeclaims/status", changed(finalizers=["a/b"]), NOT_ALLOWED),
        "create": ("CREATE", "persistentvolumeclaims/status", claim(), 'unexpected operation "CREATE"'),
    },
)
def test_claims(operation: str, resource: str, new: Object, words: str) -> None:
    expect(admit(operation, resource, new, None if operation == "CREATE" else claim("Resizing")), words)


def test_rejection_shows_the_difference() -> None:
    error = admit("UPDATE", "persistentvolumeclaims/status", changed(labels={"a": "b"}), claim("Resizing"))
    assert error is not None
    assert error.message.partition(f"{NOT_ALLOWED}: ")[2] == (
        '@@ -1,6 +1,9 @@\n {\n  "name": "foo",\n  "namespace": "default",\n'
        '+ "labels": {\n+  "a": "b"\n+ },\n'
        '  "Spec": {\n   "AccessModes": null,\n   "Selector": null,\n'
    )


SERVING, KUBELET_CLIENT, CLIENT = (
    f"kubernetes.io/{name}" for name in ("kubelet-serving", "kube-apiserver-client-kubelet", "kube-apiserver-client")
)


def request(common_name: str, signer: str, *, valid: bool = True) -> Object:
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----"
    if valid:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        key = ec.generate_private_key(ec.SECP256R1())
        csr = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        pem = csr.public_bytes(serialization.Encoding.PEM)
    return {"metadata": {"name": "c"}, "spec": {"request": base64.b64encode(pem).decode(), "signerName": signer}}


@cases(
    "attributes, words",
    {
        "allowed, node serving": (request("system:node:mynode", SERVING), ""),
        "allowed, node client": (request("system:node:mynode", KUBELET_CLIENT), ""),
        "allowed, non-node CSR": (request("some-other-identity", CLIENT), ""),
        "deny, incorrect node": (
            request("system:node:othernode", SERVING),
            "forbidden: can only create a node CSR with CN=system:node:mynode",
        ),
        "deny, invalid": (request("system:node:mynode", SERVING, valid=False), "unable to parse csr: "),
    },
)
def test_certificate_requests(attributes: Object, words: str) -> None:
    expect(admit("CREATE", "certificatesigningrequests", attributes), words)


def test_certificate_requests_are_checked_on_create_only() -> None:
    csr_spec = request("system:node:othernode", SERVING)
    expect(admit("UPDATE", "certificatesigningrequests/status", csr_spec, csr_spec), "")


def test_pod_certificate_requests_require_the_gate() -> None:
    csr_spec = {"metadata": {"name": "foo", "namespace": "ns"}, "spec": {"nodeName": "mynode"}}
    expect(admit("CREATE", "podcertificaterequests", csr_spec), "PodCertificateRequest feature gate is disabled")
