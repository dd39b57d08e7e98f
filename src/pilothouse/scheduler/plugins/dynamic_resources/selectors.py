"""Evaluates the CEL selectors of claims and classes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.api.resource import Device, DeviceAttribute
from pilothouse.cel.limits import COST_EXCEEDED, MAX_INLINE_WORK, EvaluationError, GetEvaluator
from pilothouse.env.lazy import lazy_imports
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import (
    Compilation,
    Evaluation,
    SelectorResult,
    Work,
)

with lazy_imports():
    from pilothouse.cel import devices as cel_devices
    from pilothouse.cel import work as cel_work

_MAX_COMPILED = 256
_COMPILATION_UNITS, _EVALUATION_UNITS, _LONG_EVALUATION_UNITS = 5_000, 50, 200_000
"""Of the search."""
_COMPILATION_UNITS_PER_CHARACTER = 20
"""An expression of the maximum length, 10 KiB, takes a tenth of a second."""
_WORK_PER_UNIT = 10
"""The work of an evaluation (``cel.work``) that is a unit of the search."""
_MAX_BOUND = 10 * MAX_INLINE_WORK
"""The maximum work of an evaluation on the event loop if there is no other process, about 25 ms."""


class CompiledSelectors:
    """Expressions by their text. The ones compiled longest ago are dropped."""

    def __init__(self, get_evaluator: GetEvaluator) -> None:
        self._get_evaluator = get_evaluator
        self._compiled: dict[str, cel_devices.Selector | str] = {}

    def get(self, expression: str) -> "cel_devices.Selector | str | None":
        """The same, if it was compiled lately."""
        return self._compiled.get(expression)

    async def compile(self, expression: str) -> "cel_devices.Selector | str":
        """The compiled form of an expression, or the error. Raises ``Busy``."""
        compiled = self._compiled.pop(expression, None)
        if compiled is None:
            compiled = await cel_devices.compile_selector(expression, self._get_evaluator)
        self._compiled[expression] = compiled
        if len(self._compiled) > _MAX_COMPILED:
            del self._compiled[next(iter(self._compiled))]
        return compiled

    async def evaluate(self, evaluation: Evaluation) -> SelectorResult:
        """Evaluate off the event loop, if there is a process for it. Raises ``Busy``."""
        evaluator = self._get_evaluator()
        if evaluator is None:
            if evaluation.program.bound(evaluation.variables) > _MAX_BOUND:
                return f"CEL runtime error: {COST_EXCEEDED}"
            return _evaluate(evaluation.program, evaluation.variables)
        evaluated = await evaluator.run(evaluation.program.task(evaluation.variables))
        return f"CEL runtime error: {evaluated.error}" if evaluated.error else _as_bool(evaluated.value)


class _Values(msgspec.Struct, frozen=True):
    device: Device
    """Kept, since its identity is the key."""
    values: "cel_devices.DeviceValues | str"
    extent: Any


class PodSelectors:
    """The compiled selectors of the claims of one pod, and the values of the devices that they were evaluated with."""

    def __init__(self, compiled: CompiledSelectors) -> None:
        self._shared = compiled
        self.compiled: dict[str, cel_devices.Selector | str] = {}
        self._values: dict[tuple[str, int], _Values] = {}

    def matches(
        self, expression: str, device: Device, driver: str, work: Work
    ) -> SelectorResult | Evaluation | Compilation:
        """``structured.types.Selectors``."""
        selector = self.compiled.get(expression) or self._shared.get(expression)
        if selector is None:
            work.charge(_COMPILATION_UNITS + _COMPILATION_UNITS_PER_CHARACTER * len(expression))
            return Compilation(expression)
        if isinstance(selector, str):
            return f"CEL compile error: {selector}"
        key = driver, id(device)
        known = self._values.get(key)
        if known is None:
            values = _device_values(device, driver)
            extent = None if isinstance(values, str) else cel_work.measure(values.variables(()))
            known = self._values[key] = _Values(device, values, extent)
        if isinstance(known.values, str):
            return f"CEL runtime error: {known.values}"
        variables = selector.variables(known.values)
        units = selector.program.work(variables, known.extent)
        if units > MAX_INLINE_WORK:
            work.charge(_LONG_EVALUATION_UNITS)
            return Evaluation(selector.program, variables)
        work.charge(_EVALUATION_UNITS + units // _WORK_PER_UNIT)
        return _evaluate(selector.program, variables)


def _evaluate(program: Any, variables: Mapping[str, Any]) -> SelectorResult:
    try:
        return _as_bool(program.evaluate(variables))
    except EvaluationError as error:
        return f"CEL runtime error: {error}"


def _as_bool(value: Any) -> SelectorResult:
    if isinstance(value, bool):
        return value
    kind = _KINDS.get(type(value), "map")
    return (
        f"CEL runtime error: CEL result of type {kind} could not be converted to bool: unsupported native conversion "
        f"from {kind} to 'bool'"
    )


_KINDS: Mapping[type, str] = {str: "string", int: "int", float: "double", bytes: "bytes", list: "list"}


def _device_values(device: Device, driver: str) -> "cel_devices.DeviceValues | str":
    attributes: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        try:
            value = _attribute_value(attribute)
        except ValueError as error:
            return f"attribute {name}: {error}"
        domain, identifier = _split(name, driver)
        attributes.setdefault(domain, {})[identifier] = value
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in device.capacity.items():
        domain, identifier = _split(name, driver)
        capacity.setdefault(domain, {})[identifier] = cel_devices.capacity_value(amount.value)
    return cel_devices.DeviceValues(driver, device.allow_multiple_allocations, attributes, capacity)


def _attribute_value(attribute: DeviceAttribute) -> Any:
    """Raises ``ValueError``."""
    for value in (attribute.int_, attribute.bool_, attribute.string):
        if value is not None:
            return value
    if attribute.version is None:
        raise ValueError("unsupported attribute value")
    try:
        return cel_devices.version_value(attribute.version)
    except ValueError as error:
        raise ValueError(f"parse semantic version: {error}") from None


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)
