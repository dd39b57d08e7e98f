"""The pods that a node may create: mirror pods without references to API objects."""

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.references import UnknownSource, api_object_reference
from pilothouse.machinery.go_text import quote

MIRROR = "kubernetes.io/config.mirror"


def validate_mirror_pod(node_name: str, pod: Object) -> str:
    """Why the node must not create this pod; empty if it may. The uid of the owner is not compared here."""
    node = f"node {quote(node_name)}"
    meta, spec = pod["metadata"], pod.get("spec") or {}
    if MIRROR not in (meta.get("annotations") or {}):
        return f'pod does not have "{MIRROR}" annotation, {node} can only create mirror pods'
    if (spec.get("nodeName") or "") != node_name:
        return f"{node} can only create pods with spec.nodeName set to itself"
    owners = meta.get("ownerReferences") or []
    if len(owners) > 1:
        return f"{node} can only create pods with a single owner reference set to itself"
    if not owners or not _is_node(owners[0], node_name):
        return f"{node} can only create pods with an owner reference set to itself"
    if not owners[0].get("controller"):
        return f"{node} can only create pods with a controller owner reference set to itself"
    if owners[0].get("blockOwnerDeletion"):
        return f"{node} must not set blockOwnerDeletion on an owner reference"
    return ""


def validate_references(node_name: str, pod: Object) -> str:
    """Why the node must not create a pod that refers to other objects; empty if there are no such references."""
    try:
        resource = api_object_reference(pod.get("spec") or {})
    except UnknownSource as error:
        return f"error checking mirror pod for API references: {error}"
    return f"node {quote(node_name)} can not create pods that reference {resource}" if resource else ""


def _is_node(owner: Object, name: str) -> bool:
    return (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == ("v1", "Node", name)
