"""Estimates the worst-case cost of an expression before it is evaluated.

After cel-go's ``checker/cost.go`` (v0.26.0) and k8s.io/apiserver ``pkg/cel/library/cost.go`` (v0.36): every operation
costs one, traversing a string a tenth of its length, a comprehension its body times the size of the range. The sizes of
values are derived from the schema (``sizes``).

CustomResourceDefinitions over the limit are rejected, so the numbers must be upstream's;
``tests/apiserver/apiextensions/test_rule_costs.py`` has upstream's test table.
"""

import math
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.cel.checked import Checked, Node, Type

MOST = 2**64 - 1
_TEXT = 0.1
_PATTERN = 0.25
_FORMAT_PATTERN = 128
_SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
_ACCUMULATORS = ("__result__", "@result")


class Bounds(msgspec.Struct, frozen=True):
    """Minimum and maximum of a size or cost."""

    low: int = 0
    high: int = 0

    def __add__(self, other: "Bounds") -> "Bounds":
        return Bounds(_at_most(self.low + other.low), _at_most(self.high + other.high))

    def __mul__(self, other: "Bounds") -> "Bounds":
        return Bounds(_at_most(self.low * other.low), _at_most(self.high * other.high))

    def scaled(self, factor: float) -> "Bounds":
        """Times a fraction, rounded up."""
        return Bounds(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: "Bounds") -> "Bounds":
        """The smallest bounds that include both."""
        return Bounds(min(self.low, other.low), max(self.high, other.high))


def _at_most(value: int) -> int:
    return min(value, MOST)


def _scaled(value: int, factor: float) -> int:
    return _at_most(math.ceil(float(value) * factor))


def fixed(value: int) -> Bounds:
    """Bounds with equal minimum and maximum."""
    return Bounds(value, value)


ONE = fixed(1)
UNKNOWN = Bounds(0, MOST)
_NOTHING = Bounds()

Sizes = Callable[[Sequence[str]], Bounds | None]
"""The size of the value at a path that begins with a variable; None if unknown."""


class _Entries(msgspec.Struct, frozen=True):
    """The sizes of the elements of a list or map."""

    kind: str
    key: Bounds
    value: Bounds

    def union(self, other: "_Entries | None") -> "_Entries | None":
        if other is None:
            return None
        return _Entries(self.kind, self.key.union(other.key), self.value.union(other.value))


class _Local(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    size: Bounds | None
    entries: _Entries | None


class _Value(msgspec.Struct, frozen=True):
    """An argument of a call with its estimated size."""

    node: Node | None
    kind: Type
    path: tuple[str, ...]
    size: Bounds | None


def cost_of(checked: Checked, sizes: Sizes, root: Node | None = None) -> int:
    """The maximum cost of the expression."""
    return _Coster(checked, sizes).cost(root or checked.root).high


class _Coster:
    def __init__(self, checked: Checked, sizes: Sizes) -> None:
        self._checked = checked
        self._sizes = sizes
        self._paths: dict[int, tuple[str, ...]] = {}
        self._found: dict[int, Bounds] = {}
        self._entries: dict[int, _Entries] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Node) -> Bounds:
        match node.kind:
            case "ident":
                local = self._local(node.name)
                self._paths[node.id] = local.path if local is not None else (node.name,)
                return ONE
            case "select":
                return self._select(node)
            case "call":
                return self._call(node)
            case "list":
                return self._list(node)
            case "map":
                return self._map(node)
            case "struct":
                return sum((self.cost(part) for part in node.parts), _NOTHING) + fixed(40)
            case "comprehension":
                return self._bind(node) if _is_bind(node) else self._loop(node)
            case _:
                return _NOTHING

    def _select(self, node: Node) -> Bounds:
        assert node.target is not None, "a field is of something"
        total = self.cost(node.target)
        if node.test_only:
            return total
        if self._checked.type_of(node.target).kind in ("map", "message"):
            total += ONE
        self._paths[node.id] = (*self._path(node.target), node.name)
        return total

    def _call(self, node: Node) -> Bounds:
        if node.name == "dyn":
            inner = node.parts[0]
            total = self.cost(inner) + ONE
            self._copy(node, inner)
            return total
        if node.name == "_[?_]" and node.parts[0].name == "kubernetesErrors":
            # Only the access to optional values of formats (``formats``).
            return self.cost(node.parts[0])
        costs = [self.cost(part) for part in node.parts]
        arguments = [self._value(part) for part in node.parts]
        total, target = _NOTHING, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._value(node.target)
        overloads = self._checked.overloads.get(node.id, ())
        if not overloads:
            return _NOTHING
        called, size = Bounds(MOST, 0), None
        for overload in overloads:
            estimate, result = self._function(node, overload, target, arguments, costs)
            called = called.union(estimate)
            if result is not None:
                size = result if size is None else size.union(result)
            if overload in ("index_list", "index_map") and node.parts:
                entries = self._entry_sizes(node.parts[0])
                size = entries.value if entries is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node.id] = (*self._path(node.parts[0]), step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._found[node.id] = size
        return total + called

    def _list(self, node: Node) -> Bounds:
        total, item = fixed(10), Bounds(MOST if node.parts else 0, 0)
        for part in node.parts:
            total += self.cost(part)
            item = item.union(self._known_size(part))
        self._entries[node.id] = _Entries("list", ONE, item)
        return total

    def _map(self, node: Node) -> Bounds:
        total, empty = fixed(30), Bounds(MOST if node.parts else 0, 0)
        sizes = [empty, empty]
        for position, part in enumerate(node.parts):
            total += self.cost(part)
            sizes[position % 2] = sizes[position % 2].union(self._known_size(part))
        self._entries[node.id] = _Entries("map", *sizes)
        return total

    def _loop(self, node: Node) -> Bounds:
        assert node.range is not None, "a loop is over something"
        initial, condition, step, result = node.parts
        total = self.cost(node.range) + self.cost(initial)
        self._push(node.name, self._path(initial), self._size(initial), self._entry_sizes(initial))
        entries, path = self._entry_sizes(node.range), self._path(node.range)
        kind = entries.kind if entries is not None else self._checked.type_of(node.range).kind
        key, value = (entries.key, entries.value) if entries is not None else (None, None)
        of_list = kind == "list"
        if len(node.variables) == 2:
            self._push(node.variables[0], (*path, "@indices" if of_list else "@keys"), key, None)
            self._push(node.variables[1], (*path, "@items" if of_list else "@values"), value, None)
        else:
            self._push(node.variables[0], (*path, "@items" if of_list else "@keys"), value if of_list else key, None)
        iteration = self.cost(condition) + self.cost(step)
        for name in node.variables:
            self._locals[name].pop()
        total += self.cost(result)
        self._locals[node.name].pop()
        count = self._known_size(node.range)
        if initial.kind == "literal":
            size = self._size(initial)
            if size is not None:
                self._found[node.id] = size
        elif initial.kind in ("list", "map"):
            self._found[node.id] = count
            result_entries = self._entry_sizes(step)
            if result_entries is not None:
                self._entries[node.id] = result_entries
        return total + count * iteration

    def _bind(self, node: Node) -> Bounds:
        assert node.range is not None, "a binding loops over nothing"
        initial, result = node.parts[0], node.parts[3]
        total = self.cost(node.range) + self.cost(initial)
        self._push(node.name, self._path(initial), self._size(initial), self._entry_sizes(initial))
        total += self.cost(result)
        self._locals[node.name].pop()
        self._copy(node, result)
        return total

    # Sizes of nodes

    def _push(self, name: str, path: tuple[str, ...], size: Bounds | None, entries: _Entries | None) -> None:
        self._locals.setdefault(name, []).append(_Local(path, size, entries))

    def _local(self, name: str) -> _Local | None:
        local = self._locals.get(name)
        return local[-1] if local else None

    def _path(self, node: Node) -> tuple[str, ...]:
        if node.kind == "ident" and (local := self._local(node.name)) is not None:
            return local.path
        return self._paths.get(node.id, ())

    def _value(self, node: Node) -> _Value:
        path = self._path(node)
        if path and path[0] in _ACCUMULATORS:
            path = ()
        return _Value(node, self._checked.type_of(node), path, self._size(node))

    def _copy(self, node: Node, source: Node) -> None:
        size, entries = self._size(source), self._entry_sizes(source)
        if size is not None:
            self._found[node.id] = size
        if entries is not None:
            self._entries[node.id] = entries

    def _size(self, node: Node) -> Bounds | None:
        if node.id in self._found:
            return self._found[node.id]
        literal = _literal_size(node)
        if literal is not None:
            return literal
        path = self._path(node)
        if path and (sized := self._sizes(path)) is not None:
            self._found[node.id] = sized
            return sized
        if _is_scalar(self._checked.type_of(node)):
            return ONE
        local = self._local(node.name) if node.kind == "ident" else None
        return local.size if local is not None else None

    def _known_size(self, node: Node) -> Bounds:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _entry_sizes(self, node: Node) -> _Entries | None:
        if node.id in self._entries:
            return self._entries[node.id]
        local = self._local(node.name) if node.kind == "ident" else None
        return local.entries if local is not None else None

    # Functions

    def _function(
        self, node: Node, overload: str, target: _Value | None, arguments: list[_Value], costs: list[Bounds]
    ) -> tuple[Bounds, Bounds | None]:
        """The cost of a call including its arguments, and the size of its result."""
        paid = sum(costs, _NOTHING)
        estimate = self._list_function(node.name, target, arguments) or self._library_function(
            node.name, target, arguments
        )
        if estimate is not None:
            return estimate[0] + paid, estimate[1]
        sizes = [UNKNOWN if argument.size is None else argument.size for argument in arguments]
        on = UNKNOWN if target is None or target.size is None else target.size
        match overload:
            case "string_format" if target is not None:
                return on.scaled(_TEXT) + paid, None
            case "string_to_bytes":
                return sizes[0].scaled(_TEXT) + paid, Bounds(sizes[0].low, _at_most(sizes[0].high * 4))
            case "bytes_to_string":
                return sizes[0].scaled(_TEXT) + paid, Bounds(sizes[0].low // 4, sizes[0].high)
            case "starts_with_string" | "ends_with_string":
                return sizes[0].scaled(_TEXT) + paid, None
            case "in_list":
                return sizes[1] + paid, None
            case "matches_string" if target is not None:
                return (on + ONE).scaled(_TEXT) * sizes[0].scaled(_PATTERN) + paid, None
            case "contains_string" if target is not None:
                return on.scaled(_TEXT) * sizes[0].scaled(_TEXT) + paid, None
            case "logical_or" | "logical_and":
                return Bounds(costs[0].low, (costs[0] + costs[1]).high), None
            case "conditional":
                entries = self._entry_sizes(node.parts[1])
                both = entries.union(self._entry_sizes(node.parts[2])) if entries is not None else None
                if both is not None:
                    self._entries[node.id] = both
                return costs[0] + costs[1].union(costs[2]), sizes[1].union(sizes[2])
            case "add_string" | "add_bytes" | "add_list":
                size, entries = sizes[0] + sizes[1], self._entry_sizes(node.parts[0])
                both = entries.union(self._entry_sizes(node.parts[1])) if entries is not None else None
                if both is not None:
                    self._entries[node.id] = both
                return (ONE if overload == "add_list" else size.scaled(_TEXT)) + paid, size
        if overload in ("equals", "not_equals") or overload in _COMPARES:
            max_size = min(sizes[0].high, sizes[1].high)
            return Bounds(1 if max_size else 0, max_size).scaled(_TEXT) + paid, None
        return ONE + paid, None

    def _sized(self, value: _Value) -> Bounds:
        if value.size is not None:
            return value.size
        size = self._sizes(value.path) if value.path else None
        return UNKNOWN if size is None else size

    def _element(self, value: _Value) -> _Value | None:
        if not value.kind.of:
            return None
        path = (*value.path, "@items") if value.path else ()
        return _Value(None, value.kind.of[0], path, None)

    def _library_function(
        self, name: str, target: _Value | None, arguments: list[_Value]
    ) -> tuple[Bounds, Bounds | None] | None:
        """The cost of a Kubernetes library function; None for other functions."""
        if name == "check":
            return fixed(350_000), None
        if name in _COST_ONE:
            return ONE, None
        if name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf") and target is not None:
            return self._over_elements(target), None
        first = arguments[0] if arguments else None
        size = self._sized(first) if first is not None else UNKNOWN
        if name == "_==_" and len(arguments) == 2:
            return _equality(arguments)
        if name == "kubernetes.format":
            return ONE, None
        if name == "kubernetes.namedFormat":
            return _NOTHING, None  # our conversion to an optional costs one, upstream's is free
        if name == "kubernetesErrors":
            return size.scaled(_TEXT).scaled(_FORMAT_PATTERN * _PATTERN), None
        if target is not None:
            on = self._sized(target)
            match name:
                case "lowerAscii" | "upperAscii" | "substring" | "trim":
                    return on.scaled(_TEXT), on
                case "replace" if len(arguments) >= 2:
                    return on.scaled(2 * _TEXT), _replaced(on, size, self._sized(arguments[1]))
                case "split":
                    limit = arguments[1].node.literal if len(arguments) > 1 and arguments[1].node else None
                    max_size = on.high if not isinstance(limit, int) else limit % 2**64
                    return on.scaled(2 * _TEXT), Bounds(0, max_size)
                case "join":
                    return self._joined(target, arguments)
                case "find" | "findAll" if arguments:
                    search_cost = (on + ONE).scaled(_TEXT) * size.scaled(_PATTERN)
                    return search_cost, Bounds(0, on.high)
                case "ip":
                    return ONE, None
                case "containsIP" | "containsCIDR" if first is not None:
                    bytes_ = Bounds(4, 16)
                    cost = (bytes_ + bytes_).scaled(_TEXT)
                    if name == "containsCIDR":
                        cost += bytes_.scaled(_TEXT) + ONE
                    return cost + (size.scaled(_TEXT) if first.kind.kind == "string" else _NOTHING), None
        if first is None:
            return None
        if name in ("fieldSelector", "labelSelector"):
            return _selector(size), None
        if name in ("url", "jsonpatch.escapeKey"):
            return size.scaled(_TEXT), size
        if name in ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"):
            return size.scaled(_TEXT), None
        return (size.scaled(2 * _TEXT), None) if name == "ip.isCanonical" else None

    def _list_function(
        self, name: str, target: _Value | None, arguments: list[_Value]
    ) -> tuple[Bounds, Bounds | None] | None:
        """The cost of a function of cel-go's ``ext/lists.go``, and its estimate of the result's size."""
        if name == "lists.range":
            return _allocated(1, fixed(_int_value(arguments[0], MOST)))
        if target is None:
            return None
        size = self._sized(target)
        match name, arguments:
            case "slice", [start, end]:
                return _allocated(1, fixed((_int_value(end, size.high) - _int_value(start, 0)) % 2**64))
            case "reverse", []:
                return _allocated(1, size)
            case "flatten", []:
                return _allocated(1, size)
            case "flatten", [depth]:
                return _allocated(_int_value(depth, MOST), size)
            case "distinct", []:
                return _allocated(2, size * size)
            case "sort", []:
                return self._sorted(target)
            case "@sortByAssociatedKeys", [keys]:
                return self._sorted(keys)
        return None

    def _sorted(self, keys: _Value) -> tuple[Bounds, Bounds]:
        element, size = self._element(keys), self._sized(keys)
        is_text = element is not None and element.kind.kind in ("string", "bytes")
        return _allocated(2 + _TEXT if is_text else 2, size * size)

    def _over_elements(self, target: _Value) -> Bounds:
        element = self._element(target)
        if element is None:
            return self._sized(target).scaled(_TEXT)
        element_cost = ONE
        if element.kind.kind in ("string", "bytes"):
            element_cost += self._sized(element).scaled(_TEXT)
        return self._sized(target) * element_cost

    def _joined(self, target: _Value, arguments: list[_Value]) -> tuple[Bounds, Bounds]:
        count, size, element = self._sized(target), _NOTHING, self._element(target)
        if element is not None:
            size = count * self._sized(element)
        if arguments:
            size += self._sized(arguments[0]) * Bounds(max(count.low - 1, 0), max(count.high - 1, 0))
        return size.scaled(_TEXT), size


def _allocated(factor: float, size: Bounds) -> tuple[Bounds, Bounds]:
    """The cost of a call that creates a list (``estimateAllocatingListCall``), and the size of the list."""
    return size.scaled(factor) + fixed(11), size


def _int_value(value: _Value, default: int) -> int:
    literal = value.node.literal if value.node is not None else None
    return max(literal, 0) if isinstance(literal, int) and not isinstance(literal, bool) else default


_COST_ONE = frozenset(
    (
        *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason"),
        *("error", "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback"),
        *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "sign", "asInteger", "isInteger"),
        *("asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch"),
        *("getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
    )
)
"""Functions with cost 1: authorization check builders, and accessors of addresses, quantities, versions and URLs."""
_COMPARES = frozenset(
    f"{order}_{kind}" for order in ("less", "greater", "less_equals", "greater_equals") for kind in ("string", "bytes")
)
_EQUAL_AT_ONCE = frozenset(("Quantity", "Semver", "IP", "CIDR"))
_LONGEST_FORMAT = 64


def _equality(arguments: list[_Value]) -> tuple[Bounds, Bounds | None] | None:
    first, second = arguments[0].kind, arguments[1].kind
    if first != second or first.kind != "message" or not first.name.startswith("kubernetes."):
        return None
    name = first.name.rpartition(".")[2]
    if name == "NamedFormat":
        return Bounds(1, _LONGEST_FORMAT).scaled(_TEXT), None
    if name == "URL":
        return Bounds(1, arguments[1].size.high if arguments[1].size else 1).scaled(_TEXT), None
    return (ONE, None) if name in _EQUAL_AT_ONCE or first.name.startswith("kubernetes.authorization.") else None


def _selector(size: Bounds) -> Bounds:
    """The cost of parsing a selector: two characters may be a requirement, which is a struct and a list."""
    return fixed(10) + size.scaled(_TEXT) + size.scaled(0.5).scaled(50)


def _replaced(text: Bounds, old: Bounds, new: Bounds) -> Bounds:
    """The size of a string after replacing ``old`` by ``new``."""
    low, high, kept_low, kept_high = 0, 0, 0, 0
    if old.low == 0:
        high, kept_high = _at_most(text.high + 1), text.high
    elif new.high <= old.low:
        kept_high = text.high
    else:
        high = math.ceil(text.high / old.low)
    if old.high == 0:
        low, kept_low = _at_most(text.low + 1), text.low
    elif old.high <= new.low:
        kept_low = text.low
    else:
        low = math.ceil(text.low / old.high)
    return Bounds(low, high) * new + Bounds(kept_low, kept_high)


def _literal_size(node: Node) -> Bounds | None:
    """The size of a literal."""
    match node.kind:
        case "literal":
            return fixed(len(node.literal) if isinstance(node.literal, str | bytes) else 1)
        case "list":
            return fixed(len(node.parts))
        case "map":
            return fixed(len(node.parts) // 2)
        case _:
            return None


def _is_scalar(kind: Type) -> bool:
    return kind.kind in _SCALARS or (kind.kind == "optional_type" and bool(kind.of) and _is_scalar(kind.of[0]))


def _is_bind(node: Node) -> bool:
    assert node.range is not None, "a comprehension has a range"
    condition = node.parts[1]
    over_nothing = node.range.kind == "list" and not node.range.parts
    return (
        over_nothing and condition.kind == "literal" and condition.literal is False and node.name not in _ACCUMULATORS
    )
