"""Replaces named fields of a raw JSON object, keeping every other byte.

Used to update an object that was read through a view: the view has a few fields, the raw JSON has all of them, and
unknown fields must be preserved (docs/design/views.md).
"""

from collections.abc import Mapping

import msgspec

Json = bytes | msgspec.Raw

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def replace_fields(raw: Json, changes: Mapping[str, Json | None]) -> bytes:
    """``raw`` with fields replaced, appended, or (``None``) removed.

    A key is the name of a top-level field, or ``outer.inner`` for a nested field; an ``outer`` that is missing or null
    is created if needed. Other values are kept in place, byte for byte; only white space between top-level fields is
    removed. Raises ``msgspec.DecodeError`` if ``raw`` is not a JSON object. New values are not validated.
    """
    fields = _fields.decode(raw)
    nested: dict[str, dict[str, Json | None]] = {}
    for path, value in changes.items():
        name, dot, inner = path.partition(".")
        if dot:
            nested.setdefault(name, {})[inner] = value
        else:
            _set_field(fields, name, value)
    for name, inner_changes in nested.items():
        outer = fields.get(name)
        if outer is None or bytes(outer) == b"null":
            inner_changes = {key: value for key, value in inner_changes.items() if value is not None}
            if not inner_changes:
                continue
            outer = msgspec.Raw(b"{}")
        inner_fields = _fields.decode(outer)
        for key, value in inner_changes.items():
            _set_field(inner_fields, key, value)
        fields[name] = msgspec.Raw(_encode(inner_fields))
    return _encode(fields)


class _ManagedMetadata(msgspec.Struct, gc=False):
    managed_fields: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="managedFields")


class _Managed(msgspec.Struct, gc=False):
    metadata: _ManagedMetadata | None = None


_managed = msgspec.json.Decoder(_Managed)
_MANAGED_FIELDS = b'"managedFields"'
_DROP_MANAGED_FIELDS: dict[str, Json | None] = {"metadata.managedFields": None}


def without_managed_fields(raw: bytes) -> bytes:
    """An object without its ``metadata.managedFields``, for caches: they are half of many objects, nothing reads them
    from a cache, and sending them back would be wrong (``[]`` clears them)."""
    count = raw.count(_MANAGED_FIELDS)
    if count == 0:
        return raw
    meta = _managed.decode(raw).metadata
    value = bytes(meta.managed_fields) if meta is not None else b""
    if count == 1 and value:  # found exactly once: it is cut out as servers encode it
        start = raw.find(_MANAGED_FIELDS)
        begin = start + len(_MANAGED_FIELDS) + 1
        end = begin + len(value)
        if raw[begin:end] != value:  # encoded with spaces
            return replace_fields(raw, _DROP_MANAGED_FIELDS)
        if raw[end : end + 1] == b",":
            return raw[:start] + raw[end + 1 :]
        if raw[start - 1 : start] == b",":
            return raw[: start - 1] + raw[end:]
    return replace_fields(raw, _DROP_MANAGED_FIELDS)


def replace_spec(raw: bytes, old: bytes, new: bytes) -> bytes:
    """``raw`` with another ``spec``: fast for writers that update an object repeatedly and get it back as written.
    ``old`` is the spec of the last write; if the object does not end with it, or it is empty, this is
    ``replace_fields``."""
    end = b'"spec":' + old + b"}"
    if old and raw.endswith(end):
        return raw[: -len(end)] + b'"spec":' + new + b"}"
    return replace_fields(raw, {"spec": new})


def _set_field(fields: dict[str, msgspec.Raw], name: str, value: Json | None) -> None:
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = value if isinstance(value, msgspec.Raw) else msgspec.Raw(value)


def take_field(raw: Json, path: str) -> msgspec.Raw | None:
    """The raw value at ``path`` (names joined by dots), or ``None`` if it is missing or null.

    The result is a copy: it does not keep the page that contains ``raw`` in memory.
    """
    value: Json = raw
    for name in path.split("."):
        try:
            child = _fields.decode(value).get(name)
        except msgspec.ValidationError:
            return None
        if child is None or bytes(child) == b"null":
            return None
        value = child
    return msgspec.Raw(bytes(value))
