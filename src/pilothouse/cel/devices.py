"""The CEL selectors of devices: their environment, and the form of a device in it.

After k8s.io/dynamic-resource-allocation ``cel/compile.go`` (v0.36). The API server validates the selectors of claims
and classes, the scheduler evaluates them.

Attributes and capacities have the type ``dyn``. Looking up a domain that a device does not have returns an empty map
upstream, although ``"domain" in device.attributes`` is false. Here such lookups use a second field
(``ATTRIBUTES_OR_EMPTY``), in which the domains that the expression names are never missing: ``runnable_source``
replaces the name of the field.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pilothouse.cel import schemas, sizes
from pilothouse.cel.checked import Checked, Node
from pilothouse.cel.costs import Sizes
from pilothouse.cel.environment import CompileError, Environment, Program
from pilothouse.cel.limits import GetEvaluator
from pilothouse.cel.quantity import quantity
from pilothouse.cel.semver import semver

TOO_COMPLEX = "too complex, exceeds cost limit"
_MAX_COST = 1_000_000
"""Of one expression (``CELSelectorExpressionMaxCost``)."""
_MAX_MEMBERS, _MAX_VALUE_LENGTH, _MAX_DRIVER_LENGTH = 32, 64, 63
_RETURN_TYPES = ("bool", "dyn")
_OR_EMPTY = "__or_empty"
_INDEXED = ("attributes", "capacity")
_LOOKUPS = ("_[_]", "_[?_]")


class DeviceValues(msgspec.Struct, frozen=True):
    """A device as selectors see it: attributes and capacities by domain and name."""

    driver: str
    allow_multiple_allocations: bool
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]

    def variables(self, domains: Iterable[str]) -> dict[str, Any]:
        """The variables of an expression that looks up these domains."""
        names = tuple(domains)
        return {
            "device": {
                "driver": self.driver,
                "allowMultipleAllocations": self.allow_multiple_allocations,
                "attributes": self.attributes,
                "capacity": self.capacity,
                f"attributes{_OR_EMPTY}": {**{key: {} for key in names}, self.driver: {}, **self.attributes},
                f"capacity{_OR_EMPTY}": {**{key: {} for key in names}, self.driver: {}, **self.capacity},
            }
        }


class Selector(msgspec.Struct, frozen=True):
    """A compiled expression."""

    program: Program
    domains: tuple[str, ...]
    """What it looks up in attributes and capacity."""

    def variables(self, device: DeviceValues) -> dict[str, Any]:
        return device.variables(self.domains)


def version_value(text: str) -> Any:
    """The value of a version attribute. Raises ``ValueError``."""
    return semver(text)


def capacity_value(text: str) -> Any:
    """The value of a capacity."""
    return quantity(text)


def compile_error(expression: str) -> str:
    """The error of an expression as the API server reports it; "" if it is a valid selector."""
    environment, of_fields = _environment()
    try:
        program = environment.compile(expression, return_types=_RETURN_TYPES)
    except CompileError as error:
        return _error_text(error)
    return TOO_COMPLEX if program.cost(of_fields) > _MAX_COST else ""


async def compile_selector(expression: str, get_evaluator: GetEvaluator) -> Selector | str:
    """The compiled expression, or the error. Raises ``Busy``."""
    environment, _of_fields = _environment()
    try:
        program = await environment.compile_in_background(expression, get_evaluator, return_types=_RETURN_TYPES)
        source, domains = runnable_source(expression, program.checked)
        if source != expression:
            running = _running_environment()
            program = await running.compile_in_background(source, get_evaluator, return_types=_RETURN_TYPES)
    except CompileError as error:
        return _error_text(error)
    return Selector(program, domains)


def _error_text(error: CompileError) -> str:
    detail = str(error)
    if detail.startswith("ERROR: "):
        return f"compilation failed: {detail}"
    return f"must evaluate to bool or the unknown type, not {detail}"


def runnable_source(source: str, checked: Checked) -> tuple[str, tuple[str, ...]]:
    """The expression with lookups of domains in the second fields, and the domains."""
    positions, domains = list[int](), dict[str, None]()
    for field, domain in _lookups(checked.root):
        at = checked.positions.get(field.id)
        # The position of a selection is that of its dot.
        found = re.compile(rf"\.\s*{field.name}\b").match(source, at) if at is not None else None
        if found is not None:
            positions.append(found.end())
            if domain is not None:
                domains[domain] = None
    for position in sorted(set(positions), reverse=True):
        source = f"{source[:position]}{_OR_EMPTY}{source[position:]}"
    return source, tuple(domains)


def _lookups(root: Node) -> Iterator[tuple[Node, str | None]]:
    """The selections of ``device.attributes`` or ``device.capacity`` in which a domain is looked up, and the domain if
    it is a literal."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.parts
        for child in (node.target, node.range):
            if child is not None:
                waiting.append(child)
        if node.kind == "call" and node.name in _LOOKUPS and len(node.parts) == 2:
            field, key = node.parts
            if _is_field(field):
                yield field, key.literal if isinstance(key.literal, str) else None
        elif node.kind == "select" and node.target is not None and not node.test_only and _is_field(node.target):
            yield node.target, node.name


def _is_field(node: Node) -> bool:
    return (
        node.kind == "select"
        and node.name in _INDEXED
        and node.target is not None
        and node.target.kind == "ident"
        and node.target.name == "device"
    )


@lru_cache(maxsize=1)
def _environment() -> tuple[Environment, Sizes]:
    """The environment, and the maximum sizes of the fields of a device, for cost estimates."""
    value = sizes.Sized(1, _MAX_VALUE_LENGTH)
    values = sizes.Sized(2, _MAX_MEMBERS, of=value, is_map=True, every=value)
    domains = sizes.Sized(2, _MAX_MEMBERS, of=values, is_map=True)
    fields = {
        "driver": sizes.Sized(2, _MAX_DRIVER_LENGTH),
        "allowMultipleAllocations": sizes.Sized(4, 1),
        "attributes": domains,
        "capacity": domains,
    }
    return _environment_with(_INDEXED), sizes.Sized(2, fields=fields).size


@lru_cache(maxsize=1)
def _running_environment() -> Environment:
    return _environment_with((*_INDEXED, *(f"{name}{_OR_EMPTY}" for name in _INDEXED)))


def _environment_with(indexed: Iterable[str]) -> Environment:
    types, members = schemas.Types(), ("map", ("map", "dyn"))
    device: dict[str, schemas.Kind] = {"driver": "string", "allowMultipleAllocations": "bool"}
    device |= dict.fromkeys(indexed, members)
    types.messages.append(("Device", device))
    return Environment({"device": f"{schemas.PACKAGE}.Device"}, types.serialized(), bindings=True)
