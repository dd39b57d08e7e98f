"""Decodes a checked expression: its tree, the types of its nodes, and the resolved overloads.

The library only exposes it as a serialized ``cel.expr.CheckedExpr`` (cel-spec
``proto/cel/expr/{checked,syntax}.proto``). Used by ``costs`` and ``work``.
"""

import re
import struct
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec


class Type(msgspec.Struct, frozen=True):
    """A type by kind: a scalar, ``dyn``, ``list``, ``map``, ``optional_type``, or ``message`` with its name."""

    kind: str
    name: str = ""
    of: tuple["Type", ...] = ()


DYN = Type("dyn")
_OF_REQUESTS = re.compile(r"^custom\.(?!Object\d)")
"""The package of the messages of requests and namespaces, which share ours with the objects of schemas."""
_PRINTED = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
    "kubernetes.IP": "net.IP",
    "kubernetes.CIDR": "net.CIDR",
}


def format_checked(kind: Type) -> str:
    """The type as cel-go prints it in errors of the checker (``FormatCELType``)."""
    return _format(kind, lambda name: name)


def format_type(kind: Type) -> str:
    """The type as cel-go prints it elsewhere: ``map(string, google.protobuf.Timestamp)``."""
    return _format(kind, lambda name: _PRINTED.get(name, name))


def _format(kind: Type, printed: Callable[[str], str]) -> str:
    name = kind.name if kind.kind == "message" else kind.kind
    name = _OF_REQUESTS.sub("kubernetes.", printed(name))
    return f"{name}({', '.join(_format(inner, printed) for inner in kind.of)})" if kind.of else name


class Node(msgspec.Struct):
    """One node of an expression. ``kind`` determines which other fields are set."""

    id: int = 0
    kind: Literal["literal", "ident", "select", "call", "list", "map", "struct", "comprehension", ""] = ""
    name: str = ""
    """The name of an identifier, field, function or accumulator."""
    literal: bool | int | float | str | bytes | None = None
    test_only: bool = False
    target: "Node | None" = None
    """The operand of a field selection, or the receiver of a call."""
    parts: list["Node"] = []
    """Arguments, elements, alternating keys and values; of a comprehension: initial value, condition, step, result."""
    optional: tuple[int, ...] = ()
    """The indexes of the parts of a list or map that are optional."""
    range: "Node | None" = None
    variables: tuple[str, ...] = ()


class Checked(msgspec.Struct):
    root: Node
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]
    positions: dict[int, int] = {}
    """The offsets of the nodes in the source, in characters."""

    def type_of(self, node: Node) -> Type:
        return self.types.get(node.id, DYN)


def read(serialized: bytes) -> Checked:
    """Decode the expression in a ``google.protobuf.Any``."""
    body = next((value for number, value in _fields(serialized) if number == 2), b"")
    assert isinstance(body, bytes), "the value of an Any is bytes"
    checked = Checked(Node(), {}, {})
    for number, value in _fields(body):
        if number == 2:
            key, reference = _entry(value)
            overloads = tuple(_text(v) for n, v in _fields(reference) if n == 3)
            if overloads:
                checked.overloads[key] = overloads
        elif number == 3:
            key, kind = _entry(value)
            checked.types[key] = _type(kind)
        elif number == 4:
            checked.root = _node(value)
        elif number == 5:
            checked.positions = dict(_position(entry) for n, entry in _fields(value) if n == 4)
    return checked


_Raw = int | bytes


def _fields(data: _Raw) -> Iterator[tuple[int, _Raw]]:
    """The fields of a message: varints as numbers, everything else as bytes."""
    assert isinstance(data, bytes), "messages are bytes"
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        else:
            size = 8
            if wire == 2:
                size, at = _varint(data, at)
            elif wire == 5:
                size = 4
            yield number, data[at : at + size]
            at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _packed(value: _Raw) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _text(value: _Raw) -> str:
    assert isinstance(value, bytes), "texts are bytes"
    return value.decode()


def _position(entry: _Raw) -> tuple[int, int]:
    fields = dict(_fields(entry))
    return _number(fields.get(1, 0)), _number(fields.get(2, 0))


def _entry(value: _Raw) -> tuple[int, _Raw]:
    fields = dict(_fields(value))
    key = fields.get(1, 0)
    assert isinstance(key, int), "parts are numbered"
    return key, fields.get(2, b"")


_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_KNOWN = {1: "dyn", 2: "timestamp", 3: "duration"}


def _type(data: _Raw) -> Type:
    for number, value in _fields(data):
        match number:
            case 2:
                return Type("null")
            case 3:
                return Type(_PRIMITIVES.get(_number(value), "dyn"))
            case 5:
                return Type(_KNOWN.get(_number(value), "dyn"))
            case 6 | 7:
                return Type("list" if number == 6 else "map", of=tuple(_type(v) for _n, v in _fields(value)))
            case 9:
                return Type("message", _text(value))
            case 11:
                return Type("type", of=(_type(value),))
            case 14:
                named = [_text(v) for n, v in _fields(value) if n == 1]
                return Type(named[0] if named else "dyn", of=tuple(_type(v) for n, v in _fields(value) if n == 2))
            case _:
                return DYN
    return DYN


def _number(value: _Raw) -> int:
    assert isinstance(value, int), "kinds are numbered"
    return value


def _node(data: _Raw) -> Node:
    node = Node()
    for number, value in _fields(data):
        match number:
            case 2:
                node.id = _number(value)
            case 3:
                node.kind, node.literal = "literal", _constant(value)
            case 4:
                node.kind = "ident"
                node.name = next((_text(v) for n, v in _fields(value) if n == 1), "")
            case 5:
                node.kind = "select"
                for n, v in _fields(value):
                    if n == 1:
                        node.target = _node(v)
                    elif n == 2:
                        node.name = _text(v)
                    else:
                        node.test_only = bool(v)
            case 6:
                node.kind = "call"
                node.parts = [_node(v) for n, v in _fields(value) if n == 3]
                for n, v in _fields(value):
                    if n == 1:
                        node.target = _node(v)
                    elif n == 2:
                        node.name = _text(v)
            case 7:
                node.kind, node.parts = "list", [_node(v) for n, v in _fields(value) if n == 1]
                node.optional = tuple(index for n, v in _fields(value) if n == 2 for index in _packed(v))
            case 8:
                _read_struct(node, value)
            case 9:
                _read_comprehension(node, value)
    return node


def _constant(data: _Raw) -> bool | int | float | str | bytes | None:
    for number, value in _fields(data):
        match number:
            case 2:
                return bool(value)
            case 3:
                number = _number(value)
                return number - (1 << 64) if number >= 1 << 63 else number
            case 4:
                return _number(value)
            case 5:
                assert isinstance(value, bytes), "doubles are eight bytes"
                number_: float = struct.unpack("<d", value)[0]
                return number_
            case 6:
                return _text(value)
            case 7:
                assert isinstance(value, bytes), "bytes are bytes"
                return value
    return None


def _read_struct(node: Node, data: _Raw) -> None:
    node.kind = "map"
    for number, value in _fields(data):
        if number == 1:
            node.kind, node.name = "struct", _text(value)
        elif number == 2:
            entry = dict(_fields(value))
            node.parts += [_node(entry[n]) for n in (3, 4) if n in entry]
            if entry.get(5):
                node.optional += (len(node.parts) - 1,)


def _read_comprehension(node: Node, data: _Raw) -> None:
    fields = dict(_fields(data))
    node.kind, node.name = "comprehension", _text(fields[3])
    node.variables = tuple(_text(fields[n]) for n in (1, 8) if fields.get(n))
    node.range = _node(fields[2])
    node.parts = [_node(fields[n]) for n in (4, 5, 6, 7)]
