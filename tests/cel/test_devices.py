"""Selectors of devices, after k8s.io/dynamic-resource-allocation ``cel/compile_test.go`` (v0.36)."""

import asyncio
from typing import Any

from tests.tables import cases

from pilothouse.cel.devices import (
    TOO_COMPLEX,
    DeviceValues,
    Selector,
    capacity_value,
    compile_error,
    compile_selector,
    version_value,
)
from pilothouse.cel.limits import EvaluationError, no_evaluator

DEVICE = DeviceValues(
    "a.com",
    allow_multiple_allocations=True,
    attributes={"a.com": {"color": "red", "size": 2, "ok": True, "version": version_value("1.2.3")}, "b.com": {"x": 1}},
    capacity={"a.com": {"memory": capacity_value("2Gi")}},
)


def compiled(expression: str) -> Selector | str:
    return asyncio.run(compile_selector(expression, no_evaluator))


def evaluated(expression: str) -> Any:
    selector = compiled(expression)
    assert isinstance(selector, Selector)
    try:
        return selector.program.evaluate(selector.variables(DEVICE))
    except EvaluationError as error:
        return str(error)


@cases(
    "expression, expected",
    {
        "the driver": ('device.driver == "a.com"', True),
        "several allocations": ("device.allowMultipleAllocations", True),
        "a text": ('device.attributes["a.com"].color == "red"', True),
        "a number": ('device.attributes["a.com"]["size"] > 1', True),
        "a bool": ('device.attributes["a.com"].ok', True),
        "a version": ('device.attributes["a.com"].version.isLessThan(semver("1.10.0"))', True),
        "a quantity": ('device.capacity["a.com"].memory.isGreaterThan(quantity("1Gi"))', True),
        "the domain of the driver": ('device.attributes[device.driver].color == "red"', True),
        "another domain": ('device.attributes["b.com"].x == 1', True),
        "a bound domain": ('cel.bind(a, device.attributes["a.com"], a.ok && a.size == 2)', True),
        "an unknown name": ('device.attributes["a.com"].z == 1', "no such key: z"),
        "an unknown name in an unknown domain": ('device.attributes["z.com"].z == 1', "no such key: z"),
        "whether there is a name in an unknown domain": ('has(device.attributes["z.com"].z)', False),
        "whether there is a domain": ('"z.com" in device.attributes', False),
        "what is only evaluated with the domain": (
            '"z.com" in device.attributes && device.attributes["z.com"].z == 1',
            False,
        ),
        "an unknown domain of capacity": ('has(device.capacity["z.com"].z)', False),
        "the number of domains": ('size(device.attributes) == 2 && device.attributes["z.com"] == {}', True),
        "a macro over names": ('device.attributes["a.com"].exists(key, key == "color")', True),
        "a text that looks like a lookup": ('device.driver != ".attributes[0]"', True),
    },
)
def test_values(expression: str, expected: Any) -> None:
    assert evaluated(expression) == expected


@cases(
    "expression, expected",
    {
        "another type": ("device.driver", "must evaluate to bool or the unknown type, not string"),
        "a syntax error": ("device.driver ==", "compilation failed: ERROR: <input>:1:17: Syntax error"),
        "an unknown variable": ("dev.driver", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'dev'"),
        "the field of lookups": (
            'device.attributes__or_empty["a.com"].ok',
            "compilation failed: ERROR: <input>:1:7: undefined field 'attributes__or_empty'",
        ),
    },
)
def test_errors(expression: str, expected: str) -> None:
    assert compile_error(expression).startswith(expected)
    found = compiled(expression)
    assert isinstance(found, str)
    assert found.startswith(expected)


def test_an_expression_that_may_cost_too_much() -> None:
    nested = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, a == b && b == c && c == a)))"
    assert compile_error(nested.replace("c == a", "device.attributes.all(d, d == a)")) == TOO_COMPLEX
