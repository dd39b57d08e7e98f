"""Leases of programs that are not there any more. Pure."""

from typing import Any

from pilothouse.apiserver.resources import ResourceInfo

LEASES = ("coordination.k8s.io", "leases")
_OF_NODES = "kube-node-lease"
_IDENTITY = "apiserver.kubernetes.io/identity"


def released(info: ResourceInfo, obj: dict[str, Any]) -> dict[str, Any]:
    """The object; a Lease by which programs elect a leader as a leader leaves it that steps down (client-go
    ``leaderelection.release``): otherwise the next one would wait until it has expired."""
    if (info.group, info.resource) != LEASES:
        return obj
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if meta.get("namespace") == _OF_NODES or _IDENTITY in (meta.get("labels") or {}) or not spec.get("holderIdentity"):
        return obj
    return {**obj, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
