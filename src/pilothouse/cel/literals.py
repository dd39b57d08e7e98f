"""Validates the literals of a checked expression.

After cel-go ``cel/validator.go``, with the validators of k8s.io/apiserver ``pkg/cel/environment/base.go`` (v0.36):
arguments of ``duration``, ``timestamp`` and ``matches``, and elements of one type in lists and maps. The library has
no such validators.
"""

from collections.abc import Callable, Iterator

from pilothouse.cel.checked import Checked, Node, Type, format_checked
from pilothouse.machinery.durations import DurationError, parse_nanoseconds
from pilothouse.machinery.patterns import PatternError, compiled
from pilothouse.machinery.times import TimeError, parse_time

_INT64 = 1 << 63
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799
"""The years 1 to 9999."""


def literal_errors(checked: Checked, *, uniform: bool) -> Iterator[tuple[Node, str]]:
    """The invalid nodes and their messages, in the order of cel-go's validators. ``uniform``: the elements of a list or
    map must have one type."""
    nodes = list(_descendants(checked.root))
    for function, is_valid in _ARGUMENTS.items():
        for node in nodes:
            if node.kind == "call" and node.name == function and node.parts and not is_valid(node.parts[0]):
                yield node.parts[0], f"invalid {function} argument"
    if not uniform:
        return
    exempt = {id(inner) for node in nodes if node.name == "format" for inner in _descendants(node)}
    for kind, errors in (("list", _list_errors), ("map", _map_errors)):
        for node in nodes:
            if node.kind == kind and id(node) not in exempt:
                yield from errors(checked, node)


def _descendants(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed([child for child in (node.range, node.target, *node.parts) if child is not None])


def _is_duration(node: Node) -> bool:
    if not isinstance(node.literal, str):
        return True
    try:
        return -_INT64 <= parse_nanoseconds(node.literal) < _INT64
    except DurationError:
        return False


def _is_timestamp(node: Node) -> bool:
    if isinstance(node.literal, int) and not isinstance(node.literal, bool):
        return _FIRST_SECOND <= node.literal <= _LAST_SECOND
    if not isinstance(node.literal, str):
        return True
    try:
        parse_time(node.literal)
    except TimeError:
        return False
    return True


def _is_pattern(node: Node) -> bool:
    if not isinstance(node.literal, str):
        return True
    try:
        compiled(node.literal)
    except PatternError:
        return False
    return True


_ARGUMENTS: dict[str, Callable[[Node], bool]] = {
    "duration": _is_duration,
    "timestamp": _is_timestamp,
    "matches": _is_pattern,
}


def _list_errors(checked: Checked, node: Node) -> Iterator[tuple[Node, str]]:
    types = [_element_type(checked, part, at in node.optional) for at, part in enumerate(node.parts)]
    for part, kind in zip(node.parts, types, strict=True):
        if kind != types[0]:
            yield part, _mismatch(types[0], kind)
            return


def _map_errors(checked: Checked, node: Node) -> Iterator[tuple[Node, str]]:
    types = [_element_type(checked, part, at in node.optional) for at, part in enumerate(node.parts)]
    for at in range(2, len(types)):
        if types[at] != types[at % 2]:
            yield node.parts[at], _mismatch(types[at % 2], types[at])


def _element_type(checked: Checked, node: Node, optional: bool) -> Type:
    kind = checked.type_of(node)
    return kind.of[0] if optional and kind.of else kind


def _mismatch(expected: Type, actual: Type) -> str:
    return f"expected type '{format_checked(expected)}' but found '{format_checked(actual)}'"
