"""Kubernetes' protobuf envelope, and the frames of watch events.

An object is encoded as ``k8s\\0`` followed by a ``runtime.Unknown`` message with its type and its message; a watch
event as a length and a ``WatchEvent`` whose object is in such an envelope (apimachinery
``pkg/runtime/serializer/protobuf``, v1.36). Used by ``presenter``.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.apiserver.serializers.protobuf_decoding import BYTES, ProtobufError, decode_message, values_of
from pilothouse.apiserver.serializers.protobuf_encoding import delimited, encode_message
from pilothouse.apiserver.serializers.protobuf_table import message_of

MAGIC = b"k8s\x00"
_ENVELOPE, _TYPE_META = dict.fromkeys((1, 2, 3, 4), BYTES), dict.fromkeys((1, 2), BYTES)

__all__ = [
    "MAGIC",
    "ProtobufError",
    "decode_object",
    "encode_event",
    "encode_list",
    "encode_object",
    "envelope",
    "has_protobuf",
    "message_for",
    "read_envelope",
]


def has_protobuf(api_version: str, kind: str) -> bool:
    """Whether objects of that kind have a protobuf form. Custom resources and Tables do not."""
    return message_of(api_version, kind) is not None


def encode_object(document: dict[str, Any]) -> bytes:
    """An object, a list or a Status, in its envelope.

    Raises ``KeyError`` for a kind without protobuf form; check ``has_protobuf`` first.
    """
    api_version, kind = document["apiVersion"], document["kind"]
    return envelope(api_version, kind, encode_message(message_for(api_version, kind), document))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """A message with the name of its type (``runtime.Unknown``)."""
    type_meta = delimited(1, api_version.encode()) + delimited(2, kind.encode())
    return MAGIC + delimited(1, type_meta) + delimited(2, raw) + b"\x1a\x00\x22\x00"


def read_envelope(data: bytes) -> tuple[str, str, bytes]:
    """(apiVersion, kind, message) of an envelope. Raises ``ProtobufError``."""
    api_version, kind, raw, _content_type = _read_unknown(data, "", "")
    return api_version, kind, raw


def _read_unknown(data: bytes, api_version: str, kind: str) -> tuple[str, str, bytes, str]:
    raw, content_type = b"", ""
    try:
        for number, value in values_of(data[4:], _ENVELOPE):
            if number == 1:
                names = {inner: text.decode() for inner, text in values_of(value, _TYPE_META)}
                api_version, kind = names.get(1) or api_version, names.get(2) or kind
            elif number == 2:
                raw = value
            elif number == 4:
                content_type = value.decode()
    except (IndexError, UnicodeDecodeError) as error:
        raise ProtobufError(f"the envelope is broken: {error}") from error
    return api_version, kind, raw, content_type


def decode_object(body: bytes, *, default_kind: tuple[str, str] | None = None) -> dict[str, Any]:
    """The object in an envelope as JSON-ready values, ``kind`` and ``apiVersion`` included.

    ``default_kind`` is (apiVersion, kind) for an envelope without them. Raises ``ProtobufError``.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    api_version, kind, raw, content_type = _read_unknown(body, *(default_kind or ("", "")))
    document: dict[str, Any]
    if content_type == "application/json":
        try:
            document = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise ProtobufError(str(error)) from error
        return document
    message = message_of(api_version, kind)
    if message is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"kind": kind, "apiVersion": api_version, **decode_message(message, raw)}


def encode_event(kind: str, document: dict[str, Any]) -> bytes:
    """One frame of a watch: its length in four bytes, then the event."""
    event = delimited(1, kind.encode()) + delimited(2, delimited(1, encode_object(document)))
    return len(event).to_bytes(4, "big") + event


def encode_list(
    api_version: str, kind: str, item_message: str, metadata: dict[str, Any], items: Iterable[Any]
) -> bytes:
    """A list in its envelope; its items are encoded as ``item_message``."""
    return list_of(api_version, kind, metadata, [encode_item(item_message, item) for item in items])


def encode_item(message: str, item: Any) -> bytes:
    """An item of a list, encoded as that message."""
    return delimited(2, encode_message(message, item))


def list_of(api_version: str, kind: str, metadata: dict[str, Any], items: Iterable[bytes]) -> bytes:
    """A list in its envelope, of items from ``encode_item``."""
    head = delimited(1, encode_message("meta.v1.ListMeta", metadata))
    return envelope(api_version, kind, b"".join((head, *items)))


def message_for(api_version: str, kind: str) -> str:
    """The message of a kind. Raises ``KeyError`` if it has none."""
    message = message_of(api_version, kind)
    if message is None:
        raise KeyError(f"{api_version} {kind} has no protobuf form")
    return message
