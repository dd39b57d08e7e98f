"""The values of the fields that an expression reads, for the message of its failure.

``expressions`` passes the tree of the expression. A field is a path of constant fields, keys and indexes that begins
with ``objects.RESOURCE['KEY']`` or ``object``; what depends on the variable of a macro is omitted.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pilothouse.cel.checked import Node

Path = tuple[str | int, ...]
Resolve = Callable[[str], Any]
"""Returns the objects of a resource by key."""
MOST_VALUES = 8
_LONGEST_VALUE = 100
_SELECTIONS = ("_[_]", "_?._", "_[?_]")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MISSING = object()
_encode = msgspec.json.encode


def described(root: Node, resolve: Resolve, about: Any = None) -> list[str]:
    """A line for each field with a value that is no object and no list: ``PATH is 3``, ``PATH is not set``. ``about``
    is the variable ``object``."""
    lines = []
    for path, counted in dict.fromkeys(_fields(root)):
        if path[0] == "object" and about is None:
            continue
        value = _value(path, resolve, about)
        text = _text(value, counted=counted)
        if text:
            lines.append(f"{_source(path)}{'.size()' * counted} is {text}")
    return lines[:MOST_VALUES]


def _fields(node: Node) -> Iterator[tuple[Path, bool]]:
    """The paths in a tree, each with whether its size is read."""
    operand = node.target or (node.parts[0] if node.parts else None)
    if node.kind == "call" and node.name == "size" and operand is not None:
        path = _path(operand)
        if path is not None:
            yield path, True
            return
    path = _path(node)
    if path is not None:
        if len(path) > (2 if path[0] == "objects" else 1):
            yield path, False
        return
    for part in (node.target, *node.parts, node.range):
        if part is not None:
            yield from _fields(part)


def _path(node: Node) -> Path | None:
    if node.kind == "ident":
        return (node.name,) if node.name in ("objects", "object") else None
    if node.kind == "select" and node.target is not None:
        inner = _path(node.target)
        return None if inner is None else (*inner, node.name)
    if node.kind == "call" and node.name in _SELECTIONS and len(node.parts) == 2:
        inner, step = _path(node.parts[0]), node.parts[1].literal
        if inner is not None and isinstance(step, str | int):
            return (*inner, step)
    return None


def _value(path: Path, resolve: Resolve, about: Any) -> Any:
    first, *steps = path
    value = about
    if first == "objects":
        resource, *steps = steps
        value = resolve(str(resource))
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return value


def _text(value: Any, *, counted: bool) -> str:
    if value is _MISSING:
        return "not set"
    if isinstance(value, dict | list):
        return str(len(value)) if counted else ""
    text = _encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _source(path: Path) -> str:
    """The path as it is written in an expression."""
    text = str(path[0])
    for step in path[1:]:
        if isinstance(step, str) and _IDENTIFIER.fullmatch(step):
            text += f".{step}"
        else:
            text += f"[{step}]" if isinstance(step, int) else f"['{step}']"
    return text
