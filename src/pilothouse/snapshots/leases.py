"""Releases leader election Leases of programs that are not restored. Pure."""

from typing import Any

from pilothouse.apiserver.resources import ResourceInfo

LEASES = ("coordination.k8s.io", "leases")
_OF_NODES = "kube-node-lease"
_IDENTITY = "apiserver.kubernetes.io/identity"


def released(info: ResourceInfo, obj: dict[str, Any]) -> dict[str, Any]:
    """The object; a leader election Lease as after client-go's ``leaderelection.release``: otherwise the next leader
    would wait for its expiry."""
    if (info.group, info.resource) != LEASES:
        return obj
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if meta.get("namespace") == _OF_NODES or _IDENTITY in (meta.get("labels") or {}) or not spec.get("holderIdentity"):
        return obj
    return {**obj, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
