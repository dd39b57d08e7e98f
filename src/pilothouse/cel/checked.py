"""Decodes a checked expression: its tree, the types of its nodes, and the resolved overloads.

The library only exposes it as a serialized ``cel.expr.CheckedExpr`` (cel-spec
``proto/cel/expr/{checked,syntax}.proto``). Used by ``costs`` and ``work``.
"""

import struct
from collections.abc import Iterator
from typing import Literal

import msgspec


class Type(msgspec.Struct, frozen=True):
    """A type by kind: a scalar, ``dyn``, ``list``, ``map``, ``optional_type``, or ``message`` with its name."""

    kind: str
    name: str = ""
    of: tuple["Type", ...] = ()


DYN = Type("dyn")


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
    range: "Node | None" = None
    variables: tuple[str, ...] = ()


class Checked(msgspec.Struct):
    root: Node
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]

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


def _text(value: _Raw) -> str:
    assert isinstance(value, bytes), "texts are bytes"
    return value.decode()


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


def _read_comprehension(node: Node, data: _Raw) -> None:
    fields = dict(_fields(data))
    node.kind, node.name = "comprehension", _text(fields[3])
    node.variables = tuple(_text(fields[n]) for n in (1, 8) if fields.get(n))
    node.range = _node(fields[2])
    node.parts = [_node(fields[n]) for n in (4, 5, 6, 7)]
