"""What counts as a difference between two sides of a kubectl session."""

from typing import Any

import pytest
import yaml
from tests.clients.kubectl_session.comparison import differences
from tests.clients.kubectl_session.sides import Answer
from tests.clients.kubectl_session.telling import Step

OBJECT = {"metadata": {"name": "a", "managedFields": [{"manager": "m", "operation": "Update", "time": "x"}]}}


def found(real: Any, ours: Any, step: Step | None = None) -> list[str]:
    sides = [Answer(0, side, "") if isinstance(side, str) else side for side in (real, ours)]
    return list(differences(step or Step("s", "get pods"), *sides))


@pytest.mark.parametrize(
    ("real", "ours", "differ"),
    [
        pytest.param(Answer(0, "", ""), Answer(1, "", ""), True, id="the exit code"),
        pytest.param("a  b\n", "a  c\n", True, id="a line"),
        pytest.param("a\n", "a\nb\n", True, id="one line more"),
        pytest.param(Answer(0, "", "e"), Answer(0, "", ""), True, id="what is said beside it"),
        pytest.param("a     b\n", "a  b\n", False, id="the width of a column"),
        pytest.param("p-7c4fbd5f9d  5s\n", "p-59b8ccf5fb  2m3s\n", False, id="a hash and an age"),
    ],
)
def test_text(real: Any, ours: Any, differ: bool) -> None:
    assert bool(found(real, ours)) is differ
    newer = found(real, ours, Step("s", "get pods", newer=True))
    assert bool(newer) is (isinstance(real, Answer) and real.code != ours.code), "of a newer step only the exit code"


@pytest.mark.parametrize(
    ("real", "ours", "differ"),
    [
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 2}}, True, id="a value"),
        pytest.param({"spec": {"a": 1}}, {"spec": {}}, True, id="a field that ours lacks"),
        pytest.param({"spec": {"a": [1, 2]}}, {"spec": {"a": [1]}}, True, id="an item that ours lacks"),
        pytest.param(
            {"kind": "P"}, {"kind": "P", "spec": {"a": 1}}, False, id="a field that the real one does not know"
        ),
        pytest.param({"kind": "P", "spec": {"a": None}}, {"kind": "P"}, False, id="a null is no field"),
        pytest.param(OBJECT, {"metadata": {"name": "a"}}, True, id="a manager that ours lacks"),
    ],
)
def test_objects(real: Any, ours: Any, differ: bool) -> None:
    step = Step("s", "get pod -o yaml")
    assert bool(found(yaml.safe_dump(real), yaml.safe_dump(ours), step)) is differ
