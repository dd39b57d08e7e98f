"""The changes that a node may make to its own Node: not to taints and owner references, and only to some labels.

Otherwise a compromised node could attract pods that must not run on it. The labels that a node may set are listed in
``kubelet/pkg/apis/well_known_labels.go`` (v0.36).
"""

from collections.abc import Iterable, Mapping

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote

KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    }
)
KUBELET_LABEL_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_NODE_RESTRICTION = ("node-restriction.kubernetes.io",)
_KUBERNETES = ("kubernetes.io", "k8s.io")


def validate_new_node(node_name: str, node: Object) -> str:
    """Why the node must not create this Node; empty if it may."""
    if (node.get("spec") or {}).get("configSource") is not None:
        return f"node {quote(node_name)} is not allowed to create pods with a non-nil configSource"
    forbidden = forbidden_labels(modified_labels(_labels(node), {}))
    if forbidden:
        return f"node {quote(node_name)} is not allowed to set the following labels: {', '.join(forbidden)}"
    return ""


def validate_node_update(node_name: str, node: Object, old: Object) -> str:
    """Why the node must not make this change to its Node; empty if it may."""
    spec, old_spec = node.get("spec") or {}, old.get("spec") or {}
    # Removing it is allowed: old kubelets drop the field in status updates.
    if spec.get("configSource") is not None and spec["configSource"] != old_spec.get("configSource"):
        return f"node {quote(node_name)} is not allowed to update configSource to a new non-nil configSource"
    if (spec.get("taints") or []) != (old_spec.get("taints") or []):
        return f"node {quote(node_name)} is not allowed to modify taints"
    if (node["metadata"].get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
        return f"node {quote(node_name)} is not allowed to modify ownerReferences"
    forbidden = forbidden_labels(modified_labels(_labels(node), _labels(old)))
    if forbidden:
        return f"is not allowed to modify labels: {', '.join(forbidden)}"
    return ""


def modified_labels(labels: Mapping[str, str], old: Mapping[str, str]) -> set[str]:
    """The keys of labels that differ (``getModifiedLabels``)."""
    return {key for key in {*labels, *old} if labels.get(key) != old.get(key)}


def forbidden_labels(keys: Iterable[str]) -> list[str]:
    """The keys that a node must not set, change or remove (``getForbiddenLabels``), sorted."""
    return sorted(key for key in keys if _is_forbidden(key))


def _is_forbidden(key: str) -> bool:
    domain, slash, _name = key.partition("/")
    if not slash:
        return False
    if _is_subdomain(domain, _NODE_RESTRICTION):
        return True
    return (
        _is_subdomain(domain, _KUBERNETES)
        and key not in KUBELET_LABELS
        and not _is_subdomain(domain, KUBELET_LABEL_NAMESPACES)
    )


def _is_subdomain(domain: str, parents: Iterable[str]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}
