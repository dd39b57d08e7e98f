"""Reads other objects from the store."""

from typing import Any

from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Store

_SINGULAR = {
    "nodes": "node",
    "pods": "pod",
    "persistentvolumeclaims": "persistentvolumeclaim",
    "persistentvolumes": "persistentvolume",
    "csidrivers": "csidriver",
}


def find_object(store: Store, resource: str, name: str, *, namespace: str = "", group: str = "") -> Object:
    """An object, staged writes included. Raises the 404 of client-go's listers, with the resource in the singular."""
    prefix = storage_prefix(group, resource)
    record = store.staged(f"{prefix}{namespace}/{name}" if namespace else f"{prefix}{name}")
    if record is not None:
        return decode(record.value)
    singular = _SINGULAR[resource]
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = singular
    qualified = f"{singular}.{group}" if group else singular
    raise StatusError(404, "NotFound", f'{qualified} "{name}" not found', details=details)
