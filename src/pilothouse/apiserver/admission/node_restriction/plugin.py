"""The plugin NodeRestriction: identifies the node and applies the rule for the resource that it writes."""

import base64
from collections.abc import Callable

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.admission.node_restriction.mirror_pods import validate_mirror_pod, validate_references
from pilothouse.apiserver.admission.node_restriction.nodes import validate_new_node, validate_node_update
from pilothouse.apiserver.admission.node_restriction.objects import find_object
from pilothouse.apiserver.admission.node_restriction.token_requests import admit_token_request
from pilothouse.apiserver.authorization.node_identifier import USER_PREFIX, node_identity
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.certificate_requests import (
    KUBELET_CLIENT,
    KUBELET_SERVING,
    UnreadableRequest,
    parse_request,
    requested_names,
)

_NODE_LEASES = "kube-node-lease"
_KUBELET_SIGNERS = (KUBELET_SERVING, KUBELET_CLIENT)
_NODE_OWNED_CLAIM_STATUS = ("capacity", "conditions", "allocatedResourceStatuses", "allocatedResources")
"""The fields in the status of a claim that a node may write, after it has expanded the file system."""


class NodeRestriction(Plugin):
    """Validates the writes of nodes. Other users are not restricted."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rules: dict[str, Callable[[str, AdmissionAttributes], None]] = {
            "pods": self._admit_pods,
            "nodes": self._admit_node,
            "persistentvolumeclaims": self._admit_claim,
            "serviceaccounts": self._admit_service_account,
            "podcertificaterequests.certificates.k8s.io": self._admit_pod_certificate_request,
            "leases.coordination.k8s.io": self._admit_lease,
            "csinodes.storage.k8s.io": self._admit_csi_node,
            "resourceslices.resource.k8s.io": self._admit_resource_slice,
            "certificatesigningrequests.certificates.k8s.io": self._admit_certificate_request,
        }

    def reads_updates(self, resource: str) -> bool:
        return resource != "leases.coordination.k8s.io"

    def admit(self, write: AdmissionAttributes) -> None:
        node_name = node_identity(write.identity)
        if node_name is None:
            return
        if not node_name:
            raise new_forbidden(write, f"could not determine node from user {quote(write.identity.user)}")
        rule = self._rules.get(write.info.group_resource)
        if rule is not None:
            rule(node_name, write)

    # Pods

    def _admit_pods(self, node_name: str, write: AdmissionAttributes) -> None:
        match write.subresource:
            case "":
                self._admit_pod(node_name, write)
            case "status":
                self._admit_pod_status(node_name, write)
            case "eviction":
                self._admit_pod_eviction(node_name, write)
            case other:
                reason = f"unexpected pod subresource {quote(other)}, only 'status' and 'eviction' are allowed"
                raise new_forbidden(write, reason)

    def _admit_pod(self, node_name: str, write: AdmissionAttributes) -> None:
        node = f"node {quote(node_name)}"
        match write.operation:
            case "CREATE":
                self._admit_pod_create(node_name, write)
            case "DELETE":
                if self._node_of_pod(write, write.name) != node_name:
                    raise new_forbidden(write, f"{node} can only delete pods with spec.nodeName set to itself")
            case other:
                raise new_forbidden(
                    write, f'unexpected operation "{other}", {node} can only create and delete mirror pods'
                )

    def _admit_pod_create(self, node_name: str, write: AdmissionAttributes) -> None:
        pod = _object(write)
        reason = validate_mirror_pod(node_name, pod)
        if reason:
            raise new_forbidden(write, reason)
        owner_uid = pod["metadata"]["ownerReferences"][0].get("uid") or ""
        uid = find_object(self._core.store, "nodes", node_name)["metadata"]["uid"]
        if owner_uid != uid:
            raise new_forbidden(write, f"node {node_name} UID mismatch: expected {owner_uid} got {uid}")
        reason = validate_references(node_name, pod)
        if reason:
            raise new_forbidden(write, reason)

    def _admit_pod_status(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.operation != "UPDATE":
            raise new_forbidden(write, f'unexpected operation "{write.operation}"')
        node, pod, old = f"node {quote(node_name)}", _object(write), _old(write)
        if ((old.get("spec") or {}).get("nodeName") or "") != node_name:
            reason = f"{node} can only update pod status for pods with spec.nodeName set to itself"  # noqa: S608  # prose
            raise new_forbidden(write, reason)
        if (pod["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
            raise new_forbidden(write, f"{node} cannot update labels through pod status")
        status, old_status = pod.get("status") or {}, old.get("status") or {}
        # "statues" is upstream's spelling.
        if (status.get("resourceClaimStatuses") or []) != (old_status.get("resourceClaimStatuses") or []):
            raise new_forbidden(write, f"{node} cannot update resource claim statues")
        if status.get("extendedResourceClaimStatus") != old_status.get("extendedResourceClaimStatus"):
            raise new_forbidden(write, f"{node} cannot update extended resource claim status")

    def _admit_pod_eviction(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.operation != "CREATE":
            raise new_forbidden(write, f"unexpected operation {write.operation}")
        name = write.name or (_object(write).get("metadata") or {}).get("name") or ""
        if not name:
            raise new_forbidden(write, "could not determine pod from request data")
        if self._node_of_pod(write, name) != node_name:
            raise new_forbidden(write, f"node {node_name} can only evict pods with spec.nodeName set to itself")

    def _node_of_pod(self, write: AdmissionAttributes, name: str) -> str:
        pod = find_object(self._core.store, "pods", name, namespace=write.namespace)
        return (pod.get("spec") or {}).get("nodeName") or ""

    # The node's own objects

    def _admit_node(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.name != node_name:
            raise new_forbidden(write, f"node {quote(node_name)} is not allowed to modify node {quote(write.name)}")
        reason = ""
        if write.operation == "CREATE":
            reason = validate_new_node(node_name, _object(write))
        elif write.operation == "UPDATE":
            reason = validate_node_update(node_name, _object(write), _old(write))
        if reason:
            raise new_forbidden(write, reason)

    def _admit_lease(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.namespace != _NODE_LEASES:
            raise new_forbidden(write, f'can only access leases in the "{_NODE_LEASES}" system namespace')
        if _name(write) != node_name:
            raise new_forbidden(write, "can only access node lease with the same name as the requesting node")

    def _admit_csi_node(self, node_name: str, write: AdmissionAttributes) -> None:
        if _name(write) != node_name:
            raise new_forbidden(write, "can only access CSINode with the same name as the requesting node")

    def _admit_resource_slice(self, node_name: str, write: AdmissionAttributes) -> None:
        # The Node authorizer checks updates; creations and the objects of a deletecollection are checked here.
        if write.operation == "CREATE":
            verb, resource_slice = "create", _object(write)
        elif write.operation == "DELETE":
            verb, resource_slice = "delete", _old(write)
        else:
            return
        if (resource_slice.get("spec") or {}).get("nodeName") != node_name:
            raise new_forbidden(write, f"can only {verb} ResourceSlice with the same NodeName as the requesting node")

    # On behalf of pods

    def _admit_claim(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.subresource != "status":
            raise new_forbidden(write, "may only update PVC status")
        if write.operation != "UPDATE":
            raise new_forbidden(write, f'unexpected operation "{write.operation}"')
        claim, old = _without_node_owned_fields(_object(write)), _without_node_owned_fields(_old(write))
        if claim != old:
            detail = "is not allowed to update fields other than status.quantity and status.conditions"
            diff = field_errors.internal_diff("core.PersistentVolumeClaim", old, claim)
            raise new_forbidden(write, f"node {quote(node_name)} {detail}: {diff}")

    def _admit_service_account(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.operation == "CREATE" and write.subresource == "token":
            admit_token_request(self._core, node_name, write)

    def _admit_pod_certificate_request(self, _node_name: str, write: AdmissionAttributes) -> None:
        raise new_forbidden(write, "PodCertificateRequest feature gate is disabled")

    def _admit_certificate_request(self, node_name: str, write: AdmissionAttributes) -> None:
        if write.operation != "CREATE":
            return
        spec = _object(write).get("spec") or {}
        if spec.get("signerName") not in _KUBELET_SIGNERS:
            return
        try:
            requested = requested_names(parse_request(base64.b64decode(spec.get("request") or "")))
        except (UnreadableRequest, ValueError) as error:
            raise new_forbidden(write, f"unable to parse csr: {error}") from None
        if requested.common_name != f"{USER_PREFIX}{node_name}":
            raise new_forbidden(write, f"can only create a node CSR with CN={USER_PREFIX}{node_name}")


def _object(write: AdmissionAttributes) -> Object:
    assert write.obj is not None, f"a {write.operation} has an object"
    return write.obj


def _old(write: AdmissionAttributes) -> Object:
    assert write.old is not None, f"a {write.operation} has an old object"
    return write.old


def _name(write: AdmissionAttributes) -> str:
    """The name of the object; for a create from the body."""
    if write.operation == "CREATE":
        return _object(write)["metadata"].get("name") or ""
    return write.name


def _without_node_owned_fields(claim: Object) -> Object:
    """A claim without the fields that a node may write and those that change with every write."""
    meta = {
        name: value for name, value in claim["metadata"].items() if name not in ("resourceVersion", "managedFields")
    }
    status = {
        name: value for name, value in (claim.get("status") or {}).items() if name not in _NODE_OWNED_CLAIM_STATUS
    }
    return {**claim, "metadata": meta, "status": status}
