"""Checks of the arguments of declarations: errors name the argument, the reason and the way out."""

import functools
import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind

_UNEVALUATED: dict[str, Any] = {}
"""How annotations are read, which may name what is only imported for type checkers."""
if sys.version_info >= (3, 14):
    from annotationlib import Format

    _UNEVALUATED["annotation_format"] = Format.FORWARDREF


class Items(msgspec.Struct, frozen=True):
    """What an argument takes several of."""

    plural: str
    placeholder: str
    """One of them, in the suggested text."""
    types: tuple[type[Any], ...] = ()
    """One of these; callables if empty."""
    hint: str = ""

    def of(self, argument: str, value: Any) -> tuple[Any, ...]:
        """The items of an argument (``owns= of controller 'website'``). Raises ``TypeError`` for one without the comma
        of a tuple, and for items of other types."""
        expected = f"{argument} is a tuple of {self.plural}"
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            name = argument.partition("=")[0]
            raise TypeError(f"{expected}, got {shown(value)}: write {name}=({self.placeholder},), with the comma")
        items = tuple(value)
        for item in items:
            if not (isinstance(item, self.types) if self.types else callable(item)):
                raise TypeError(f"{expected}, one is {shown(item)}" + (f": {self.hint}" if self.hint else ""))
        return items


def keys_of(
    argument: str, value: Mapping[str, Any], known: Iterable[str], noun: str, needed: Iterable[str] = ()
) -> None:
    """Raise ``ValueError`` for a dict with unknown keys, or without one that is needed."""
    if unknown := sorted(value.keys() - set(known)):
        raise ValueError(f"{argument} has no {noun} {unknown[0]!r}; it has {', '.join(sorted(known))}")
    if missing := sorted(set(needed) - value.keys()):
        raise ValueError(f"{argument} needs {' and '.join(missing)}")


def check_call(argument: str, function: Any, *arguments: str) -> None:
    """Raise ``TypeError`` unless a function can be called with these positional arguments. Those of C have no
    signature."""
    try:
        signature = inspect.signature(function, **_UNEVALUATED)
    except ValueError:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        call = f"({', '.join(arguments)})"
        raise TypeError(f"{argument}: {function_name(function)!r} is called with {call}: {error}") from None


def shown(value: object) -> str:
    """A value in an error: by its name, if it has one."""
    if isinstance(value, type):
        return f"class {value.__name__}"
    if isinstance(value, Kind):
        return value.group_resource
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}(…)"
    return str(getattr(value, "__name__", "")) or repr(value)


def function_name(function: Any) -> str:
    """The name of a function, also of a partial one."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", function))


def check_function(function: Any, *arguments: str) -> None:
    """Raise ``TypeError`` unless it is a coroutine function that can be called with these arguments."""
    name = function_name(function)
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{name!r} is no coroutine function: declare it async def")
    check_arguments(function, name, *arguments)


def check_arguments(function: Any, name: str, *arguments: str) -> None:
    """Raise ``TypeError`` unless a function can be called with these positional arguments."""
    # What a decorator returns is what is called, with its own parameters: not those of the function that it wraps.
    signature = inspect.signature(function, follow_wrapped=False, **_UNEVALUATED)
    try:
        signature.bind(*arguments)
    except TypeError as error:
        call = f"({', '.join(arguments)})"
        way_out = f"declare it async def {name.rpartition('.')[2]}{call}"
        raise TypeError(f"{name!r} is called with {call}: {error}; {way_out}") from None
