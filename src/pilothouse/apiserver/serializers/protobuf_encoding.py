"""JSON values to protobuf messages.

A message type is compiled on first use to a mapping from JSON name to a function that appends the field to a list of
chunks. Unknown fields are dropped, as by Go.

Responses have the fields of the JSON object, which readers decode to the same. ``marshal`` produces the bytes of
Go's generated code: fields by number, and each one that is not a pointer, even if it is empty.
"""

import base64
import datetime
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from pilothouse.apiserver.serializers.protobuf_table import FieldRow, rows_of
from pilothouse.machinery.bounded_cache import TEMPLATE_BYTES, bounded_cache
from pilothouse.machinery.durations import parse_nanoseconds

_Chunks = list[bytes]
_Value = Callable[[Any], bytes]
"""Encodes a JSON value to the bytes after a tag, without their length."""
_Field = Callable[[Any, _Chunks], None]
_Compiled = tuple[list[bytes], Callable[[str], tuple[int, _Value] | None], list[tuple[int, _Value]]]
"""What ``_compiled`` returns."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2


def varint(number: int) -> bytes:
    """A varint; negative numbers take ten bytes."""
    if 0 <= number < 0x80:
        return _SMALL[number]
    number &= 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SMALL = [bytes([number]) for number in range(0x80)]


def tag(number: int, wire_type: int) -> bytes:
    """The tag of a field."""
    return varint(number << 3 | wire_type)


def delimited(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return tag(number, _BYTES) + varint(len(data)) + data


def encode_message(message: str, value: Any) -> bytes:
    """The message for a JSON object."""
    return _message_encoder(message)(value)


def marshal(message: str, value: Any) -> bytes:
    """The message for a JSON object as the Go type's ``Marshal`` writes it."""
    return _message_encoder(message, as_marshal=True)(value)


def marshal_members(message: str, metadata: dict[str, Any], members: Mapping[str, msgspec.Raw]) -> bytes:
    """``marshal`` for an object whose other members than ``metadata`` are still JSON.

    Most writes change the status or the metadata, and pods of one template have one spec: those that were last encoded
    are remembered.
    """
    empty, find, inlined = _compiled(message)
    assert not inlined, "no kind has the fields of an inlined struct among its members"
    fields = empty.copy()
    for name, text in members.items():
        field = find(name)
        if field is not None:
            if name == "metadata":
                fields[field[0]] = field[1](metadata)
            elif name == "spec":
                fields[field[0]] = _spec_field(message, bytes(text))
            elif (value := _decode(text)) is not None:
                fields[field[0]] = field[1](value)
    return b"".join(fields)


_decode: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder().decode


@bounded_cache(1024, TEMPLATE_BYTES)
def _spec_field(message: str, text: bytes) -> bytes:
    empty, find, _inlined = _compiled(message)
    field, value = find("spec"), _decode(text)
    assert field is not None, "the caller has found it"
    index, encode = field
    return empty[index] if value is None else encode(value)


def _text(value: Any) -> bytes:
    if type(value) is not str:
        raise TypeError(f"expected a string, got {value!r}")
    return value.encode()


def _base64(value: Any) -> bytes:
    return base64.b64decode(value)


def _integer(value: Any) -> bytes:
    return varint(int(value))


def _boolean(value: Any) -> bytes:
    return b"\x01" if value else b"\x00"


def _double(value: Any) -> bytes:
    return struct.pack("<d", value)


@bounded_cache(8192)
def _time(value: str) -> bytes:
    # Time and MicroTime: {1: seconds, 2: nanos}. Cached, because many objects share their times.
    time = datetime.datetime.fromisoformat(value)
    micros = (time - _EPOCH) // datetime.timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    return b"\x08" + varint(seconds) + b"\x10" + varint(micros * 1000)


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _quantity(value: Any) -> bytes:
    return delimited(1, str(value).encode())


def _duration(value: str) -> bytes:
    return b"\x08" + varint(parse_nanoseconds(value))


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00" + delimited(3, value.encode())
    return b"\x08\x00\x10" + varint(int(value)) + b"\x1a\x00"


def _raw_json(value: Any) -> bytes:
    return delimited(1, msgspec.json.encode(value))


def _strings(value: Any) -> bytes:
    return b"".join(delimited(1, item.encode()) for item in value)


def _schema_or(message: str, *, as_marshal: bool) -> _Value:
    """The unions of JSON schema: a schema or a list, a schema or a boolean, a schema or strings."""
    encode = _lazy(message[: message.index("JSONSchemaProps")] + "JSONSchemaProps", as_marshal=as_marshal)

    def or_array(value: Any) -> bytes:
        if isinstance(value, list):
            return b"".join(delimited(2, encode(item)) for item in value)
        return delimited(1, encode(value))

    def or_bool(value: Any) -> bytes:
        if isinstance(value, bool):
            return b"\x08" + _boolean(value)
        return b"\x08\x01" + delimited(2, encode(value))

    def or_strings(value: Any) -> bytes:
        if isinstance(value, list):
            return b"".join(delimited(2, item.encode()) for item in value)
        return delimited(1, encode(value))

    return or_array if message.endswith("OrArray") else or_bool if message.endswith("OrBool") else or_strings


_SCALARS: dict[str, tuple[int, _Value]] = {
    "string": (_BYTES, _text),
    "bytes": (_BYTES, _base64),
    "int32": (_VARINT, _integer),
    "int64": (_VARINT, _integer),
    "bool": (_VARINT, _boolean),
    "double": (_FIXED64, _double),
}

_SPECIAL: dict[str, _Value] = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _time,
    "meta.v1.Duration": _duration,
    "meta.v1.FieldsV1": _raw_json,
    "meta.v1.Verbs": _strings,
    "authentication.v1.ExtraValue": _strings,
    "authorization.v1.ExtraValue": _strings,
    "certificates.v1.ExtraValue": _strings,
    "runtime.RawExtension": _raw_json,
    "apiextensions.v1.JSON": _raw_json,
    "resource.Quantity": _quantity,
    "util.intstr.IntOrString": _int_or_string,
}


@cache
def _message_encoder(message: str, *, as_marshal: bool = False) -> _Value:
    special = _SPECIAL.get(message)
    if special is not None:
        return special
    if "JSONSchemaPropsOr" in message:
        return _schema_or(message, as_marshal=as_marshal)
    if as_marshal:
        return _marshal_encoder(message)
    rows = rows_of(message)
    fields: dict[str, _Field] = {row.name: _field(row) for row in rows if not row.inlined}
    # An inlined struct is a separate message in protobuf, while its fields are among the parent's in JSON.
    inlined = [(row.number, _message_encoder(row.type)) for row in rows if row.inlined]
    find = fields.get

    def encode(value: Any) -> bytes:
        chunks: _Chunks = []
        for name, item in value.items():
            if item is not None and (field := find(name)) is not None:
                field(item, chunks)
        for number, encode_inlined in inlined:
            if inner := encode_inlined(value):
                chunks.append(delimited(number, inner))
        return b"".join(chunks)

    return encode


def _marshal_encoder(message: str) -> _Value:
    compiled: _Compiled | None = None

    def encode(value: Any) -> bytes:
        nonlocal compiled
        if compiled is None:  # messages are recursive, so this is delayed until the first value
            compiled = _compiled(message)
        empty, find, inlined = compiled
        fields = empty.copy()
        for name, item in value.items():
            if item is not None and (field := find(name)) is not None:
                fields[field[0]] = field[1](item)
        for index, encode_inlined in inlined:
            fields[index] = encode_inlined(value)
        return b"".join(fields)

    return encode


@cache
def _compiled(message: str) -> _Compiled:
    """The fields of an empty message, the fields by JSON name, and the inlined structs: those are separate messages in
    protobuf, while their fields are among the parent's in JSON."""
    rows = sorted(rows_of(message), key=lambda row: row.number)
    return (
        [b"" if row.inlined else _unset_field(row) for row in rows],
        {row.name: (index, _marshal_field(row)) for index, row in enumerate(rows) if not row.inlined}.get,
        [(index, _marshal_field(row)) for index, row in enumerate(rows) if row.inlined],
    )


def _marshal_field(row: FieldRow) -> _Value:
    """Encodes a value as a whole field: tag, length, data. An inlined struct gets the parent object."""
    wire_type, encode = _SCALARS.get(row.type, (_BYTES, None))
    head = tag(row.number, wire_type)
    if encode is None:
        encode = _message_encoder(row.type, as_marshal=True)
    if row.is_map or row.repeated:
        add = _map_field(row.number, wire_type, encode) if row.is_map else _repeated_field(head, wire_type, encode)

        def encode_all(values: Any) -> bytes:
            chunks: _Chunks = []
            add(values, chunks)
            return b"".join(chunks)

        return encode_all
    if wire_type != _BYTES:
        return lambda value: head + encode(value)

    def encode_delimited(value: Any) -> bytes:
        data = encode(value)
        size = len(data)
        return head + (_SMALL[size] if size < 0x80 else varint(size)) + data

    return encode_delimited


def _unset_field(row: FieldRow) -> bytes:
    """The encoding of a field without a value: nothing for pointers and lists, else Go's zero value."""
    if row.pointer or row.repeated or row.is_map or row.type == "bytes":
        return b""
    scalar = _SCALARS.get(row.type)
    if scalar is not None:
        wire_type = scalar[0]
        return tag(row.number, wire_type) + bytes(8 if wire_type == _FIXED64 else 1)
    special = _ZEROS.get(row.type)
    return delimited(row.number, _message_encoder(row.type, as_marshal=True)({}) if special is None else special)


_ZEROS = {
    "meta.v1.Time": b"",
    "meta.v1.MicroTime": b"",
    "meta.v1.Duration": b"\x08\x00",
    "meta.v1.FieldsV1": b"",
    "runtime.RawExtension": b"",
    "apiextensions.v1.JSON": b"",
    "resource.Quantity": delimited(1, b"0"),
    "util.intstr.IntOrString": b"\x08\x00\x10\x00\x1a\x00",
}


def _field(row: FieldRow) -> _Field:
    scalar = _SCALARS.get(row.type)
    wire_type, encode = scalar if scalar is not None else (_BYTES, None)
    head = tag(row.number, wire_type)
    if encode is None:
        # Messages are recursive, so the encoder is looked up when the first value is encoded.
        encode = _lazy(row.type)
    if row.is_map:
        return _map_field(row.number, wire_type, encode)
    if row.repeated:
        return _repeated_field(head, wire_type, encode)
    if wire_type != _BYTES:

        def add_number(value: Any, chunks: _Chunks) -> None:
            chunks.append(head + encode(value))

        return add_number

    def add(value: Any, chunks: _Chunks) -> None:
        data = encode(value)
        size = len(data)
        chunks.append(head + (_SMALL[size] if size < 0x80 else varint(size)))
        chunks.append(data)

    return add


def _lazy(message: str, *, as_marshal: bool = False) -> _Value:
    cached: list[_Value] = []

    def encode(value: Any) -> bytes:
        if not cached:
            cached.append(_message_encoder(message, as_marshal=as_marshal))
        return cached[0](value)

    return _SPECIAL.get(message, encode)


def _repeated_field(head: bytes, wire_type: int, encode: _Value) -> _Field:
    def add(values: Any, chunks: _Chunks) -> None:
        for value in values:
            data = encode(value)
            chunks.append(head + data if wire_type != _BYTES else head + varint(len(data)) + data)

    return add


def _map_field(number: int, wire_type: int, encode: _Value) -> _Field:
    head = tag(number, _BYTES)
    value_head = tag(2, wire_type)

    def add(values: Any, chunks: _Chunks) -> None:
        for key in sorted(values):
            data = encode(values[key])
            entry = delimited(1, key.encode()) + value_head
            entry += data if wire_type != _BYTES else varint(len(data)) + data
            chunks.append(head + varint(len(entry)) + entry)

    return add
