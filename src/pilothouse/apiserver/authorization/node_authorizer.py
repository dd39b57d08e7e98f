"""Authorization mode Node: a node may read the objects that pods bound to it refer to.

After kubernetes' ``plugin/pkg/auth/authorizer/node/{node_authorizer,graph}.go`` and ``pkg/api/pod/util.go`` (v1.36).
Upstream maintains a graph; here an index finds the pods of the requesting node.
"""

from collections.abc import Callable, Iterable, Iterator

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Decision, ResolvedRules, Rule
from pilothouse.apiserver.authorization.node_identifier import node_identity
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.registry.core.pods.references import claim_names, config_map_names, secret_names
from pilothouse.apiserver.registry.generic.selection_predicate import Selection
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.machinery.fields import FieldSelector, FieldSelectorError, FieldTerm, parse_field_selector
from pilothouse.machinery.labels import EVERYTHING

_MIRROR = "kubernetes.io/config.mirror"
_READ = ("get", "list", "watch")
_OWN = ("get", "create", "update", "patch", "delete")
_LEASES = "kube-node-lease"

References = dict[str, set[tuple[str, str]]]
"""Resource → (namespace, name) of the objects that a node's pods refer to."""


class NodeAuthorizer:
    """Authorizes nodes, and has no opinion about other users. ``rules`` are those of the role system:node."""

    def __init__(self, core: Core, rules: Callable[[], Iterable[Rule]]) -> None:
        self._core = core
        self._rules = rules
        self._authorizers: dict[tuple[str, str], Callable[[str, Attributes], str]] = {
            ("", "secrets"): self._authorize_read_namespaced_object,
            ("", "configmaps"): self._authorize_read_namespaced_object,
            ("", "persistentvolumeclaims"): self._authorize_status_update,
            ("", "persistentvolumes"): self._authorize_get,
            ("resource.k8s.io", "resourceclaims"): self._authorize_get,
            ("storage.k8s.io", "volumeattachments"): self._authorize_get,
            ("", "serviceaccounts"): self._authorize_create_token,
            ("coordination.k8s.io", "leases"): self._authorize_lease,
            ("storage.k8s.io", "csinodes"): self._authorize_csi_node,
            ("resource.k8s.io", "resourceslices"): self._authorize_resource_slice,
            ("", "nodes"): self._authorize_node,
            ("", "pods"): self._authorize_pod,
        }

    def rules(self, identity: Identity, namespace: str) -> ResolvedRules:
        """Those of a node cannot be listed."""
        if node_identity(identity) is None:
            return ResolvedRules(())
        return ResolvedRules((), ("node authorizer does not support user rule resolution",), incomplete=True)

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        """Whether the node may make this request."""
        node = node_identity(identity)
        if node is None:
            return Decision(allowed=False)
        if not node:
            return Decision(allowed=False, reason=f'unknown node for user "{identity.user}"')
        authorize = None if attributes.path else self._authorizers.get((attributes.group, attributes.resource))
        if authorize is None:
            return Decision(any(rule.allows(attributes) for rule in self._rules()))
        reason = authorize(node, attributes)
        return Decision(allowed=not reason, reason="" if reason == _NO_REASON else reason)

    # One per resource: "" allows, anything else is the reason of the denial.

    def _authorize_read_namespaced_object(self, node: str, attributes: Attributes) -> str:
        if attributes.verb not in _READ:
            return "can only read resources of this type"
        if attributes.subresource:
            return "cannot read subresource"
        if not attributes.namespace:
            return "can only read namespaced object of this type"
        return self._authorize_by_reference(node, attributes)

    def _authorize_get(self, node: str, attributes: Attributes) -> str:
        if attributes.verb != "get":
            return "can only get individual resources of this type"
        return "cannot get subresource" if attributes.subresource else self._authorize_by_reference(node, attributes)

    def _authorize_status_update(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource != "status":
            return self._authorize_get(node, attributes)
        if attributes.verb not in ("get", "update", "patch"):
            return "can only get/update/patch this type"
        return self._authorize_by_reference(node, attributes)

    def _authorize_create_token(self, node: str, attributes: Attributes) -> str:
        if not attributes.subresource:
            return self._authorize_get(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return "can only create tokens for individual service accounts"
        if attributes.subresource != "token":
            return "can only create token subresource of service account"
        return self._authorize_by_reference(node, attributes)

    def _authorize_lease(self, node: str, attributes: Attributes) -> str:
        if attributes.verb not in _OWN:
            return "can only get, create, update, patch, or delete a node lease"
        if attributes.namespace != _LEASES:
            return f'can only access leases in the "{_LEASES}" system namespace'
        # The name in the body of a create is checked by admission.
        if attributes.verb != "create" and attributes.name != node:
            return "can only access node lease with the same name as the requesting node"
        return ""

    def _authorize_csi_node(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource:
            return "cannot authorize CSINode subresources"
        if attributes.verb not in _OWN:
            return "can only get, create, update, patch, or delete a CSINode"
        if attributes.verb != "create" and attributes.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return ""

    def _authorize_resource_slice(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource:
            return "cannot authorize ResourceSlice subresources"
        if attributes.verb in ("list", "watch", "deletecollection"):
            if _selected_value(attributes, "spec.nodeName") == node:
                return ""
            return "can only list/watch/deletecollection resourceslices with spec.nodeName field selector"
        if attributes.verb == "create":
            return ""
        if attributes.verb not in ("get", "update", "patch", "delete"):
            return "can only the verbs get, create, update, patch, or delete a ResourceSlice"
        resource_slice = self._object("resource.k8s.io", "resourceslices", attributes.name)
        is_own = resource_slice is not None and (resource_slice.get("spec") or {}).get("nodeName") == node
        return "" if is_own else _no_relationship(node)

    def _authorize_node(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource == "status":
            return "" if attributes.verb in ("update", "patch") else _NO_REASON
        if attributes.subresource:
            return _NO_REASON
        if attributes.verb in ("create", "update", "patch"):
            return ""  # admission checks which one
        if attributes.verb not in _READ:
            return _NO_REASON
        # By name, so that a node can get itself before it exists.
        if attributes.name == node:
            return ""
        if not attributes.name:
            return f"node '{node}' cannot read all nodes, only its own Node object"
        return f"node '{node}' cannot read '{attributes.name}', only its own Node object"

    def _authorize_pod(self, node: str, attributes: Attributes) -> str:
        if attributes.subresource:
            allowed = {"status": ("update", "patch"), "eviction": ("create",)}.get(attributes.subresource, ())
            return "" if attributes.verb in allowed else _NO_REASON
        if attributes.verb == "get":
            return self._authorize_get(node, attributes)
        if attributes.verb in ("list", "watch"):
            if _selected_value(attributes, "spec.nodeName") == node:
                return ""
            return "can only list/watch pods with spec.nodeName field selector"
        return "" if attributes.verb in ("create", "delete") else _NO_REASON

    # References

    def _authorize_by_reference(self, node: str, attributes: Attributes) -> str:
        if not attributes.name:
            return "No Object name found"
        if attributes.resource == "volumeattachments":
            volume_attachment = self._object("storage.k8s.io", "volumeattachments", attributes.name)
            related = volume_attachment is not None and (volume_attachment.get("spec") or {}).get("nodeName") == node
        elif attributes.resource == "persistentvolumes":
            persistent_volume = self._object("", "persistentvolumes", attributes.name)
            claim = ((persistent_volume or {}).get("spec") or {}).get("claimRef") or {}
            key = (claim.get("namespace") or "", claim.get("name") or "")
            related = self._is_referenced_by_pods(node, "persistentvolumeclaims", key)
        else:
            related = self._is_referenced_by_pods(node, attributes.resource, (attributes.namespace, attributes.name))
        return "" if related else _no_relationship(node)

    def _is_referenced_by_pods(self, node: str, resource: str, key: tuple[str, str]) -> bool:
        return any(key in references(pod).get(resource, ()) for pod in self._pods(node))

    def _pods(self, node: str) -> Iterator[Object]:
        core = self._core
        info = core.table.built_in("", "pods")
        selection = Selection(EVERYTHING, FieldSelector((FieldTerm("spec.nodeName", "=", node),)))
        for key in core.attributes.candidates(info.prefix, core.strategy(info).attributes, selection) or ():
            record = core.store.get(key)
            if record is not None:
                yield decode(record.value)

    def _object(self, group: str, resource: str, name: str) -> Object | None:
        record = self._core.store.get(storage_prefix(group, resource) + name)
        return None if record is None else decode(record.value)


_NO_REASON = "-"
"""Not allowed, without a reason."""


def _no_relationship(node: str) -> str:
    return f"no relationship found between node '{node}' and this object"


def _selected_value(attributes: Attributes, field: str) -> str:
    try:
        return parse_field_selector(attributes.field_selector).exact(field) or ""
    except FieldSelectorError:
        return ""


def references(pod: Object) -> References:
    """The objects that a node must read to run the pod. A mirror pod refers to nothing but itself."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    namespace = meta.get("namespace") or ""
    names: dict[str, set[str]] = {"pods": {meta["name"]}}
    if _MIRROR not in (meta.get("annotations") or {}):
        for resource, name in _referenced_names(pod, spec):
            if name:
                names.setdefault(resource, set()).add(name)
    return {resource: {(namespace, name) for name in resource_names} for resource, resource_names in names.items()}


def _referenced_names(pod: Object, spec: Object) -> Iterator[tuple[str, str]]:
    yield "serviceaccounts", spec.get("serviceAccountName") or ""
    for resource, names in (
        ("secrets", secret_names(spec)),
        ("configmaps", config_map_names(spec)),
        ("persistentvolumeclaims", claim_names(pod["metadata"]["name"], spec)),
    ):
        for name in names:
            yield resource, name
    for claim in spec.get("resourceClaims") or ():
        yield "resourceclaims", claim.get("resourceClaimName") or ""
    status = pod.get("status") or {}
    for claim in status.get("resourceClaimStatuses") or ():
        yield "resourceclaims", claim.get("resourceClaimName") or ""
    yield "resourceclaims", (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName") or ""
