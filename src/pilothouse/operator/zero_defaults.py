"""Zero values of a view (``0``, ``""``, ``False``, ``()``, ``{}``) as defaults of its structural schema.

A view reads an absent field as its zero value. With the default in the schema, rules and other clients do so, too:
``self.low <= self.high`` fails with "no such key" for a field that nobody has filled in.
"""

import re
from typing import Any

import msgspec
from msgspec import inspect as types

_BUILT_IN = "pilothouse.api."
_RULES = "x-kubernetes-validations"
_NO_DEFAULT = object()


def add_zero_defaults(view: type[msgspec.Struct], schema: dict[str, Any]) -> None:
    """Give the schema of ``view`` the defaults, in place.

    None are given in the status, which only the controller writes; in the types of built-in objects, where absent and
    empty may differ; for a field with rules of its own, which the default might break; and where the bounds of a field
    rule its zero value out: the API server rejects definitions with such defaults.
    """
    info = types.type_info(view)
    assert isinstance(info, types.StructType)
    _fill(info, schema, skip=("status",))


def _fill(info: types.Type, schema: dict[str, Any], skip: tuple[str, ...] = ()) -> None:
    match info:
        case types.Metadata():
            _fill(info.type, schema)
        case types.UnionType():
            for member in info.types:
                _fill(member, schema)
        case types.DictType():
            if below := schema.get("additionalProperties"):
                _fill(info.value_type, below)
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            _fill(info.item_type, schema["items"])
        case types.StructType() if not info.cls.__module__.startswith(_BUILT_IN):
            properties = schema.get("properties", {})
            for field in info.fields:
                below = properties.get(field.encode_name)
                if below is None or field.encode_name in skip:
                    continue
                _fill(field.type, below)
                zero = _zero(field)
                if zero is not _NO_DEFAULT and "default" not in below and _fits(zero, below):
                    below["default"] = zero


def _zero(field: types.Field) -> Any:
    """The zero value that the field defaults to, as JSON has it."""
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory
    if default in (list, set) or (isinstance(default, list | tuple | set | frozenset) and not default):
        return []
    if default is dict or default == {}:
        return {}
    if isinstance(default, bool | int | float | str) and not default:
        return default
    return _NO_DEFAULT


def _fits(zero: Any, schema: dict[str, Any]) -> bool:
    """Whether the API server would take the value in an object."""
    if _RULES in schema or zero not in schema.get("enum", (zero,)):
        return False
    if isinstance(zero, bool):
        return True
    if isinstance(zero, str):
        return (
            not schema.get("format")
            and not schema.get("minLength")
            and ("pattern" not in schema or re.search(schema["pattern"], zero) is not None)
        )
    if isinstance(zero, int | float):
        low, high = schema.get("minimum", zero), schema.get("maximum", zero)
        above = zero > low if schema.get("exclusiveMinimum") else zero >= low
        return bool(above and (zero < high if schema.get("exclusiveMaximum") else zero <= high))
    if isinstance(zero, dict):
        return not schema.get("minProperties") and not schema.get("required")
    return not schema.get("minItems")
