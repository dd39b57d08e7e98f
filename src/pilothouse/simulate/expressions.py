"""CEL expressions over the objects of the cluster: compiled once, evaluated after changes of the objects that they
read, with cost limits.

Variables: ``objects`` (a map of resources, of objects by ``NAMESPACE/NAME``), and ``object`` and ``key`` in rules about
each object. An expression that selects objects only by constant keys gets only these objects.
"""

import difflib
from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.cel.checked import Node, read
from pilothouse.cel.environment import CompileError, Environment, Program
from pilothouse.cel.limits import Budget, EvaluationError, OutOfBudget, evaluate
from pilothouse.cel.work import measure
from pilothouse.simulate import field_values
from pilothouse.simulate.objects import ObservedObjects

MAX_CHARACTERS = 20_000
MAX_WEIGHT = 2_000_000_000
"""Maximum number of values that one expression reads in one run, over all evaluations: some minutes of CPU."""
NO_SUCH_KEY = "no such key"


class ExpressionError(ValueError):
    """An invalid expression, or one that exceeds the cost limits."""


class Reads(msgspec.Struct, frozen=True):
    """The resources that an expression reads, each with the keys, or None for all objects."""

    resources: dict[str, frozenset[str] | None]

    def concerns(self, name: str, key: str) -> bool:
        """Whether the expression reads this object."""
        keys = self.resources.get(name, frozenset())
        return keys is None or key in keys


class Value(msgspec.Struct, frozen=True):
    """The result of an evaluation: true, false, or an error."""

    holds: bool
    error: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether the expression reads an object that does not exist."""
        return self.error.startswith(NO_SUCH_KEY)


class Expression:
    """A compiled expression."""

    def __init__(self, source: str, *, for_each: str = "") -> None:
        """Raises ``ExpressionError``."""
        if len(source) > MAX_CHARACTERS:
            raise ExpressionError(f"an expression has at most {MAX_CHARACTERS} characters")
        self.source = source
        self.for_each = for_each
        variables: dict[str, Any] = {"objects": ("map", ("map", "dyn"))}
        if for_each:
            variables |= {"object": "dyn", "key": "string"}
        try:
            self._program: Program = Environment(variables).compile(source, return_types=("bool", "dyn"))
        except CompileError as error:
            text = str(error)
            raise ExpressionError(
                text if text.startswith("ERROR") else f"expected an expression that is true or false, got {text}"
            ) from None
        self._root = read(self._program.task({}).checked).root
        self.reads = Reads(_reads(self._root))
        self._weight = 0

    @property
    def reads_all_objects(self) -> bool:
        """Whether it reads all objects of a resource."""
        return any(keys is None for keys in self.reads.resources.values())

    def evaluate(self, objects: ObservedObjects, key: str = "", obj: Any = None) -> Value:
        """Evaluate. Raises ``ExpressionError`` if a cost limit is exceeded."""
        variables: dict[str, Any] = {}
        for name, keys in self.reads.resources.items():
            all_objects = objects.of(name)
            variables[name] = (
                all_objects
                if keys is None
                else {each_key: all_objects[each_key] for each_key in keys if each_key in all_objects}
            )
        values: dict[str, Any] = {"objects": variables}
        if self.for_each:
            values |= {"object": obj, "key": key}
        extent = measure(values)
        self._weight += min(extent.weight, 1 << 20)
        if self._weight > MAX_WEIGHT:
            raise ExpressionError(
                "the expression costs too much: it reads too many objects too often; use forEach, or name objects by "
                "constant keys such as objects.deployments['default/web']"
            )
        try:
            result = evaluate(self._program, values, extent, Budget())
        except OutOfBudget as error:
            raise ExpressionError(f"the expression costs too much: {error}") from None
        except EvaluationError as error:
            if "cost limit exceeded" in str(error):
                raise ExpressionError(
                    "one evaluation of the expression costs too much; use forEach, or name objects by constant keys"
                ) from None
            return Value(False, str(error))
        if not isinstance(result, bool):
            return Value(False, f"expected true or false, got {type(result).__name__}")
        return Value(result)

    def values(self, objects: ObservedObjects, obj: Any = None) -> list[str]:
        """What the fields that it reads are now, a line each. ``obj`` is the variable ``object``, if it is known."""
        return field_values.described(self._root, objects.of, obj)

    def check_names(self, names: list[str]) -> None:
        """Raises ``ExpressionError`` for resources that are not in ``names``."""
        for name in (*self.reads.resources, *((self.for_each,) if self.for_each else ())):
            check_resource(name, names)


def check_resource(name: str, names: list[str]) -> None:
    """Raises ``ExpressionError`` for a resource that is not in ``names``."""
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ExpressionError(f'the cluster has no resource "{name}"{hint}')


def _reads(root: Node) -> dict[str, frozenset[str] | None]:
    keys: dict[str, frozenset[str] | None] = {}

    def add(name: str, key: str | None) -> None:
        known = keys.get(name, frozenset())
        keys[name] = None if key is None or known is None else known | {key}

    def walk(node: Node) -> None:
        name = _resource(node)
        if name is not None:
            add(name, None)
            return
        if node.kind == "ident" and node.name == "objects":
            raise ExpressionError("name a resource: objects.pods, or objects['widgets.example.com']")
        inner = _keyed(node)
        if inner is not None:
            resource, key = inner
            add(resource, key)
            return
        for part in _parts(node):
            walk(part)

    walk(root)
    return keys


def _resource(node: Node) -> str | None:
    """The name, if the node is ``objects.NAME`` or ``objects['NAME']``."""
    if node.kind == "select" and node.target is not None and _is_objects(node.target):
        return node.name
    if node.kind == "call" and node.name == "_[_]" and _is_objects(node.parts[0]):
        literal = node.parts[1].literal
        return literal if isinstance(literal, str) else None
    return None


def _keyed(node: Node) -> tuple[str, str] | None:
    """Resource and key of ``objects.NAME['KEY']``, ``'KEY' in objects.NAME`` and ``has(objects.NAME.KEY)``."""
    if node.kind == "select" and node.target is not None:
        resource = _resource(node.target)
        return (resource, node.name) if resource is not None else None
    if node.kind != "call" or len(node.parts) != 2:
        return None
    over, literal = (node.parts[0], node.parts[1]) if node.name == "_[_]" else (node.parts[1], node.parts[0])
    if node.name not in ("_[_]", "@in") or not isinstance(literal.literal, str):
        return None
    resource = _resource(over)
    return (resource, literal.literal) if resource is not None else None


def _is_objects(node: Node) -> bool:
    return node.kind == "ident" and node.name == "objects"


def _parts(node: Node) -> Iterator[Node]:
    yield from node.parts
    for part in (node.target, node.range):
        if part is not None:
            yield part
