"""Protobuf messages to JSON values.

Go encodes every field that is not a pointer, even if it is empty, and omits empty ones in JSON by its tags. So
``replicas: 0``, a pointer, is kept and ``minReadySeconds: 0`` is dropped, as if the client had sent JSON. Stored
objects are decoded by ``decode_with_zero_values``, as Go encodes them: fields in the order of the struct, and those
without ``omitempty`` even if they are unset.
"""

import base64
import datetime
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from pilothouse.apiserver.serializers.protobuf_table import FieldRow, rows_of
from pilothouse.machinery.durations import format_nanoseconds
from pilothouse.machinery.times import format_micro_time, format_time

VARINT, _FIXED64, BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ABSENT: Any = object()
"""The value of an absent field."""


class ProtobufError(ValueError):
    """The bytes are not a valid message of this type."""


_DECODING_ERRORS = (IndexError, UnicodeDecodeError, struct.error, msgspec.DecodeError, OverflowError, RecursionError)


def decode_message(message: str, data: bytes) -> Any:
    """The JSON value of a message. Raises ``ProtobufError``."""
    try:
        return _decoder(message)(data)
    except _DECODING_ERRORS as error:
        raise ProtobufError(f"{message}: {error}") from error


def decode_with_zero_values(message: str, data: bytes) -> dict[str, Any]:
    """The JSON object that Go encodes after decoding a message. Raises ``ProtobufError``."""
    try:
        decoded: dict[str, Any] = _decoder(message, with_zero_values=True)(data)
    except _DECODING_ERRORS as error:
        raise ProtobufError(f"{message}: {error}") from error
    return decoded


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """A varint, and the position after it."""
    number = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, offset
        shift += 7
        if shift > 63:
            raise ProtobufError("a number has more than ten bytes")


def fields_of(data: bytes) -> list[tuple[int, int, Any]]:
    """The raw fields: (number, wire type, int or bytes)."""
    offset, end = 0, len(data)
    fields: list[tuple[int, int, Any]] = []
    while offset < end:
        key = data[offset]
        offset += 1
        if key >= 0x80:
            key, offset = read_varint(data, offset - 1)
        wire_type = key & 7
        value: Any
        if wire_type == VARINT:
            value, offset = read_varint(data, offset)
        elif wire_type == BYTES:
            size = data[offset]
            offset += 1
            if size >= 0x80:
                size, offset = read_varint(data, offset - 1)
            if offset + size > end:
                raise ProtobufError("unexpected end of message")
            value = data[offset : offset + size]
            offset += size
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
            if offset + size > end:
                raise ProtobufError("unexpected end of message")
            value = data[offset : offset + size]
            offset += size
        else:
            raise ProtobufError(f"illegal wire type {wire_type}")
        fields.append((key >> 3, wire_type, value))
    return fields


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _signed32(value: int) -> int:
    # Negative int32 values are sign-extended to ten bytes, but some encoders write five.
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _text(value: bytes) -> str:
    return value.decode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _double(value: bytes) -> float:
    (number,) = struct.unpack("<d", value)
    return float(number)


def values_of(data: bytes, wire_types: Mapping[int, int]) -> list[tuple[int, Any]]:
    """The known fields (number, int or bytes). Raises ``ProtobufError`` for an unexpected wire type."""
    values = []
    for number, wire_type, value in fields_of(data):
        expected = wire_types.get(number)
        if expected is None:
            continue
        if wire_type != expected:
            raise ProtobufError(f"wrong wireType = {wire_type} for field {number}")
        values.append((number, value))
    return values


_ONE_TEXT = {1: BYTES}
_ONE_NUMBER = {1: VARINT}
_TIMESTAMP = {1: VARINT, 2: VARINT}
_TEXT_OR_NUMBER = {1: VARINT, 2: VARINT, 3: BYTES}


def _timestamp(data: bytes) -> datetime.datetime | None:
    if not data:
        return None
    values = dict(values_of(data, _TIMESTAMP))
    return _EPOCH + datetime.timedelta(seconds=_signed(values.get(1, 0)), microseconds=values.get(2, 0) // 1000)


def _time(data: bytes) -> Any:
    time = _timestamp(data)
    return _ABSENT if time is None else format_time(time)


def _micro_time(data: bytes) -> Any:
    time = _timestamp(data)
    return _ABSENT if time is None else format_micro_time(time)


def _quantity(data: bytes) -> str:
    for _number, value in values_of(data, _ONE_TEXT):
        return str(value.decode())
    return "0"


def _duration(data: bytes) -> str:
    return format_nanoseconds(_signed(next((value for _number, value in values_of(data, _ONE_NUMBER)), 0)))


def _int_or_string(data: bytes) -> int | str:
    values = dict(values_of(data, _TEXT_OR_NUMBER))
    return str(values.get(3, b"").decode()) if values.get(1, 0) == 1 else _signed32(values.get(2, 0))


def _raw_json(data: bytes) -> Any:
    for _number, value in values_of(data, _ONE_TEXT):
        if value:
            return msgspec.json.decode(value)
    return _ABSENT


def _strings(data: bytes) -> list[str]:
    return [value.decode() for _number, value in values_of(data, _ONE_TEXT)]


def _schema_or(message: str) -> Callable[[bytes], Any]:
    props_message = message[: message.index("JSONSchemaProps")] + "JSONSchemaProps"

    def or_array(data: bytes) -> Any:
        variants = [(number, _decoder(props_message)(value)) for number, value in values_of(data, {1: BYTES, 2: BYTES})]
        schemas = [value for number, value in variants if number == 2]
        return schemas if schemas or not variants else variants[0][1]

    def or_bool(data: bytes) -> Any:
        values = dict(values_of(data, {1: VARINT, 2: BYTES}))
        return _decoder(props_message)(values[2]) if 2 in values else bool(values.get(1, 0))

    def or_strings(data: bytes) -> Any:
        variants = values_of(data, {1: BYTES, 2: BYTES})
        names = [value.decode() for number, value in variants if number == 2]
        return names if names or not variants else _decoder(props_message)(variants[0][1])

    return or_array if message.endswith("OrArray") else or_bool if message.endswith("OrBool") else or_strings


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "bytes": _base64,
    "int32": _signed32,
    "int64": _signed,
    "bool": bool,
    "double": _double,
}

_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
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
def _decoder(message: str, *, with_zero_values: bool = False) -> Callable[[bytes], Any]:
    special = _SPECIAL.get(message)
    if special is not None:
        return special
    if "JSONSchemaPropsOr" in message:
        return _schema_or(message)
    rows = rows_of(message)
    setters = {row.number: _field_setter(row, with_zero_values=with_zero_values) for row in rows}
    fields_in_order = _fields_in_order(rows) if with_zero_values else ()

    def decode(data: bytes) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for number, wire_type, value in fields_of(data):
            set_field = setters.get(number)
            if set_field is not None:
                set_field(result, wire_type, value)
        return result

    def decode_in_order(data: bytes) -> dict[str, Any]:
        result = decode(data)
        ordered: dict[str, Any] = {}
        for name, zero in fields_in_order:
            if name in result:
                ordered[name] = result[name]
            elif zero is not None:
                ordered[name] = zero()
        return ordered

    return decode_in_order if with_zero_values else decode


_Zero = Callable[[], Any]


def _fields_in_order(rows: Sequence[FieldRow]) -> tuple[tuple[str, _Zero | None], ...]:
    """The names of the fields in Go's order, with a function for the JSON value of an unset field; None: it is
    omitted."""
    ordered: list[tuple[str, _Zero | None]] = []
    for row in rows:
        if row.inlined:
            ordered += _fields_in_order(rows_of(row.type))
        else:
            ordered.append((row.name, None if row.omit_empty and not _is_struct(row) else _zero(row)))
    return tuple(ordered)


def _is_struct(row: FieldRow) -> bool:
    """Whether Go always encodes the field: ``omitempty`` does not apply to structs. The only ``omitzero`` of v1.36 is
    ``creationTimestamp``."""
    is_value = not (row.pointer or row.repeated or row.is_map or row.type in _SCALARS)
    return is_value and row.name != "creationTimestamp"


def _zero(row: FieldRow) -> _Zero:
    scalar = _SCALARS.get(row.type)
    if row.pointer or row.repeated or row.is_map or scalar is _base64:
        return lambda: None
    if scalar is not None:
        value: Any = "" if scalar is _text else False if scalar is bool else 0
        return lambda: value
    if row.type in _SPECIAL:
        special = {"resource.Quantity": "0", "util.intstr.IntOrString": 0, "meta.v1.Duration": "0s"}.get(row.type)
        return lambda: special
    decode = _lazy(row.type, with_zero_values=True)
    return lambda: decode(b"")


_Setter = Callable[[dict[str, Any], int, Any], None]
"""Adds one field of a wire type to the object."""


def _field_setter(row: FieldRow, *, with_zero_values: bool) -> _Setter:
    scalar = _SCALARS.get(row.type)
    # Messages are recursive, so the decoder is looked up when the first value is decoded.
    decode = (
        scalar if scalar is not None else _SPECIAL.get(row.type) or _lazy(row.type, with_zero_values=with_zero_values)
    )
    if row.is_map:
        return _map_setter(row.name, decode, _wire_type_of(scalar))
    expected = _wire_type_of(scalar)
    if row.repeated:
        return _repeated_setter(row.name, decode, expected)
    return _single_setter(row, decode, expected)


def _wire_type_of(scalar: Callable[[Any], Any] | None) -> int:
    return VARINT if scalar in (_signed, _signed32, bool) else _FIXED64 if scalar is _double else BYTES


def _lazy(message: str, *, with_zero_values: bool) -> Callable[[bytes], Any]:
    cached: list[Callable[[bytes], Any]] = []

    def decode(data: bytes) -> Any:
        if not cached:
            cached.append(_decoder(message, with_zero_values=with_zero_values))
        return cached[0](data)

    return decode


def _map_setter(name: str, decode: Callable[[Any], Any], expected: int) -> _Setter:
    empty: Any = 0 if expected == VARINT else b""

    def set_field(result: dict[str, Any], wire_type: int, value: Any) -> None:
        if wire_type != BYTES:
            raise ProtobufError(f"{name}: wire type {wire_type}")
        key, item = "", empty
        for number, raw in values_of(value, {1: BYTES, 2: expected}):
            if number == 1:
                key = raw.decode()
            else:
                item = raw
        result.setdefault(name, {})[key] = decode(item)

    return set_field


def _repeated_setter(name: str, decode: Callable[[Any], Any], expected: int) -> _Setter:
    def set_field(result: dict[str, Any], wire_type: int, value: Any) -> None:
        items = result.setdefault(name, [])
        if wire_type == expected:
            items.append(decode(value))
        elif wire_type == BYTES and expected == VARINT:
            items.extend(_packed(decode, value))
        else:
            raise ProtobufError(f"{name}: wire type {wire_type}")

    return set_field


def _single_setter(row: FieldRow, decode: Callable[[Any], Any], expected: int) -> _Setter:
    name, inlined, keep = row.name, row.inlined, row.pointer or not row.omit_empty

    def set_field(result: dict[str, Any], wire_type: int, value: Any) -> None:
        if wire_type != expected:
            raise ProtobufError(f"{name}: wire type {wire_type}")
        decoded = decode(value)
        if decoded is _ABSENT:
            return
        if inlined:
            result.update(decoded)
        elif keep or not _is_empty(decoded):
            result[name] = decoded

    return set_field


def _is_empty(value: Any) -> bool:
    # Go's omitempty drops empty scalars and never structs, so {} is kept.
    return not isinstance(value, dict) and not value


def _packed(scalar: Callable[[Any], Any], data: bytes) -> list[Any]:
    offset, items = 0, []
    while offset < len(data):
        value, offset = read_varint(data, offset)
        items.append(scalar(value))
    return items
