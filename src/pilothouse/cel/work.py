"""How long an evaluation may take at most, with the values that it is for.

Upstream counts while it evaluates, and stops at a limit. The library counts nothing, so that what might take long has
to be known before: ``work_of`` walks the checked expression over bounds of its values instead of over the values. One
unit is about 50 ns. Unlike ``costs``, whose numbers are upstream's, this counts what the library does: it converts each
variable that is named, copies texts and lists whenever they are selected, iterates 10,000 times at most in one
evaluation, and counted repetitions of a regular expression multiply its program.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from pilothouse.cel.checked import Checked, Node

MAX_ITERATIONS = 10_000
MAX_MEASURED = 20_000
"""Larger values are not measured to the end, which takes a millisecond at most."""
_COUNTED = re.compile(r"\{(\d*),?(\d*)\}")
_MAX_REPEATED = 1000
"""RE2 rejects expressions that repeat more often, however nested."""


class Extent(msgspec.Struct, frozen=True):
    """How large a value may be: elements of any list or map in it, characters of any text in it, and all together
    (``weight``: a value counts 1, 16 characters count 1)."""

    items: int = 0
    chars: int = 0
    weight: int = 1

    @property
    def extent(self) -> "Extent":
        """Itself."""
        return self

    def select(self, name: str) -> "Extent":
        return self

    def elements(self) -> "Extent":
        """Of any element of a list or value of a map."""
        return self

    def keys(self) -> "Extent":
        """Of what a macro of one variable iterates over: elements of a list, keys of a map."""
        return self


class Value(Protocol):
    """A value of which something is known."""

    @property
    def extent(self) -> Extent:
        """How large it may be."""

    def select(self, name: str) -> "Value":
        """Of a field."""

    def elements(self) -> "Value":
        """Of any element of a list or value of a map."""

    def keys(self) -> "Value":
        """Of what a macro of one variable iterates over: elements of a list, keys of a map."""


class Known:
    """One of some values, themselves."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._extent: Extent | None = None

    @property
    def extent(self) -> Extent:
        """The largest of each."""
        if self._extent is None:
            found = [measured(value) for value in self.values]
            self._extent = _largest(found) if found else Extent()
        return self._extent

    def select(self, name: str) -> "Known":
        return Known([value[name] for value in self.values if isinstance(value, dict) and name in value])

    def elements(self) -> "Known":
        """Of any element of a list or value of a map."""
        return Known([one for value in self.values for one in _elements(value)])

    def keys(self) -> "Known":
        """Of what a macro of one variable iterates over: elements of a list, keys of a map."""
        return Known([one for value in self.values if isinstance(value, dict | list) for one in value])


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_NAMED = 8
"""A field more, and its name, which may have a hundred characters."""
_UNMEASURED = Extent(1 << 22, 1 << 22, 1 << 22)
"""Requests and objects have at most 3 MiB."""


def measured(value: Any) -> Extent:
    """How large a value is. Every write passes here that a policy is about."""
    containers: list[Any] = [[value]]
    texts: list[Any] = []
    items = weight = 0
    for one in containers:  # it grows meanwhile
        size = len(one)
        weight += size
        if size > items:  # noqa: PLR1730  # max() is a call for each
            items = size
        if weight > MAX_MEASURED:
            return _UNMEASURED
        if type(one) is dict:
            texts += one
            weight += size
            members = one.values()
        else:
            members = one
        for member in members:
            kind = type(member)
            if kind is str or kind is bytes or kind is bytearray:
                texts.append(member)
            elif kind is dict or kind is list:
                containers.append(member)
    sizes = list(map(len, texts))
    return Extent(items, max(sizes, default=0), weight + (sum(sizes) >> 4))


def together(first: Extent, second: Extent) -> Extent:
    """The extent of two values next to each other."""
    return Extent(max(first.items, second.items), max(first.chars, second.chars), first.weight + second.weight + _NAMED)


def rounded(extent: Extent) -> Extent:
    """Up to powers of two, so that much the same sizes are estimated once."""
    return Extent(_rounded(extent.items), _rounded(extent.chars), _rounded(extent.weight))


def _rounded(size: int) -> int:
    return 1 << (size - 1).bit_length() if size > 1 else size


def work_of(checked: Checked, variables: Mapping[str, Value] | Extent, root: Node | None = None) -> int:
    """The most units that an evaluation takes. ``variables`` is one extent for all when it is an ``Extent``."""
    estimate = _Estimate(checked, variables)
    node = root or checked.root
    result = estimate.value(node)
    if checked.type_of(node).kind not in _FLAT:
        estimate.spend(12 * result.extent.weight)
    return math.ceil(estimate.total)


_FLAT = frozenset(("bool", "int", "uint", "double", "string", "timestamp", "duration"))


_COPIED = 1.0
"""Units that an element takes whenever a list that grows is copied."""


class _Estimate:
    def __init__(self, checked: Checked, variables: Mapping[str, Value] | Extent) -> None:
        self.total = 200.0
        self._checked = checked
        self._variables = variables
        self._locals: dict[str, list[Value]] = {}
        self._converted: set[str] = set()
        self._times = 1

    def spend(self, units: float) -> None:
        """Count what is done as often as the loops around it iterate."""
        self.total += _finite(units) * self._times

    def value(self, node: Node) -> Value:
        self.spend(1)
        match node.kind:
            case "literal":
                literal = node.literal
                return Known([literal]) if isinstance(literal, str | bytes) else Extent()
            case "ident":
                return self._variable(node.name)
            case "select":
                assert node.target is not None, "a field is of something"
                return self._taken(self.value(node.target).select(node.name))
            case "call":
                return self._call(node)
            case "comprehension":
                return self._loop(node)
            case _:
                return self._made(node)

    def _variable(self, name: str) -> Value:
        found = self._locals.get(name)
        if found:
            return found[-1]
        value = self._variables if isinstance(self._variables, Extent) else self._variables.get(name, Extent())
        if name not in self._converted:
            # All of it is converted once before it is used.
            self._converted.add(name)
            self.total += 2 * value.extent.weight
        return value

    def _taken(self, value: Value) -> Value:
        """What is selected is copied, not what is below it."""
        extent = value.extent if isinstance(value, Extent) else _shallow(value)
        self.spend(extent.items / 4 + extent.chars / 32)
        return value

    def _made(self, node: Node) -> Extent:
        self.spend(20)
        parts = [self.value(part).extent for part in node.parts]
        return Extent(
            max([len(parts), *(part.items for part in parts)]),
            max((part.chars for part in parts), default=0),
            1 + sum(part.weight for part in parts),
        )

    def _loop(self, node: Node) -> Value:
        assert node.range is not None, "a loop is over something"
        over = self.value(node.range)
        initial, condition, step, result = node.parts
        before = self.value(initial)
        count = min(_items(over), MAX_ITERATIONS)
        if not count:
            return self._with({node.name: before}, result)
        made: Value = before
        outside, self._times = self._times, min(self._times * count, MAX_ITERATIONS)
        if len(node.variables) == 2:
            variables = {node.variables[0]: _union(over.keys(), Extent()), node.variables[1]: over.elements()}
        else:
            variables = {node.variables[0]: over.keys()}
        variables[node.name] = before
        self._with(variables, condition)
        grown = self._with(variables, step).extent
        self._times = outside
        if initial.kind != "literal":
            items = count * max(1, _added(step))
            made = Extent(max(grown.items, items), grown.chars, count * grown.weight + 1)
            # Each iteration copies what there is so far.
            loops = min(outside, max(1, MAX_ITERATIONS // count))
            self.total += _finite(_COPIED * items * count / 2) * loops
        return self._with({node.name: made}, result)

    def _with(self, variables: Mapping[str, Value], node: Node) -> Value:
        for name, value in variables.items():
            self._locals.setdefault(name, []).append(value)
        found = self.value(node)
        for name in variables:
            self._locals[name].pop()
        return found

    def _call(self, node: Node) -> Value:
        given = ([node.target] if node.target is not None else []) + node.parts
        values = [self.value(part) for part in given]
        match node.name:
            case "_?_:_":
                return _union(values[1], values[2])
            case "dyn" | "optional.of" | "optional.ofNonZeroValue" | "value" if len(values) == 1:
                return values[0]
            case "orValue" | "or" if len(values) == 2:
                return _union(*values)
            case "_[_]" | "_[?_]" | "_?._":
                key = given[1].literal
                return self._taken(values[0].select(key) if isinstance(key, str) else values[0].elements())
            case "!_" | "_&&_" | "_||_" | "@not_strictly_false":
                return Extent()
        extents = [value.extent for value in values]
        if self._is_ours(node):
            self.spend(200 + sum(6 * one.weight + one.chars for one in extents))
        handler = _FUNCTIONS.get(node.name)
        if handler is not None and len(extents) > 1:
            units, result = handler(values, extents)
            self.spend(units)
            return result
        self.spend(1 + sum(one.chars / 16 + one.items / 4 for one in extents))
        if self._checked.type_of(node).kind in ("bool", "int", "uint", "double"):
            return Extent()
        return Extent(
            max((one.items for one in extents), default=0),
            4 * sum(one.chars for one in extents) + 64,
            sum(one.weight for one in extents) * 4 + 8,
        )

    def _is_ours(self, node: Node) -> bool:
        if node.name.startswith("_"):
            return False  # comparisons across kinds of numbers are declared here, and done by the library
        return any(overload.startswith("kubernetes_") for overload in self._checked.overloads.get(node.id, ()))


def _finite(units: float) -> float:
    return min(units, 1e18)


def _items(value: Value) -> int:
    if isinstance(value, Known):
        return max((len(one) for one in value.values if isinstance(one, dict | list)), default=0)
    return value.extent.items


def _shallow(value: Value) -> Extent:
    if not isinstance(value, Known):
        return value.extent
    return Extent(_items(value), max((len(one) for one in value.values if isinstance(one, str)), default=0))


def _largest(extents: list[Extent]) -> Extent:
    return Extent(
        max(one.items for one in extents), max(one.chars for one in extents), max(one.weight for one in extents)
    )


def _union(first: Value, second: Value) -> Value:
    if isinstance(first, Known) and isinstance(second, Known):
        return Known(first.values + second.values)
    return _largest([first.extent, second.extent])


def _added(step: Node) -> int:
    """How many elements one iteration adds at most: as many as literals in it have."""
    own = len(step.parts) if step.kind == "list" else 0
    return max([own, *(_added(part) for part in step.parts)])


_Handler = Callable[[list[Value], list[Extent]], tuple[float, Extent]]


def _matched(values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    """A text held against a regular expression: its program is compiled, then run over each character."""
    text, pattern = extents[0], values[1]
    if isinstance(pattern, Known):
        program = max((_program(one) for one in pattern.values if isinstance(one, str)), default=0)
    else:
        program = pattern.extent.chars * (1 if pattern.extent.chars < 4 else _MAX_REPEATED)
    found = Extent(text.chars + 1, text.chars, 1 + 2 * text.chars)
    return 200 + 2 * program + text.chars * (0.3 + 0.02 * program), found


def _program(pattern: str) -> int:
    repeated = 1
    for low, high in _COUNTED.findall(pattern):
        repeated = min(repeated * max(1, int((high or low or "1")[:5])), _MAX_REPEATED)
    return len(pattern) * repeated


def _all_found(values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    units, found = _matched(values, extents)
    return units + 100 * found.items, found


def _searched(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    text, other = extents[0], extents[1]
    return text.weight + other.weight + text.chars * (other.chars + 16) / 256, Extent()


def _split(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    text = extents[0]
    found = Extent(text.chars + 1, text.chars, 2 + 2 * text.chars)
    return text.chars * (extents[1].chars + 16) / 16, found


def _replaced(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    chars = extents[0].chars + (extents[0].chars + 1) * extents[2].chars if len(extents) > 2 else 0
    units, _found = _searched(_values, extents)
    return units + chars / 4, Extent(0, chars, 1 + chars // 16)


def _joined(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    chars = extents[0].weight * 16 + extents[0].items * (extents[1].chars + 1)
    return extents[0].weight + chars / 16, Extent(0, chars, 1 + chars // 16)


def _formatted(values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    text = values[0]
    if isinstance(text, Known):
        clauses = max((one.count("%") for one in text.values if isinstance(one, str)), default=0)
    else:
        clauses = extents[0].chars // 2 + 1
    chars = extents[0].chars + clauses * extents[1].weight * 24
    return chars / 8, Extent(0, chars, 1 + chars // 16)


def _sum(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    first, second = extents
    total = Extent(first.items + second.items, first.chars + second.chars, first.weight + second.weight)
    return 1 + total.chars / 16 + total.items / 2, total


def _compared(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    return 2 * min(extents[0].weight, extents[1].weight), Extent()


def _contained(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    return extents[0].weight + extents[1].weight, Extent()


def _sets(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    first, second = extents
    return first.items * second.weight + second.items * first.weight, Extent()


_FUNCTIONS: dict[str, _Handler] = {
    "matches": _matched,
    "find": _matched,
    "findAll": _all_found,
    "contains": _searched,
    "indexOf": _searched,
    "lastIndexOf": _searched,
    "split": _split,
    "replace": _replaced,
    "join": _joined,
    "format": _formatted,
    "_+_": _sum,
    "@in": _contained,
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _sets),
}
