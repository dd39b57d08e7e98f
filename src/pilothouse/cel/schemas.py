"""Converts structural schemas to types for the checker, and values to the form of these types.

After k8s.io/apiserver ``pkg/cel/common/schemas.go`` and ``pkg/cel/escaping.go`` (v0.36). Objects are messages, so that
undefined fields are compile errors; property names that are no CEL identifiers are escaped; strings with the formats
``byte``, ``date``, ``date-time`` and ``duration`` are bytes, timestamps and durations.
"""

import base64
import binascii
import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.durations import DurationError, parse_nanoseconds
from pilothouse.machinery.times import TimeError, parse_time

with lazy_imports():
    from google.protobuf import descriptor_pb2, duration_pb2, timestamp_pb2

Node = Mapping[str, Any]
Kind = str | tuple[str, Any]
Convert = Callable[[Any], Any]

PACKAGE = "custom"
RESERVED = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package namespace return "
        "var void while",
    )
)
"""Reserved words, which are no identifiers."""
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL = re.compile(r"__|[./-]")
_EMBEDDED = "x-kubernetes-embedded-resource"
_STRING: Node = {"type": "string"}
_META: Node = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
_STRINGS: Mapping[str, Kind] = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_SCALARS: Mapping[str, Kind] = {"boolean": "bool", "integer": "int", "number": "double"}


def escape(name: str) -> str | None:
    """The escaped name of a property; None if it can't be escaped."""
    if name in RESERVED:
        return f"__{name}__"
    if _ESCAPABLE.fullmatch(name) is None:
        return None
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)


def with_object_meta(node: Node) -> Node:
    """The schema of an object including apiVersion, kind and metadata, which expressions may always read."""
    properties = {**(node.get("properties") or {}), "apiVersion": _STRING, "kind": _STRING, "metadata": _META}
    return {**node, "properties": properties}


class Types:
    """The messages for a schema. Call ``of`` for each node, then ``serialized``."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Kind]]] = []

    def of(self, node: Node, *, root: bool = False) -> Kind | None:
        """The type of a node's values; None if the schema does not specify it."""
        if node.get("x-kubernetes-int-or-string"):
            return "dyn"
        match node.get("type"):
            case "array":
                inner = self.of(node.get("items") or {}, root=_is_embedded(node.get("items")))
                return ("list", inner) if inner is not None else None
            case "object":
                additional = node.get("additionalProperties")
                if isinstance(additional, dict) and not root:
                    inner = self.of(additional, root=_is_embedded(additional))
                    return ("map", inner) if inner is not None else None
                return self._object(with_object_meta(node) if root or node.get(_EMBEDDED) else node)
            case "string":
                return _STRINGS.get(node.get("format") or "", "string")
            case kind:
                return _SCALARS.get(kind or "")

    def _object(self, node: Node) -> Kind:
        name = f"Object{len(self.messages)}"
        fields: dict[str, Kind] = {}
        self.messages.append((name, fields))
        for key, below in (node.get("properties") or {}).items():
            escaped, kind = escape(key), self.of(below, root=_is_embedded(below))
            if escaped is not None and kind is not None:
                fields[escaped] = kind
        return f"{PACKAGE}.{name}"

    def serialized(self) -> bytes:
        """A ``FileDescriptorProto`` with all messages."""
        file = descriptor_pb2.FileDescriptorProto(name="custom.proto", package=PACKAGE, syntax="proto3")
        file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("duration", "struct", "timestamp"))
        for name, fields in self.messages:
            message = file.message_type.add(name=name)
            for number, (field, kind) in enumerate(fields.items(), 1):
                _add_field(message, field, number, kind)
        serialized: bytes = file.SerializeToString()
        return serialized


def _is_embedded(node: Node | None) -> bool:
    return bool((node or {}).get(_EMBEDDED))


_WIRE = {"bool": 8, "int": 3, "uint": 4, "double": 1, "string": 9, "bytes": 12}
_MESSAGES = {"timestamp": "Timestamp", "duration": "Duration", "dyn": "Value"}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def _add_field(message: Any, name: str, number: int, kind: Kind) -> None:
    if isinstance(kind, str):
        message.field.add(name=name, number=number, label=_OPTIONAL, **_wire(kind))
        return
    inner = kind[1] if isinstance(kind[1], str) else "dyn"  # a repeated field can't be nested
    if kind[0] == "list":
        message.field.add(name=name, number=number, label=_REPEATED, **_wire(inner))
        return
    # A map is a repeated message with a prescribed name.
    entry = "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"
    nested = message.nested_type.add(name=entry)
    nested.options.map_entry = True
    nested.field.add(name="key", number=1, label=_OPTIONAL, type=_WIRE["string"])
    nested.field.add(name="value", number=2, label=_OPTIONAL, **_wire(inner))
    path = f".{PACKAGE}.{message.name}.{entry}"
    message.field.add(name=name, number=number, label=_REPEATED, type=_MESSAGE, type_name=path)


def _wire(kind: str) -> dict[str, Any]:
    if kind in _WIRE:
        return {"type": _WIRE[kind]}
    if kind in _MESSAGES:
        return {"type": _MESSAGE, "type_name": f".google.protobuf.{_MESSAGES[kind]}"}
    return {"type": _MESSAGE, "type_name": f".{kind}"}


def converter(node: Node, *, root: bool = False) -> Convert | None:
    """A function that converts values of the node to CEL's; None if no conversion is needed."""
    if node.get("x-kubernetes-int-or-string"):
        return None
    match node.get("type"):
        case "array":
            items = converter(node.get("items") or {}, root=_is_embedded(node.get("items")))
            return None if items is None else lambda value: [_given(items, item) for item in value]
        case "object":
            return _object_converter(with_object_meta(node) if root else node)
        case "number":
            return float
        case "string":
            return _STRING_CONVERTERS.get(node.get("format") or "")
        case _:
            return None


def _given(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _object_converter(node: Node) -> Convert | None:
    additional = node.get("additionalProperties")
    if isinstance(additional, dict):
        below = converter(additional, root=_is_embedded(additional))
        if below is None:
            return None
        return lambda value: {name: _given(below, member) for name, member in value.items()}
    changed: dict[str, tuple[str, Convert | None]] = {}
    for name, below_node in (node.get("properties") or {}).items():
        escaped, inner = escape(name), converter(below_node, root=_is_embedded(below_node))
        if inner is not None or (escaped or name) != name:
            changed[name] = (escaped or name, inner)
    if not changed:
        return None

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, member in value.items():
            key, inner = changed.get(name, (name, None))
            result[key] = member if inner is None else _given(inner, member)
        return result

    return convert


def _bytes(text: str) -> Any:
    try:
        return bytearray(base64.b64decode(text, validate=True))
    except binascii.Error:
        return text


def _timestamp(text: str) -> Any:
    """A protobuf ``Timestamp``: the library accepts no datetime inside of a struct."""
    try:
        at = parse_time(text if "T" in text else f"{text}T00:00:00Z")
    except TimeError:
        return text
    since = at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    return timestamp_pb2.Timestamp(seconds=since.days * 86400 + since.seconds, nanos=since.microseconds * 1000)


def _duration(text: str) -> Any:
    try:
        nanoseconds = parse_nanoseconds(text)
    except DurationError:
        return text
    sign = -1 if nanoseconds < 0 else 1
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    return duration_pb2.Duration(seconds=sign * seconds, nanos=sign * rest)


_STRING_CONVERTERS: Mapping[str, Convert] = {
    "byte": _bytes,
    "date": _timestamp,
    "date-time": _timestamp,
    "duration": _duration,
}
