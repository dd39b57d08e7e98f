"""The allowed types at a position of a scenario, for messages about invalid fields and values."""

import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from pilothouse.simulate.scenario.positions import Step


def field_names(root: type[msgspec.Struct], path: Sequence[Step]) -> list[str]:
    """The encoded field names of the mapping at a path."""
    return [
        field.encode_name
        for kind in _types_at(root, path)
        if _is_struct(kind)
        for field in msgspec.structs.fields(kind)
    ]


def values(root: type[msgspec.Struct], path: Sequence[Step]) -> list[str]:
    """The allowed values of an enum field."""
    return [str(value) for kind in _types_at(root, path) for value in _literals(kind)]


def _types_at(root: type[msgspec.Struct], path: Sequence[Step]) -> list[Any]:
    allowed: list[Any] = [root]
    for step in path:
        allowed = [inner for kind in allowed for inner in _inside(kind, step)]
    return allowed


def _inside(kind: Any, step: Step) -> Iterator[Any]:
    arguments = typing.get_args(kind)
    if _is_struct(kind):
        hints = typing.get_type_hints(kind)
        for field in msgspec.structs.fields(kind):
            if field.encode_name == step:
                yield from _branches(hints[field.name])
    elif typing.get_origin(kind) is dict and isinstance(step, str):
        yield from _branches(arguments[1])
    elif typing.get_origin(kind) in (tuple, list) and isinstance(step, int):
        yield from _branches(arguments[0])


def _branches(hint: Any) -> Iterator[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for alternative in typing.get_args(hint):
            yield from _branches(alternative)
    else:
        yield hint


def _literals(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
