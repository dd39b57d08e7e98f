"""Comparison of two sides of a kubectl session."""

from typing import Any

import yaml
from tests.clients.kubectl_session.comparison import differences
from tests.clients.kubectl_session.runner import Step
from tests.clients.kubectl_session.sides import Answer
from tests.tables import cases

OBJECT = {"metadata": {"name": "a", "managedFields": [{"manager": "m", "operation": "Update", "time": "x"}]}}


def differences_of(expected: Any, actual: Any, step: Step | None = None) -> list[str]:
    sides = [Answer(0, side, "") if isinstance(side, str) else side for side in (expected, actual)]
    return list(differences(step or Step("s", "get pods"), *sides))


@cases(
    "expected, actual, differ",
    {
        "the exit code": (Answer(0, "", ""), Answer(1, "", ""), True),
        "a line": ("a  b\n", "a  c\n", True),
        "additional line": ("a\n", "a\nb\n", True),
        "standard error": (Answer(0, "", "e"), Answer(0, "", ""), True),
        "the width of a column": ("a     b\n", "a  b\n", False),
        "a generated name that looks like an age": ("p-zk7xb\n", "p-4567s\n", False),
        "a hash and an age": ("p-7c4fbd5f9d  5s\n", "p-59b8ccf5fb  2m3s\n", False),
    },
)
def test_text(expected: Any, actual: Any, differ: bool) -> None:
    assert bool(differences_of(expected, actual)) is differ
    newer = differences_of(expected, actual, Step("s", "get pods", newer=True))
    assert bool(newer) is (isinstance(expected, Answer) and expected.code != actual.code), (
        "of a newer step only the exit code"
    )


@cases(
    "expected, actual, differ",
    {
        "a value": ({"spec": {"a": 1}}, {"spec": {"a": 2}}, True),
        "a field that pilothouse lacks": ({"spec": {"a": 1}}, {"spec": {}}, True),
        "an item that pilothouse lacks": ({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, True),
        "a field that the real one lacks": ({"kind": "P"}, {"kind": "P", "spec": {"a": 1}}, False),
        "a null is no field": ({"kind": "P", "spec": {"a": None}}, {"kind": "P"}, False),
        "a manager that pilothouse lacks": (OBJECT, {"metadata": {"name": "a"}}, True),
    },
)
def test_objects(expected: Any, actual: Any, differ: bool) -> None:
    step = Step("s", "get pod -o yaml")
    assert bool(differences_of(yaml.safe_dump(expected), yaml.safe_dump(actual), step)) is differ
