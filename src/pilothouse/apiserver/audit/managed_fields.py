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
    document = _decode(value)
    _drop(document)
    for item in _elements(document, "items"):
        _drop(item)
    for row in _elements(document, "rows"):
        if isinstance(row, dict):
            _drop(row.get("object"))
    return msgspec.json.encode(document)


def _elements(document: dict[str, Any], field: str) -> list[Any]:
    """A custom resource may have a value of any type in this field."""
    elements = document.get(field)
    return elements if isinstance(elements, list) else []


def _drop(obj: object) -> None:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
