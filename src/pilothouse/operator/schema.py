"""Structural schemas (OpenAPI v3, as CustomResourceDefinitions take them) of views."""

from typing import Any

import msgspec
from msgspec import inspect as types

from pilothouse.api.meta import Condition
from pilothouse.operator.arguments import shown
from pilothouse.operator.descriptions import class_description, field_descriptions

_UNKNOWN = {"x-kubernetes-preserve-unknown-fields": True}
_IMPLIED = ("apiVersion", "kind", "metadata")
"""Fields that every custom resource has; their schemas are built in."""


def object_schema(view: type[Any]) -> dict[str, Any]:
    """The schema of a custom resource read as ``view``: without ``apiVersion``, ``kind`` and ``metadata``.

    Raises ``TypeError`` for a view that is no ``msgspec.Struct`` and for fields that no structural schema expresses.
    """
    if not isinstance(view, type) or not issubclass(view, msgspec.Struct):  # type: ignore[redundant-expr]  # of untyped code
        raise TypeError(f"a custom resource is a View (a msgspec.Struct), got {shown(view)}")
    info = types.type_info(view)
    assert isinstance(info, types.StructType)
    return _struct(info, view.__name__, (), skip=_IMPLIED)


def agree(one: dict[str, Any], other: dict[str, Any], path: str = "") -> str:
    """The path of the first difference between two schemas, or "". Descriptions and defaults do not count: no object
    changes its meaning or becomes invalid because of them."""
    for name in sorted((one.keys() | other.keys()) - {"description", "default", "properties", "items"}):
        if name == "additionalProperties" and name in one and name in other:
            if different := agree(one[name], other[name], f"{path}[]"):
                return different
        elif one.get(name) != other.get(name):
            return f"{path or 'the object'} ({name})"
    if ("items" in one) and (different := agree(one["items"], other["items"], f"{path}[]")):
        return different
    properties, other_properties = one.get("properties", {}), other.get("properties", {})
    for name in sorted(properties.keys() | other_properties.keys()):
        below = f"{path}.{name}" if path else name
        if name not in properties or name not in other_properties:
            return below
        if different := agree(properties[name], other_properties[name], below):
            return different
    return ""


def _struct(
    info: types.StructType, path: str, parents: tuple[type[Any], ...], skip: tuple[str, ...] = ()
) -> dict[str, Any]:
    if info.cls in parents:
        raise TypeError(f"{path}: {info.cls.__name__} contains itself; structural schemas cannot be recursive")
    properties: dict[str, Any] = {}
    required = []
    descriptions = field_descriptions(info.cls)
    for field in info.fields:
        if field.encode_name in skip:
            continue
        schema = _schema(field.type, f"{path}.{field.name}", (*parents, info.cls))
        if text := descriptions.get(field.name):
            schema["description"] = text
        if field.required:
            required.append(field.encode_name)
        elif _is_plain(field.default):
            schema["default"] = field.default
        properties[field.encode_name] = schema
    result: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        result["required"] = required
    description = class_description(info.cls)
    if description:
        result["description"] = description
    return result


def _is_plain(default: Any) -> bool:
    """Whether it is a default that ``_struct`` adds to the schema; ``zero_defaults`` adds the others."""
    return isinstance(default, bool | int | float | str) and bool(default)


def _schema(info: types.Type, path: str, parents: tuple[type[Any], ...]) -> dict[str, Any]:
    match info:
        case types.Metadata():
            schema = _schema(info.type, path, parents) | _extra(info)
            return {name: value for name, value in schema.items() if value is not None}
        case types.StructType():
            return _struct(info, path, parents)
        case types.UnionType():
            return _union(info, path, parents)
        case types.DictType():
            if not isinstance(_bare(info.key_type), types.StrType):
                raise TypeError(f"{path}: keys of maps are strings: write dict[str, …]")
            return {"type": "object", "additionalProperties": _schema(info.value_type, f"{path}[]", parents)}
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            return _list(info, path, parents)
        case types.LiteralType() | types.EnumType():
            return _enumeration(info, path)
        case _:
            return _scalar(info, path)


def _bare(info: types.Type) -> types.Type:
    return info.type if isinstance(info, types.Metadata) else info


def _extra(info: types.Metadata) -> dict[str, Any]:
    """The keywords of ``msgspec.Meta(extra_json_schema=…)``; None removes one."""
    extra: dict[str, Any] = dict(info.extra_json_schema or {})
    if examples := extra.pop("examples", None):
        extra["example"] = examples[0]  # definitions have one
    return extra


def _union(info: types.UnionType, path: str, parents: tuple[type[Any], ...]) -> dict[str, Any]:
    members = [member for member in info.types if not isinstance(_bare(member), types.NoneType)]
    scalars = {type(_bare(member)) for member in members}
    if scalars == {types.IntType, types.StrType}:
        schema: dict[str, Any] = {"x-kubernetes-int-or-string": True}
    elif len(members) == 1:
        schema = _schema(members[0], path, parents)
    else:
        raise TypeError(f"{path}: a union of several types has no structural schema; only int | str and T | None have")
    if len(members) < len(info.types):
        schema["nullable"] = True
    return schema


def _list(
    info: types.ListType | types.VarTupleType | types.SetType | types.FrozenSetType,
    path: str,
    parents: tuple[type[Any], ...],
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": _schema(info.item_type, f"{path}[]", parents)}
    if isinstance(info, types.SetType | types.FrozenSetType):
        schema["x-kubernetes-list-type"] = "set"
    item = _bare(info.item_type)
    if isinstance(item, types.StructType) and issubclass(item.cls, Condition):
        # As the markers of metav1.Condition in every generated definition; a key must be required.
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        schema["items"]["required"] = [*schema["items"].get("required", ()), "type", "status"]
    return schema | _bounds(info, {"min_length": "minItems", "max_length": "maxItems"})


def _enumeration(info: types.LiteralType | types.EnumType, path: str) -> dict[str, Any]:
    values = list(info.values) if isinstance(info, types.LiteralType) else [member.value for member in info.cls]
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return {"type": "string", "enum": values}
    if kinds == {int}:
        return {"type": "integer", "enum": values}
    raise TypeError(f"{path}: values of an enumeration are all strings or all integers")


def _scalar(info: types.Type, path: str) -> dict[str, Any]:
    match info:
        case types.AnyType() | types.RawType():
            return dict(_UNKNOWN)
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType():
            return {"type": "integer", "format": "int64", **_bounds(info, _NUMBERS)}
        case types.FloatType():
            return {"type": "number", **_bounds(info, _NUMBERS)}
        case types.StrType():
            return {"type": "string", **_bounds(info, _STRINGS)}
        case types.BytesType():
            return {"type": "string", "format": "byte"}
        case types.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case _:
            raise TypeError(f"{path}: {_without_schema(info)}")


def _without_schema(info: types.Type) -> str:
    """Why a type has no schema, and what has."""
    match info:
        case types.DataclassType() | types.TypedDictType() | types.NamedTupleType():
            return f"{info.cls.__name__} has no structural schema: derive the class from View"
        case types.CustomType():
            return f"{info.cls.__name__} has no structural schema"
        case types.TimeDeltaType():
            read = "pilothouse.machinery.durations.parse_duration"
            return f"timedelta has no structural schema: write str, for durations such as 1h30m, which {read} reads"
        case types.DateType() | types.TimeType():
            name = type(info).__name__.removesuffix("Type").lower()
            return f"{name} has no structural schema: write datetime.datetime or str"
        case _:
            return f"{type(info).__name__.removesuffix('Type')} has no structural schema"


_NUMBERS = {"ge": "minimum", "le": "maximum", "multiple_of": "multipleOf"}
_STRINGS = {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"}


def _bounds(info: types.Type, names: dict[str, str]) -> dict[str, Any]:
    keywords = {
        wire_name: value for name, wire_name in names.items() if (value := getattr(info, name, None)) is not None
    }
    if getattr(info, "gt", None) is not None:
        keywords |= {"minimum": info.gt, "exclusiveMinimum": True}  # type: ignore[attr-defined]  # of numbers
    if getattr(info, "lt", None) is not None:
        keywords |= {"maximum": info.lt, "exclusiveMaximum": True}  # type: ignore[attr-defined]  # of numbers
    return keywords
