"""Zero values of a view (``0``, ``""``, ``False``, ``()``, ``{}``) and its nested views as defaults of its schema.

A view decodes a missing field as its default. With the default in the schema, rules and other clients do so, too:
otherwise ``self.low <= self.high`` fails with "no such key" for a field that was not set, ``self.quota.cpu <= 5`` for
an object without ``quota``. The API server applies defaults of an object below its own default (``{}``).
"""

import re
from typing import Any

import msgspec
from msgspec import inspect as types

_BUILT_IN = "pilothouse.api."
_RULES = "x-kubernetes-validations"
_NO_DEFAULT = object()


def add_zero_defaults(view: type[msgspec.Struct], schema: dict[str, Any]) -> None:
    """Add the defaults to the schema of ``view``, in place.

    None are added in the status, which only the controller writes; in the types of built-in objects, where missing and
    empty may differ; for a field with its own rules, which the default might violate; and if the bounds of a field
    exclude its zero value: the API server rejects definitions with such defaults.
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
                value = _default(field)
                if value is not _NO_DEFAULT and "default" not in below and _fits(value, below):
                    below["default"] = value


def _default(field: types.Field) -> Any:
    """The default of the field as JSON, if it is a zero value, a nested view or a tuple."""
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory
    if default in (list, set) or (isinstance(default, list | tuple | set | frozenset) and not default):
        return []
    if default is dict or default == {}:
        return {}
    if isinstance(default, bool | int | float | str) and not default:
        return default
    if isinstance(default, msgspec.Struct) and type(default).__module__.startswith(_BUILT_IN):
        return _NO_DEFAULT
    if isinstance(default, msgspec.Struct | tuple):
        return msgspec.json.decode(msgspec.json.encode(default))
    return _NO_DEFAULT


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether the API server would take the value in an object."""
    if _RULES in schema or value not in schema.get("enum", (value,)):
        return False
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, str):
        return (
            not schema.get("format")
            and _is_between(len(value), schema, "Length")
            and ("pattern" not in schema or re.search(schema["pattern"], value) is not None)
        )
    if isinstance(value, int | float):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        above = value > low if schema.get("exclusiveMinimum") else value >= low
        below = value < high if schema.get("exclusiveMaximum") else value <= high
        return above and below and not (value and "multipleOf" in schema)
    if isinstance(value, dict):
        return _is_between(len(value), schema, "Properties") and _fields_fit(value, schema)
    return _is_between(len(value), schema, "Items") and all(_fits(item, schema["items"]) for item in value)


def _fields_fit(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties") or {}
    return value.keys() >= set(schema.get("required", ())) and all(
        _fits(item, properties.get(name, others)) for name, item in value.items()
    )


def _is_between(size: int, schema: dict[str, Any], description: str) -> bool:
    return bool(schema.get(f"min{description}", size) <= size <= schema.get(f"max{description}", size))
