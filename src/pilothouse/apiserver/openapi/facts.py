"""What OpenAPI documents have beyond the table of types: enums, defaults, descriptions of query parameters.

The table is generated (``scripts/make_openapi_facts.py``) and read with the first document.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.api.schema import Definition


class Enum(msgspec.Struct, frozen=True, array_like=True):
    """The values of a Go type, and what descriptions of its fields end with."""

    values: tuple[str, ...]
    description: str


class Facts(msgspec.Struct, frozen=True):
    """All but ``enums`` and ``parameters`` are by definition; ``values`` are indexes of ``enums``.

    ``structs`` are fields whose Go type is a struct (not a pointer), so that they default to an empty object, beyond
    those that ``Definition.printed`` has; ``required`` is the order of required fields, where it is not that of
    ``printed``.
    """

    enums: Sequence[Enum]
    values: Mapping[str, Mapping[str, int]]
    defaults: Mapping[str, Mapping[str, Any]]
    structs: Mapping[str, Sequence[str]]
    required: Mapping[str, Sequence[str]]
    unions: Mapping[str, Sequence[Mapping[str, Any]]]
    parameters: Mapping[str, tuple[str, str]]


@cache
def facts() -> Facts:
    """The table."""
    return msgspec.json.decode(packaged("apiserver/data/openapi.json"), type=Facts)


@lru_cache(maxsize=128)
def query_parameter(key: str) -> dict[str, Any]:
    """A query parameter of v3. It is shared by all operations that have it, and must not be changed."""
    type_name, description = facts().parameters[key]
    shape = {"type": type_name, "uniqueItems": True}
    return {"name": key.rpartition("/")[2], "in": "query", "description": description, "schema": shape}


def query_parameters_of(kind: str) -> list[str]:
    """The keys of the query parameters of one kind: ``PodExecOptions``."""
    return [key for key in facts().parameters if key.startswith(f"{kind}/")]


def enum_of(definition: Definition, field: str) -> Enum | None:
    """The enum of a string field, or of its elements."""
    index = facts().values.get(definition.name, {}).get(field)
    return None if index is None else facts().enums[index]


_ZEROS = frozenset(("string", "int32", "int64", "bool", "number"))


def default_of(definition: Definition, field: str) -> Any:
    """The default of a field in v3, or None: the declared one, or what Go has for a field that is unset and printed."""
    declared = facts().defaults.get(definition.name, {})
    if field in declared:
        return declared[field]
    type_name = definition.fields[field].type.name
    printed = definition.printed.get(field)
    if type_name in _ZEROS:
        return printed
    is_struct = field == "metadata" or printed is not None or field in facts().structs.get(definition.name, ())
    return {} if type_name == "object" and is_struct else None


def required_fields(definition: Definition) -> list[str]:
    """The required fields, in the order in which Go declares them."""
    ordered = facts().required.get(definition.name)
    if ordered is not None:
        return list(ordered)
    required = {name for name, field in definition.fields.items() if field.required}
    printed = [name for name in definition.printed if name in required]
    return printed + sorted(required.difference(printed))
