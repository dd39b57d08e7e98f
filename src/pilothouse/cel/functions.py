"""Kubernetes' functions for expressions: declarations for the checker, and implementations.

After k8s.io/apiserver ``pkg/cel/library`` (v0.36). At run time a value of Kubernetes' types is a map with a tag
(``tagged``) and a canonical text, so that equal values are equal maps.
"""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from pilothouse.cel import addresses, authorizers, formats, quantity, semver, texts
from pilothouse.cel.tagged import TAG, CallError, Function, Implementation, Type

__all__ = ["FUNCTIONS", "TAG", "Function", "run_overloads"]


def _insert(entries: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    # Arguments are emptied after the call, which the value must outlive.
    return {**entries, key: copy(value)}


def _merge(entries: dict[Any, Any], others: dict[Any, Any]) -> dict[Any, Any]:
    if repeated := entries.keys() & others.keys():
        raise CallError(f"insert failed: key {min(map(str, repeated))} already exists")
    return {**entries, **others}


_MACRO_FUNCTIONS = (
    Function("cel.@mapInsert", ("map", "dyn", "dyn"), "map", _insert, member=False),
    Function("cel.@mapInsert", ("map", "map"), "map", _merge, member=False),
)
"""What the macros ``transformMap`` and ``transformMapEntry`` expand to: the library declares these functions for the
checker, but does not implement them (0.1.3)."""
FUNCTIONS: tuple[Function, ...] = (
    *quantity.FUNCTIONS,
    *semver.FUNCTIONS,
    *addresses.FUNCTIONS,
    *texts.FUNCTIONS,
    *formats.FUNCTIONS,
    *authorizers.FUNCTIONS,
)

_KINDS = ("bool", "bytes", "double", "int", "uint", "string", "duration", "timestamp", "list", "map", "null")
"""The types of a ``dyn`` parameter: at run time overloads are resolved by the types of arguments."""


def _run_type(kind: Type) -> Type:
    if isinstance(kind, tuple):
        return kind[0]
    return "map" if kind.startswith("kubernetes.") else kind


def run_overloads(convert: Callable[[Any], Any]) -> Iterator[Function]:
    """The overloads at run time: one for each name and argument types; overloads with the same types are distinguished
    by tags.

    ``convert`` is applied to every argument.
    """
    grouped: dict[tuple[str, tuple[Type, ...], bool], list[Function]] = {}
    for function in (*FUNCTIONS, *_MACRO_FUNCTIONS):
        for argument_types in _expand_dyn(tuple(_run_type(kind) for kind in function.argument_types)):
            grouped.setdefault((function.name, argument_types, function.member), []).append(function)
    for (name, argument_types, member), candidates in grouped.items():
        result_types = {_run_type(candidate.result_type) for candidate in candidates}
        # At run time lists have no type of elements, which the result of some functions depends on.
        result_type = result_types.pop() if len(result_types) == 1 else "dyn"
        yield Function(name, argument_types, result_type, _choose(name, candidates, convert), member=member)


def _expand_dyn(argument_types: tuple[Type, ...]) -> Iterator[tuple[Type, ...]]:
    if "dyn" not in argument_types:
        yield argument_types
        return
    at = argument_types.index("dyn")
    for kind in _KINDS:
        yield from _expand_dyn((*argument_types[:at], kind, *argument_types[at + 1 :]))


_last_result: list[Any] = []
"""The result of the last call. The library never frees arguments and results (0.1.3), so containers are emptied after
it has read them."""


def _choose(name: str, candidates: list[Function], convert: Callable[[Any], Any]) -> Implementation:
    def call(*arguments: Any) -> Any:
        _clear(_last_result)
        for argument in arguments:
            convert(argument)
        for candidate in candidates:
            if all(_fits(kind, argument) for kind, argument in zip(candidate.argument_types, arguments, strict=True)):
                assert candidate.implementation is not None, "what is run has something to do"
                result = candidate.implementation(*arguments)
                _last_result.append(result)
                for argument in arguments:
                    if argument is not result:
                        _clear(argument)
                return result
        raise CallError(f"no such overload: {name}")

    return call


def _clear(container: Any) -> None:
    if container is _last_result:
        for result in container:
            _clear(result)
    if isinstance(container, dict | list):
        container.clear()


def _fits(kind: Type, argument: Any) -> bool:
    if not isinstance(kind, str) or not kind.startswith("kubernetes."):
        return True
    return isinstance(argument, dict) and argument.get(TAG) == kind
