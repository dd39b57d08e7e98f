"""Reading objects that do not fit their view as far as their types allow, and writing back no more than was there.

The API server calls conversions and mutating webhooks before validation, and converts objects that are never stored:
for server-side apply those that consist of the fields of other managers (structured-merge-diff ``merge/update.go``, v6:
``prune``). Go programs decode such objects with zero values for missing fields, and leave bounds, enumerations and
required fields to the schema. So does ``read``.
"""

import datetime
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as types

from pilothouse.client.decode import UNREADABLE, decoders_of
from pilothouse.client.errors import UndecodableObject
from pilothouse.machinery.nulls import without_nulls

T = TypeVar("T")
_ZERO_TIME = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
"""Go's."""
_SCALARS: dict[type[types.Type], tuple[type[Any], Any, str]] = {
    types.StrType: (str, "", "a string"),
    types.BoolType: (bool, False, "a boolean"),
    types.IntType: (int, 0, "an integer"),
    types.FloatType: (float, 0.0, "a number"),
    types.BytesType: (bytes, b"", "base64"),
    types.DateTimeType: (datetime.datetime, _ZERO_TIME, "a date and time (RFC 3339)"),
}
_JSON_NAMES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


MAX_VALUES = 50_000
"""Maximum number of commas and brackets in an object that is decoded leniently, which takes microseconds per value in
the loop of the operator's controllers. Mutating webhooks are called before validation: a user can send any object that
the API server accepts."""
_SHOWN = 40
"""Characters of a value or a key in an error."""

_Path = tuple[Any, str] | None
"""The position of a value: the path of its parent, and the last part. Formatted only in errors: a key may be longer
than everything below it."""


class _Unreadable(Exception):
    """A value of another type than the view has."""

    def __init__(self, *errors: tuple[_Path, str]) -> None:
        super().__init__()
        self.errors = errors
        """Position, and error."""

    def __str__(self) -> str:
        return "; ".join(f"{_shown(path)}: {error}" for path, error in self.errors)


def read(view: type[T], body: bytes, description: Callable[[], str]) -> tuple[T, bool]:
    """An object, and whether it fits its view. In one that does not, missing required fields read as their zero value
    (of a ``Literal`` or ``Enum`` ``""`` or 0), and values count without their bounds.

    Raises ``UndecodableObject`` for invalid JSON and for values of other types.
    """
    try:
        return decoders_of(view).one(body, description), True
    except UndecodableObject as error:
        first = error
    if sum(map(body.count, (b",", b"{", b"["))) > MAX_VALUES:
        raise UndecodableObject(
            description(), f"{first.error}; with more than {MAX_VALUES:,} values it is not read leniently", body
        ) from first
    try:
        data = without_nulls(msgspec.json.decode(body))
        value: T = _value(types.type_info(view), data, None)
    except _Unreadable as error:
        raise UndecodableObject(description(), str(error), body) from first
    except UNREADABLE:
        raise first from None
    return value, False


def without_defaults(view: msgspec.Struct, source: Any) -> dict[str, Any]:
    """The JSON of a view that was decoded from an incomplete object: without fields that have their default, or for
    required ones their zero value, unless ``source``, the JSON of that object, has the field.

    Whatever is missing stays missing: it is an error of the schema and not a stored zero value, and server-side apply
    can remove it."""
    view_fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    _drop_zeros(types.type_info(type(view)), view_fields, source)
    return view_fields


def _value(info: types.Type, data: Any, path: _Path) -> Any:
    match info:
        case types.Metadata():
            return _value(info.type, data, path)
        case types.StructType():
            return _struct(info, _checked(data, dict, path), path)
        case types.DictType():
            fields = _checked(data, dict, path).items()
            return {name: _value(info.value_type, value, (path, f"[{name}]")) for name, value in fields}
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            items = enumerate(_checked(data, list, path))
            return _container(info)(_value(info.item_type, value, (path, f"[{number}]")) for number, value in items)
        case types.UnionType():
            return _member(info, data, path)
        case types.LiteralType():
            return _checked(data, _value_type(info), path)
        case types.EnumType():
            try:
                return info.cls(data)
            except ValueError:
                return _checked(data, _value_type(info), path)
        case types.AnyType():
            return data
        case types.RawType():
            return msgspec.Raw(msgspec.json.encode(data))
    return _scalar(info, data, path)


def _scalar(info: types.Type, data: Any, path: _Path) -> Any:
    if type(info) not in _SCALARS:
        raise _Unreadable((path, f"{type(info).__name__.removesuffix('Type')} has no lenient form"))
    kind, _zero, name = _SCALARS[type(info)]
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError:
        raise _Unreadable((path, f"expected {name}, got {_name(data)}")) from None


def _struct(info: types.StructType, data: dict[str, Any], path: _Path) -> Any:
    values: dict[str, Any] = {}
    for field in info.fields:
        if field.encode_name in data:
            values[field.name] = _value(field.type, data[field.encode_name], (path, f".{field.encode_name}"))
        elif field.required:
            values[field.name] = _zero(field.type)
    return info.cls(**values)


def _member(info: types.UnionType, data: Any, path: _Path) -> Any:
    if data is None:
        return None
    errors = list[tuple[_Path, str]]()
    for member in info.types:
        if isinstance(_bare(member), types.NoneType):
            continue
        try:
            return _value(member, data, path)
        except _Unreadable as error:
            errors += error.errors
    raise _Unreadable(*errors)


def _bare(info: types.Type) -> types.Type:
    return info.type if isinstance(info, types.Metadata) else info


def _value_type(info: types.LiteralType | types.EnumType) -> type[Any]:
    return type(info.values[0] if isinstance(info, types.LiteralType) else next(iter(info.cls)).value)


def _container(info: types.Type) -> type[Any]:
    match info:
        case types.VarTupleType():
            return tuple
        case types.SetType():
            return set
        case types.FrozenSetType():
            return frozenset
    return list


def _zero(info: types.Type) -> Any:
    match _bare(info):
        case types.StructType() as struct:
            return _struct(struct, {}, None)
        case types.DictType():
            return {}
        case (types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType()) as items:
            return _container(items)()
        case types.UnionType(types=members):
            is_optional = any(isinstance(_bare(member), types.NoneType) for member in members)
            return None if is_optional else _zero(members[0])
        case types.LiteralType() | types.EnumType() as choice:
            return "" if _value_type(choice) is str else 0
        case types.RawType():
            return msgspec.Raw(b"null")
        case scalar:
            return _SCALARS[type(scalar)][1] if type(scalar) in _SCALARS else None


def _drop_zeros(info: types.Type, view_fields: Any, source: Any) -> None:
    match _bare(info):
        case types.StructType() as struct if isinstance(view_fields, dict):
            for field in struct.fields:
                name = field.encode_name
                if name not in view_fields:
                    continue
                has = isinstance(source, dict) and name in source
                _drop_zeros(field.type, view_fields[name], source[name] if has else None)
                if not has and view_fields[name] in ({}, _json(_absent(field))):
                    del view_fields[name]
        case types.DictType(value_type=value) if isinstance(view_fields, dict):
            for name, below in view_fields.items():
                _drop_zeros(value, below, source.get(name) if isinstance(source, dict) else None)
        case types.ListType(item_type=item) | types.VarTupleType(item_type=item) if isinstance(view_fields, list):
            old_items = (
                source if isinstance(source, list) and len(source) == len(view_fields) else [None] * len(view_fields)
            )
            for below, old in zip(view_fields, old_items, strict=True):
                _drop_zeros(item, below, old)
        case types.UnionType(types=members):
            for member in members:
                if isinstance(_bare(member), types.StructType):
                    _drop_zeros(member, view_fields, source)


def _absent(field: types.Field) -> Any:
    """The value of a view's field that an object does not have."""
    if field.required:
        return _zero(field.type)
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _checked(data: Any, kind: type[T], path: _Path) -> T:
    if type(data) is not kind:
        raise _Unreadable((path, f"expected {_JSON_NAMES[kind]}, got {_name(data)}"))
    return data


def _name(data: Any) -> str:
    name = _JSON_NAMES.get(type(data), "null")
    return f'"{data}"' if isinstance(data, str) and len(data) <= _SHOWN else name


def _shown(path: _Path) -> str:
    parts = list[str]()
    while path is not None:
        path, part = path
        parts.append(part if len(part) <= _SHOWN + 2 else f"{part[:_SHOWN]}…]")
    return "".join(reversed(parts)).removeprefix(".") or "the object"
