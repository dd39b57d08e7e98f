"""Changing named fields of a raw JSON object and leaving every other value as it came, byte for byte.

This is how an object is written back that was read through a view: the view shows a few fields, the raw JSON has them
all, and unknown fields must survive (docs/design/views.md).
"""

from collections.abc import Mapping

import msgspec

Json = bytes | msgspec.Raw

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def replace_fields(raw: Json, changes: Mapping[str, Json | None]) -> bytes:
    """``raw`` with fields replaced, added at the end, or (``None``) removed.

    A key is the name of a top-level field, or ``outer.inner`` for a field one level down; an ``outer`` that is missing
    or null is made when something is put into it. Values that are not named stay as they are, in their place, down to
    the spelling of numbers and the spaces inside; only between top-level fields spaces go. Raises
    ``msgspec.DecodeError`` when ``raw`` is not a JSON object. New values are taken as they are and not checked.
    """
    fields = _fields.decode(raw)
    nested: dict[str, dict[str, Json | None]] = {}
    for path, value in changes.items():
        name, dot, inner = path.partition(".")
        if dot:
            nested.setdefault(name, {})[inner] = value
        else:
            _put(fields, name, value)
    for name, inner_changes in nested.items():
        outer = fields.get(name)
        if outer is None or bytes(outer) == b"null":
            inner_changes = {key: value for key, value in inner_changes.items() if value is not None}
            if not inner_changes:
                continue
            outer = msgspec.Raw(b"{}")
        inner_fields = _fields.decode(outer)
        for key, value in inner_changes.items():
            _put(inner_fields, key, value)
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
    """An object without its ``metadata.managedFields``, for caches: they are half of many objects, nothing that works
    with a cache reads them, and sending them back would be wrong (``[]`` clears them)."""
    count = raw.count(_MANAGED_FIELDS)
    if count == 0:
        return raw
    meta = _managed.decode(raw).metadata
    value = bytes(meta.managed_fields) if meta is not None else b""
    if count == 1 and value:  # the one place is the one that is meant: it is cut out as servers write it
        start = raw.find(_MANAGED_FIELDS)
        begin = start + len(_MANAGED_FIELDS) + 1
        end = begin + len(value)
        if raw[begin:end] != value:  # written with spaces
            return replace_fields(raw, _DROP_MANAGED_FIELDS)
        if raw[end : end + 1] == b",":
            return raw[:start] + raw[end + 1 :]
        if raw[start - 1 : start] == b",":
            return raw[: start - 1] + raw[end:]
    return replace_fields(raw, _DROP_MANAGED_FIELDS)


def replace_spec(raw: bytes, before: bytes, after: bytes) -> bytes:
    """``raw`` with another ``spec``: the quick way for who writes an object again and again, and is answered with what
    was written. ``before`` is the spec as it was sent last; where the object does not end with it, or it is empty, this
    is ``replace_fields``."""
    end = b'"spec":' + before + b"}"
    if before and raw.endswith(end):
        return raw[: -len(end)] + b'"spec":' + after + b"}"
    return replace_fields(raw, {"spec": after})


def _put(fields: dict[str, msgspec.Raw], name: str, value: Json | None) -> None:
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = value if isinstance(value, msgspec.Raw) else msgspec.Raw(value)


def take_field(raw: Json, path: str) -> msgspec.Raw | None:
    """The value at ``path`` (names joined by dots) as it is written, or ``None`` where it is missing or null.

    The result is a copy: it does not keep the page alive that ``raw`` came in.
    """
    value: Json = raw
    for name in path.split("."):
        try:
            found = _fields.decode(value).get(name)
        except msgspec.ValidationError:
            return None
        if found is None or bytes(found) == b"null":
            return None
        value = found
    return msgspec.Raw(bytes(value))
