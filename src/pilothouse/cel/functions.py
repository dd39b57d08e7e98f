"""Kubernetes' functions for expressions: their declarations for the checker, and what they do.

After k8s.io/apiserver ``pkg/cel/library`` (v0.36). At run time a value of one of their types is a map with a tag
(``tagged``) and a canonical text, so that equal values are equal maps.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pilothouse.cel import addresses, amounts, authorizers, formats, texts
from pilothouse.cel.tagged import TAG, CallError, Does, Function, Type

__all__ = ["FUNCTIONS", "TAG", "Function", "run_overloads"]

FUNCTIONS: tuple[Function, ...] = (
    *amounts.FUNCTIONS,
    *addresses.FUNCTIONS,
    *texts.FUNCTIONS,
    *formats.FUNCTIONS,
    *authorizers.FUNCTIONS,
)

_KINDS = ("bool", "bytes", "double", "int", "uint", "string", "duration", "timestamp", "list", "map", "null")
"""What a ``dyn`` parameter may be: at run time an overload is found by the kinds of its arguments."""


def _run_type(kind: Type) -> Type:
    if isinstance(kind, tuple):
        return kind[0]
    return "map" if kind.startswith("kubernetes.") else kind


def run_overloads(taken: Callable[[Any], Any]) -> Iterator[Function]:
    """The functions as they are run: one per name and kinds of arguments; tags decide between those of one kind.

    ``taken`` is applied to every argument.
    """
    grouped: dict[tuple[str, tuple[Type, ...], bool], list[Function]] = {}
    for function in FUNCTIONS:
        for takes in _expanded(tuple(_run_type(kind) for kind in function.takes)):
            grouped.setdefault((function.name, takes, function.member), []).append(function)
    for (name, takes, member), candidates in grouped.items():
        gives = {_run_type(candidate.gives) for candidate in candidates}
        assert len(gives) == 1, f"overloads of {name} that differ in what they give cannot be distinguished"
        yield Function(name, takes, gives.pop(), _choose(name, candidates, taken), member=member)


def _expanded(takes: tuple[Type, ...]) -> Iterator[tuple[Type, ...]]:
    if "dyn" not in takes:
        yield takes
        return
    at = takes.index("dyn")
    for kind in _KINDS:
        yield from _expanded((*takes[:at], kind, *takes[at + 1 :]))


_left: list[Any] = []
"""The result of the last call. The library never gives back what it is handed or hands out (0.1.3); it keeps empty
containers, at least, once it has read them."""


def _choose(name: str, candidates: list[Function], taken: Callable[[Any], Any]) -> Does:
    def call(*arguments: Any) -> Any:
        _empty(_left)
        for argument in arguments:
            taken(argument)
        for candidate in candidates:
            if all(_fits(kind, argument) for kind, argument in zip(candidate.takes, arguments, strict=True)):
                assert candidate.does is not None, "what is run has something to do"
                result = candidate.does(*arguments)
                _left.append(result)
                for argument in arguments:
                    if argument is not result:
                        _empty(argument)
                return result
        raise CallError(f"no such overload: {name}")

    return call


def _empty(container: Any) -> None:
    if container is _left:
        for result in container:
            _empty(result)
    if isinstance(container, dict | list):
        container.clear()


def _fits(kind: Type, argument: Any) -> bool:
    if not isinstance(kind, str) or not kind.startswith("kubernetes."):
        return True
    return isinstance(argument, dict) and argument.get(TAG) == kind
