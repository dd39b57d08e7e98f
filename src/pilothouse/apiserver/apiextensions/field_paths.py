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
    parts = _TOKEN.findall(text)
    at = 0

    def take(expected: str) -> str:
        nonlocal at
        if at >= len(parts):
            raise PathError(expected)
        at += 1
        part: str = parts[at - 1]
        return part

    while at < len(parts):
        part = take("")
        if part == "[":
            if not arrays:
                raise PathError("array notation is not allowed")
            quoted = take("unexpected end of JSON path")
            if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
                raise PathError(f"expected single quoted string but got {quoted}")
            path, node = _descend(path, _unescape(quoted[1:-1]), node)
            if (end := take("unexpected end of JSON path")) != "]":
                raise PathError(f"expected ] but got {end}")
        elif part == ".":
            path, node = _descend(path, take("unexpected end of JSON path"), node)
        else:
            raise PathError(f"expected [ or . but got: {part}")
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
    def letter(found: re.Match[str]) -> str:
        if found[1] not in _LETTERS:
            raise PathError(f"invalid string literal: invalid escape char {found[0]}")
        return _LETTERS[found[1]]

    return _ESCAPED.sub(letter, text)
