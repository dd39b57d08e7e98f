"""Estimates the maximum time of an evaluation for given values.

Upstream counts the cost during the evaluation and stops at a limit. The library does not count, so ``work_of`` walks
the checked expression with bounds of the values before the evaluation. One unit is about 50 ns.

Unlike ``costs``, whose numbers are upstream's, this models the library: it converts each variable that is used, copies
strings and lists whenever they are selected, stops after 10,000 iterations in one evaluation, and expands counted
repetitions of a regular expression.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from pilothouse.cel.checked import Checked, Node

MAX_ITERATIONS = 10_000
MAX_MEASURED = 20_000
"""Larger values are not measured completely, which takes at most a millisecond."""
_COUNTED = re.compile(r"\{(\d*),?(\d*)\}")
_MAX_REPEATED = 1000
"""RE2 rejects expressions with more repetitions, including nested ones."""


class Extent(msgspec.Struct, frozen=True):
    """Bounds of a value: elements of any list or map in it, characters of any string in it, and the total (``weight``:
    a value counts 1, 16 characters count 1)."""

    items: int = 0
    chars: int = 0
    weight: int = 1

    @property
    def extent(self) -> "Extent":
        """The extent itself."""
        return self

    def select(self, name: str) -> "Extent":
        return self

    def elements(self) -> "Extent":
        """Bounds of any element of a list or value of a map."""
        return self

    def keys(self) -> "Extent":
        """Bounds of what a macro with one variable iterates over: elements of a list, keys of a map."""
        return self


class Value(Protocol):
    """A value with known bounds."""

    @property
    def extent(self) -> Extent:
        """The bounds of the value."""

    def select(self, name: str) -> "Value":
        """The value of a field."""

    def elements(self) -> "Value":
        """Any element of a list or value of a map."""

    def keys(self) -> "Value":
        """What a macro with one variable iterates over: elements of a list, keys of a map."""


class Known:
    """One of several known values."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._extent: Extent | None = None

    @property
    def extent(self) -> Extent:
        """The maximum of each bound."""
        if self._extent is None:
            extents = [measure(value) for value in self.values]
            self._extent = _largest(extents) if extents else Extent()
        return self._extent

    def select(self, name: str) -> "Known":
        return Known([value[name] for value in self.values if isinstance(value, dict) and name in value])

    def elements(self) -> "Known":
        """Any element of a list or value of a map."""
        return Known([element for value in self.values for element in _elements(value)])

    def keys(self) -> "Known":
        """What a macro with one variable iterates over: elements of a list, keys of a map."""
        return Known([element for value in self.values if isinstance(value, dict | list) for element in value])


def _elements(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_FIELD_WEIGHT = 8
"""The weight of a field with its name of up to a hundred characters."""
_UNMEASURED = Extent(1 << 22, 1 << 22, 1 << 22)
"""Requests and objects have at most 3 MiB."""


def measure(value: Any) -> Extent:
    """Measure a value. Called for every write that matches a policy."""
    containers: list[Any] = [[value]]
    texts: list[Any] = []
    items = weight = 0
    for container in containers:  # grows during the loop
        size = len(container)
        weight += size
        if size > items:  # noqa: PLR1730  # max() is a call for each
            items = size
        if weight > MAX_MEASURED:
            return _UNMEASURED
        if type(container) is dict:
            texts += container
            weight += size
            members = container.values()
        else:
            members = container
        for member in members:
            kind = type(member)
            if kind is str or kind is bytes or kind is bytearray:
                texts.append(member)
            elif kind is dict or kind is list:
                containers.append(member)
    sizes = list(map(len, texts))
    return Extent(items, max(sizes, default=0), weight + (sum(sizes) >> 4))


def combined(first: Extent, second: Extent) -> Extent:
    """The extent of two values in one struct."""
    return Extent(
        max(first.items, second.items), max(first.chars, second.chars), first.weight + second.weight + _FIELD_WEIGHT
    )


def round_up(extent: Extent) -> Extent:
    """Round up to powers of two, so that similar sizes share a cached estimate."""
    return Extent(_next_power(extent.items), _next_power(extent.chars), _next_power(extent.weight))


def _next_power(size: int) -> int:
    return 1 << (size - 1).bit_length() if size > 1 else size


def work_of(checked: Checked, variables: Mapping[str, Value] | Extent, root: Node | None = None) -> int:
    """The maximum number of units of an evaluation. If ``variables`` is an ``Extent``, it applies to all variables."""
    estimate = _Estimate(checked, variables)
    node = root or checked.root
    result = estimate.value(node)
    if checked.type_of(node).kind not in _FLAT:
        estimate.spend(12 * result.extent.weight)
    return math.ceil(estimate.total)


_UNBOUNDED = 1 << 40
_FLAT = frozenset(("bool", "int", "uint", "double", "string", "timestamp", "duration"))


_COPY_UNITS = 1.0
"""Units for copying an element of a growing list."""
_INSERT_UNITS = 24.0
"""Units for copying each part of a growing map, which is converted for every call."""
_INSERT = "cel.@mapInsert"


class _Estimate:
    def __init__(self, checked: Checked, variables: Mapping[str, Value] | Extent) -> None:
        self.total = 200.0
        self._checked = checked
        self._variables = variables
        self._locals: dict[str, list[Value]] = {}
        self._converted: set[str] = set()
        self._times = 1

    def spend(self, units: float) -> None:
        """Add units, multiplied by the iterations of the enclosing loops."""
        self.total += _capped(units) * self._times

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
                return self._selected(self.value(node.target).select(node.name))
            case "call":
                return self._call(node)
            case "comprehension":
                return self._loop(node)
            case _:
                return self._literal(node)

    def _variable(self, name: str) -> Value:
        stack = self._locals.get(name)
        if stack:
            return stack[-1]
        value = self._variables if isinstance(self._variables, Extent) else self._variables.get(name, Extent())
        if name not in self._converted:
            # A variable is converted completely before it is used.
            self._converted.add(name)
            self.total += 2 * value.extent.weight
        return value

    def _selected(self, value: Value) -> Value:
        """The selected value is copied, not what is below it."""
        extent = value.extent if isinstance(value, Extent) else _shallow(value)
        self.spend(extent.items / 4 + extent.chars / 32)
        return value

    def _literal(self, node: Node) -> Extent:
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
        initial_value = self.value(initial)
        count = min(_items(over), MAX_ITERATIONS)
        if not count:
            return self._with({node.name: initial_value}, result)
        accumulated: Value = initial_value
        outside, self._times = self._times, min(self._times * count, MAX_ITERATIONS)
        if len(node.variables) == 2:
            variables = {node.variables[0]: _union(over.keys(), Extent()), node.variables[1]: over.elements()}
        else:
            variables = {node.variables[0]: over.keys()}
        variables[node.name] = initial_value
        self._with(variables, condition)
        grown = self._with(variables, step).extent
        self._times = outside
        if initial.kind != "literal":
            items = count * max(1, _added(step))
            accumulated = Extent(max(grown.items, items), grown.chars, count * grown.weight + 1)
            # Each iteration copies the previous result.
            loops = min(outside, max(1, MAX_ITERATIONS // count))
            units = _INSERT_UNITS * grown.weight if _inserts(step) else _COPY_UNITS
            self.total += _capped(units * items * count / 2) * loops
        return self._with({node.name: accumulated}, result)

    def _with(self, variables: Mapping[str, Value], node: Node) -> Value:
        for name, value in variables.items():
            self._locals.setdefault(name, []).append(value)
        bound = self.value(node)
        for name in variables:
            self._locals[name].pop()
        return bound

    def _call(self, node: Node) -> Value:
        arguments = ([node.target] if node.target is not None else []) + node.parts
        values = [self.value(part) for part in arguments]
        match node.name:
            case "_?_:_":
                return _union(values[1], values[2])
            case "dyn" | "optional.of" | "optional.ofNonZeroValue" | "value" if len(values) == 1:
                return values[0]
            case "orValue" | "or" if len(values) == 2:
                return _union(*values)
            case "_[_]" | "_[?_]" | "_?._":
                key = arguments[1].literal
                return self._selected(values[0].select(key) if isinstance(key, str) else values[0].elements())
            case "!_" | "_&&_" | "_||_" | "@not_strictly_false":
                return Extent()
        if node.name == "lists.range":
            return self._range(arguments[0], values[0])
        extents = [value.extent for value in values]
        if node.name in _LIST_FUNCTIONS and node.target is not None:
            units, result = _LIST_FUNCTIONS[node.name](extents[0])
            self.spend(units)
            return result
        if self._is_own_function(node):
            self.spend(200 + sum(6 * extent.weight + extent.chars for extent in extents))
        handler = _FUNCTIONS.get(node.name)
        if handler is not None and len(extents) > 1:
            units, result = handler(values, extents)
            self.spend(units)
            return result
        self.spend(1 + sum(extent.chars / 16 + extent.items / 4 for extent in extents))
        if self._checked.type_of(node).kind in ("bool", "int", "uint", "double"):
            return Extent()
        return Extent(
            max((extent.items for extent in extents), default=0),
            4 * sum(extent.chars for extent in extents) + 64,
            sum(extent.weight for extent in extents) * 4 + 8,
        )

    def _range(self, argument: Node, value: Value) -> Extent:
        """A list of so many numbers; without a known argument of any length."""
        known = [argument.literal] if argument.kind == "literal" else value.values if isinstance(value, Known) else ()
        numbers = [number for number in known if isinstance(number, int)]
        count = max(0, *numbers) if numbers else _UNBOUNDED
        self.spend(count)
        return Extent(count, 0, count + 1)

    def _is_own_function(self, node: Node) -> bool:
        if node.name.startswith("_"):
            return False  # comparisons between number types are declared by us, but implemented by the library
        return any(overload.startswith("kubernetes_") for overload in self._checked.overloads.get(node.id, ()))


def _capped(units: float) -> float:
    return min(units, 1e18)


def _items(value: Value) -> int:
    if isinstance(value, Known):
        return max((len(value_) for value_ in value.values if isinstance(value_, dict | list)), default=0)
    return value.extent.items


def _shallow(value: Value) -> Extent:
    if not isinstance(value, Known):
        return value.extent
    return Extent(_items(value), max((len(extent) for extent in value.values if isinstance(extent, str)), default=0))


def _largest(extents: list[Extent]) -> Extent:
    return Extent(
        max(extent.items for extent in extents),
        max(extent.chars for extent in extents),
        max(extent.weight for extent in extents),
    )


def _union(first: Value, second: Value) -> Value:
    if isinstance(first, Known) and isinstance(second, Known):
        return Known(first.values + second.values)
    return _largest([first.extent, second.extent])


def _added(step: Node) -> int:
    """The maximum number of elements that one iteration adds: those of its literals."""
    added = len(step.parts) if step.kind == "list" else 0
    return max([added, *(_added(part) for part in step.parts)])


def _inserts(step: Node) -> bool:
    """Whether an iteration adds to a map."""
    return step.name == _INSERT or any(map(_inserts, step.parts))


_Handler = Callable[[list[Value], list[Extent]], tuple[float, Extent]]


def _match(values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    """Matching a string: the regular expression is compiled, then its program runs over each character."""
    text, pattern = extents[0], values[1]
    if isinstance(pattern, Known):
        program = max((_program(extent) for extent in pattern.values if isinstance(extent, str)), default=0)
    else:
        program = pattern.extent.chars * (1 if pattern.extent.chars < 4 else _MAX_REPEATED)
    matches = Extent(text.chars + 1, text.chars, 1 + 2 * text.chars)
    return 200 + 2 * program + text.chars * (0.3 + 0.02 * program), matches


def _program(pattern: str) -> int:
    repeated = 1
    for low, high in _COUNTED.findall(pattern):
        repeated = min(repeated * max(1, int((high or low or "1")[:5])), _MAX_REPEATED)
    return len(pattern) * repeated


def _find_all(values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    units, matched = _match(values, extents)
    return units + 100 * matched.items, matched


def _search(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    text, other = extents[0], extents[1]
    return text.weight + other.weight + text.chars * (other.chars + 16) / 256, Extent()


def _split(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    text = extents[0]
    parts = Extent(text.chars + 1, text.chars, 2 + 2 * text.chars)
    return text.chars * (extents[1].chars + 16) / 16, parts


def _replace(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    chars = extents[0].chars + (extents[0].chars + 1) * extents[2].chars if len(extents) > 2 else 0
    units, _found = _search(_values, extents)
    return units + chars / 4, Extent(0, chars, 1 + chars // 16)


def _join(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    chars = extents[0].weight * 16 + extents[0].items * (extents[1].chars + 1)
    return extents[0].weight + chars / 16, Extent(0, chars, 1 + chars // 16)


def _format(values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    text = values[0]
    if isinstance(text, Known):
        clauses = max((extent.count("%") for extent in text.values if isinstance(extent, str)), default=0)
    else:
        clauses = extents[0].chars // 2 + 1
    chars = extents[0].chars + clauses * extents[1].weight * 24
    return chars / 8, Extent(0, chars, 1 + chars // 16)


def _sum(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    first, second = extents
    total = Extent(first.items + second.items, first.chars + second.chars, first.weight + second.weight)
    return 1 + total.chars / 16 + total.items / 2, total


def _copied(extent: Extent) -> tuple[float, Extent]:
    return 1 + extent.weight, extent


def _flattened(extent: Extent) -> tuple[float, Extent]:
    return 1 + 2 * extent.weight, Extent(extent.weight, extent.chars, extent.weight)


def _sorted(extent: Extent) -> tuple[float, Extent]:
    return 1 + 2 * extent.weight * (1 + extent.items.bit_length()), extent


def _distinct(extent: Extent) -> tuple[float, Extent]:
    """Each element is compared with those before."""
    return 1 + 2 * extent.weight * (1 + extent.items), extent


def _insert(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    weight = sum(extent.weight for extent in extents)
    chars = max(extent.chars for extent in extents)
    return 200 + 12 * weight, Extent(sum(extent.items for extent in extents) + 1, chars, weight)


def _compare(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    return 2 * min(extents[0].weight, extents[1].weight), Extent()


def _contains(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    return extents[0].weight + extents[1].weight, Extent()


def _sets(_values: list[Value], extents: list[Extent]) -> tuple[float, Extent]:
    first, second = extents
    return first.items * second.weight + second.items * first.weight, Extent()


_FUNCTIONS: dict[str, _Handler] = {
    "matches": _match,
    "find": _match,
    "findAll": _find_all,
    "contains": _search,
    "indexOf": _search,
    "lastIndexOf": _search,
    "split": _split,
    "replace": _replace,
    "join": _join,
    "format": _format,
    "_+_": _sum,
    _INSERT: _insert,
    "@in": _contains,
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compare),
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _sets),
}
_LIST_FUNCTIONS: dict[str, Callable[[Extent], tuple[float, Extent]]] = {
    "reverse": _copied,
    "slice": _copied,
    "flatten": _flattened,
    "sort": _sorted,
    "@sortByAssociatedKeys": _sorted,
    "distinct": _distinct,
}
"""By the extent of the list."""
