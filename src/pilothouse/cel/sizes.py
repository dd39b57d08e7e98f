"""The maximum sizes of values by schema, for ``costs``.

After k8s.io/apiserver ``pkg/cel/common/schemas.go`` and ``pkg/cel/limits.go`` (v0.36): by maxLength, maxItems and
maxProperties, otherwise by how many of the smallest possible elements fit into a request of three megabytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.cel.costs import Bounds
from pilothouse.cel.schemas import escape, with_object_meta

Node = Mapping[str, Any]

_REQUEST = 3 * 1024 * 1024
_LONGEST = {"duration": 32, "date": 12, "date-time": 32}
_SHORTEST = {"duration": 3, "date": 12, "date-time": 21}
_EMBEDDED = "x-kubernetes-embedded-resource"


class Sized(msgspec.Struct):
    """One node of a schema. ``least`` is the minimum size of a value in JSON in bytes, ``most`` the maximum number of
    elements."""

    least: int
    most: int = 0
    fields: dict[str, "Sized"] = {}
    of: "Sized | None" = None
    is_map: bool = False
    every: "Sized | None" = None
    """The node of fields that are not in ``fields``."""

    def size(self, path: Sequence[str]) -> Bounds | None:
        """The size of the value at a path below a variable of this type; None if unknown."""
        at = self
        for step in path[1:]:
            if step in ("@items", "@values"):
                below = at.of
            elif step == "@keys":
                below = _KEY if at.is_map else None
            else:
                below = at.fields.get(step, at.every)
            if below is None:
                return None
            at = below
        return Bounds(0, at.most)

    @property
    def repeats(self) -> int:
        """The maximum number of values of this node in one object."""
        return _REQUEST // (self.least + 1)


_KEY = Sized(2)


def sized(node: Node, *, root: bool = False) -> Sized | None:
    """The sizes of a schema; None without a type."""
    longest = node.get("maxLength")
    if node.get("x-kubernetes-int-or-string"):
        return Sized(1, _REQUEST - 2 if longest is None else max(longest, 0) * 4)
    if root:
        node = with_object_meta(node)
    match node.get("type"):
        case "array":
            items = node.get("items")
            below = sized(items, root=bool(items.get(_EMBEDDED))) if isinstance(items, Mapping) else None
            if below is None:
                return None
            most = node.get("maxItems")
            return Sized(2, (_REQUEST - 2) // (below.least + 1) if most is None else max(most, 0), of=below)
        case "object":
            return _object(node)
        case "string":
            return _text(node, longest)
        case "boolean":
            return Sized(4)
        case "number" | "integer":
            return Sized(1)
    return None


def _object(node: Node) -> Sized | None:
    additional = node.get("additionalProperties")
    if isinstance(additional, Mapping):
        below = sized(additional, root=bool(additional.get(_EMBEDDED)))
        if below is None:
            return None
        most = node.get("maxProperties")
        most = (_REQUEST - 2) // (below.least + 6) if most is None else max(most, 0)
        return Sized(2, most, of=below, is_map=True)
    found, required = Sized(2, fields={}), node.get("required") or ()
    for name, schema in (node.get("properties") or {}).items():
        below = sized(schema, root=bool(schema.get(_EMBEDDED)))
        if below is None:
            continue
        escaped = escape(name)
        if escaped is not None:
            found.fields[escaped] = below
        if name in required and schema.get("default") is None:
            found.least += len(name.encode()) + below.least + 4
    return found


def _text(node: Node, longest: int | None) -> Sized:
    kind = node.get("format") or ""
    if kind in _LONGEST:
        return Sized(_SHORTEST[kind], _LONGEST[kind])
    if longest is not None:
        return Sized(2, max(longest, 0) * (1 if kind == "byte" else 4))
    choices = node.get("enum") or ()
    if choices and kind != "byte":
        return Sized(2, max((len(text.encode()) for text in choices if isinstance(text, str)), default=0))
    return Sized(2, _REQUEST - 2)
