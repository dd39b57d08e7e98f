"""Paths of fields in definitions: ``.spec.ports``, ``.spec.labels['a.b']``.

After apiextensions-apiserver's ``pkg/apiserver/schema/cel/validation.go``, ``ValidFieldPath`` (v0.36).
"""

import re
from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+")
_ESCAPED = re.compile(r"\\(.)")
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class PathError(ValueError):
    """The path is malformed or refers to no field."""


def resolve(text: str, node: Node, *, arrays: bool = True) -> tuple[str, Node]:
    """The path in the form used in errors, and the schema of its field. Raises ``PathError``."""
    path = ""
    symbols = _TOKEN.findall(text)
    position = 0

    def next_symbol(expected: str) -> str:
        nonlocal position
        if position >= len(symbols):
            raise PathError(expected)
        position += 1
        symbol: str = symbols[position - 1]
        return symbol

    while position < len(symbols):
        symbol = next_symbol("")
        if symbol == "[":
            if not arrays:
                raise PathError("array notation is not allowed")
            quoted = next_symbol("unexpected end of JSON path")
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise PathError(f"expected single quoted string but got {quoted}")
            path, node = _descend(path, _unescape(quoted[1:-1]), node)
            if (end := next_symbol("unexpected end of JSON path")) != "]":
                raise PathError(f"expected ] but got {end}")
        elif symbol == ".":
            path, node = _descend(path, next_symbol("unexpected end of JSON path"), node)
        else:
            raise PathError(f"expected [ or . but got: {symbol}")
    return path, node


def _descend(path: str, name: str, node: Node) -> tuple[str, Node]:
    properties, additional = node.get("properties"), node.get("additionalProperties")
    if properties is not None:
        if name not in properties:
            raise PathError("does not refer to a valid field")
        return (f"{path}.{name}" if path else name), properties[name]
    if isinstance(additional, dict):
        return f"{path}[{name}]", additional
    raise PathError("does not refer to a valid field")


def _unescape(text: str) -> str:
    def unescape(match: re.Match[str]) -> str:
        if match[1] not in _LETTERS:
            raise PathError(f"invalid string literal: invalid escape char {match[0]}")
        return _LETTERS[match[1]]

    return _ESCAPED.sub(unescape, text)
