"""Removes managedFields from recorded objects (``omitManagedFields``).

After ``copyWithoutManagedFields`` in apiserver's ``pkg/audit/request.go`` (v0.36).
"""

from typing import Any

import msgspec

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def without_managed_fields(value: bytes) -> bytes:
    """The JSON of an object, a list or a table without the managedFields of its objects."""
    if b'"managedFields"' not in value:
        return value
    whole = _decode(value)
    _drop(whole)
    for item in _elements(whole, "items"):
        _drop(item)
    for row in _elements(whole, "rows"):
        if isinstance(row, dict):
            _drop(row.get("object"))
    return msgspec.json.encode(whole)


def _elements(whole: dict[str, Any], field: str) -> list[Any]:
    """A custom resource may have a value of any type in this field."""
    found = whole.get(field)
    return found if isinstance(found, list) else []


def _drop(obj: object) -> None:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
