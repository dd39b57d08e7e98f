"""Types of single values, and the schemas that ``schema`` creates from them. Pure."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.operator.models.definitions import TEXTS, Schema
from pilothouse.operator.python_source import Brackets, Expression, call, named, quoted, subscript

_BELOW = frozenset({"properties", "items", "additionalProperties", "required", "default", "nullable"})
"""Keywords that are compared when fields and elements are generated."""
_MAX_BOUND = 2**63 - 1


class Typed(msgspec.Struct):
    """A type, and the schema that ``schema`` creates from it, without nested schemas."""

    expression: Expression
    schema: dict[str, Any]


def difference(schema: Schema, created: dict[str, Any]) -> dict[str, Any]:
    """The additions to a schema that was created from a type; None for keywords to remove."""
    wanted = {name: value for name, value in schema.items() if name not in TEXTS | _BELOW}
    if isinstance(schema.get("additionalProperties"), bool):
        wanted["additionalProperties"] = schema["additionalProperties"]
    if "required" in schema or "required" in created:
        wanted["required"] = schema.get("required")
    if "properties" in schema and not schema["properties"]:
        wanted["properties"] = {}
    extra = {name: value for name, value in wanted.items() if not _same(name, created.get(name), value)}
    return extra | {name: None for name in created if name not in wanted}


def _same(name: str, one: Any, other: Any) -> bool:
    if name in ("enum", "required") and one is not None and other is not None:
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return bool(one == other) and type(one) is type(other)


def string_type(schema: Schema) -> Typed:
    match schema.get("format"):
        case "date-time":
            return Typed("datetime.datetime", {"type": "string", "format": "date-time"})
        case "byte":
            return Typed("bytes", {"type": "string", "format": "byte"})
    limits = bounds(schema, {"minLength": "min_length", "maxLength": "max_length"})
    arguments = limits.expression
    assert isinstance(arguments, Brackets), "constraints are arguments"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and _is_portable(pattern):
        limits.schema["pattern"] = pattern
        arguments = Brackets(arguments.head, (*arguments.elements, *named({"pattern": quoted(pattern)})), ")")
    return constrained(Typed("str", {"type": "string", **limits.schema}), arguments)


def _is_portable(pattern: str) -> bool:
    """Whether Python interprets the pattern as Go does; other patterns are left to the API server."""
    if re.search(r"\\[pPzQECdwsDWSbB]|\[\[:|\(\?|\$", pattern.removesuffix("$")):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def bounds(schema: Schema, names: Mapping[str, str]) -> Typed:
    """The bounds of a schema as arguments of ``msgspec.Meta``, as far as it takes them."""
    limits = {name: schema[name] for name in names if type(schema.get(name)) in (int, float)}
    limits = {name: value for name, value in limits.items() if abs(value) <= _MAX_BOUND and _fits(schema, value)}
    if "multipleOf" in limits and limits["multipleOf"] <= 0:
        del limits["multipleOf"]
    return Typed(call("msgspec.Meta", **{names[name]: repr(value) for name, value in limits.items()}), dict(limits))


def _fits(schema: Schema, value: float) -> bool:
    return isinstance(value, int) or schema.get("type") == "number"


def constrained(typed: Typed, arguments: Expression) -> Typed:
    assert isinstance(arguments, Brackets), "constraints are arguments"
    if not arguments.elements:
        return typed
    return Typed(subscript("Annotated", (typed.expression, arguments)), typed.schema)


def is_foreign_default(schema: Schema) -> bool:
    """Whether a default is a value that its type in Python does not have: 1 for a number that is a string."""
    kinds: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "number": (int, float)}
    kind = kinds.get(schema.get("type", ""))
    if kind is None:
        return not schema.get("x-kubernetes-int-or-string")
    return not isinstance(schema["default"], kind) or schema.get("format") in ("date-time", "byte")


def zero_value(schema: Schema) -> str | None:
    """The decoded value of a missing field; None if it must be distinguished from every value."""
    if schema.get("enum") or schema.get("x-kubernetes-int-or-string"):
        return None
    match schema.get("type"):
        case "string" if schema.get("format") not in ("date-time", "byte"):
            return '""'
        case "array":
            return "()"
        case "object" if not schema.get("properties"):
            return "{}"
    return None
