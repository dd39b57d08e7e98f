"""Finds members of a PUT that are unchanged: the spec in a status update, the status in an update of annotations.

Stored members were validated, defaulted and pruned when they were written, so that this can be skipped for unchanged
ones.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.api.schema import Definition
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.bodies import count_quotes

Members = Mapping[str, msgspec.Raw]

_read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_ALWAYS_READ = ("apiVersion", "kind", "metadata")
_SMALL = 64
"""Smaller members are decoded as fast as compared."""
_NONE: Members = {}


def split_unchanged(body: bytes, value: bytes) -> tuple[bytes, Members]:
    """The body without those members that equal the stored ``value``, and those members. Bodies that are no JSON
    objects, or have duplicate members, are returned unchanged."""
    try:
        members, stored_members = _read(body), _read(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body, _NONE
    unchanged: dict[str, msgspec.Raw] = {}
    quotes = 0
    for name, raw in members.items():
        text = bytes(raw)
        quotes += 2 + count_quotes(text)
        if (
            name not in _ALWAYS_READ
            and len(text) >= _SMALL
            and name in stored_members
            and _is_same(text, bytes(stored_members[name]))
        ):
            unchanged[name] = stored_members[name]
    if not unchanged or quotes != count_quotes(body):
        return body, _NONE
    return _encode({name: raw for name, raw in members.items() if name not in unchanged}), unchanged


def _is_same(sent: bytes, stored: bytes) -> bool:
    """Whether both are the same JSON, independent of order and white space; 1, 1.0 and true are different."""
    if sent == stored:
        return True
    try:
        sent_value, stored_value = _decode(sent), _decode(stored)
        return (
            sent_value == stored_value
            and _encode_sorted(sent_value) == _encode_sorted(stored_value)
            and _has_no_duplicates(sent, sent_value)
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _has_no_duplicates(text: bytes, value: Any) -> bool:
    return count_quotes(text) == count_quotes(_encode(value))


def join_unchanged(obj: Object, members: Members, definition: Definition) -> Object:
    """The object decoded from the rest of the body, with its unchanged members added in the order of its type."""
    joined: Object = {}
    for name in definition.fields:
        if name in members:
            joined[name] = _decode(members[name])
        elif name in obj:
            joined[name] = obj[name]
    return joined
