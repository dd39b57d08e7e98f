"""The jq of stages: what an expression finds in an object.

Mirrors KWOK ``pkg/utils/expression/query_test.go`` and ``selector_test.go``, and jq's manual.
"""

from typing import Any

import pytest
from tests.tables import cases

from pilothouse.nodes.stages.expressions import ExpressionError, compile_expression

POD = {
    "metadata": {"annotations": {"a/b": "1s", "empty": ""}, "finalizers": ["f", "g"], "labels": {"app": "web"}},
    "spec": {"nodeName": "n", "hostNetwork": False, "priority": 5},
    "status": {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}],
        "containerStatuses": [{"name": "x", "restartCount": 2}, {"name": "y", "restartCount": 0}],
    },
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(".", [POD], id="identity"),
        pytest.param(".spec.nodeName", ["n"], id="a path"),
        pytest.param(".spec.nothing.deeper", [], id="nothing is no result"),
        pytest.param('.metadata.annotations["a/b"]', ["1s"], id="a quoted key"),
        pytest.param('.metadata.annotations."a/b"', ["1s"], id="a quoted field"),
        pytest.param('.metadata.annotations["empty"]', [""], id="an empty text is a result"),
        pytest.param(".metadata.finalizers.[]", ["f", "g"], id="all items, with a dot"),
        pytest.param(".metadata.finalizers[]", ["f", "g"], id="all items"),
        pytest.param(".metadata.finalizers[1]", ["g"], id="one item"),
        pytest.param(".metadata.finalizers[-1]", ["g"], id="the last item"),
        pytest.param(".metadata.finalizers[7]", [], id="past the end"),
        pytest.param(".status.nothing.[]", None, id="iterating over nothing fails"),
        pytest.param(".status.nothing.[]?", [], id="unless tried"),
        pytest.param(".spec.nodeName.deeper", None, id="a field of a text fails"),
        pytest.param('.status.conditions.[] | select( .type == "Ready" ) | .status', ["False"], id="select"),
        pytest.param('.status.conditions[] | select(.type=="x").status', [], id="select nothing"),
        pytest.param(".status.containerStatuses | map(.restartCount) | add", [2], id="map and add"),
        pytest.param("[.status.containerStatuses[].name]", [["x", "y"]], id="a list is made"),
        pytest.param(".status.containerStatuses | length", [2], id="length"),
        pytest.param(".status.containerStatuses | any(.restartCount > 1)", [True], id="any"),
        pytest.param(".status.containerStatuses | all(.restartCount > 1)", [False], id="all"),
        pytest.param('.metadata.labels | has("app")', [True], id="has"),
        pytest.param(".metadata.labels | keys", [["app"]], id="keys"),
        pytest.param('.metadata.annotations["none"] // "5s"', ["5s"], id="an alternative"),
        pytest.param('.metadata.annotations["a/b"] // "5s"', ["1s"], id="no need of the alternative"),
        pytest.param('.spec.nodeName == "n" and .spec.priority >= 5', [True], id="and"),
        pytest.param('.spec.nodeName == "m" or (.spec.hostNetwork | not)', [True], id="or, not"),
        pytest.param(".spec.priority * 2 + 1", [11], id="arithmetic"),
        pytest.param('.spec.nodeName + "x"', ["nx"], id="texts are joined"),
        pytest.param(".spec.priority / 0", None, id="nothing is divided by zero"),
        pytest.param('.spec.nodeName | test("^n$")', [True], id="a pattern"),
        pytest.param('.spec.nodeName | test("[")', None, id="no pattern"),
        pytest.param('.status.phase | startswith("Pen")', [True], id="a prefix"),
        pytest.param(".spec.nodeName, .status.phase", ["n", "Pending"], id="two results"),
        pytest.param("first(.metadata.finalizers[])", ["f"], id="the first of several"),
        pytest.param('"5" | tonumber', [5], id="a number from a text"),
        pytest.param(".spec.priority | tostring", ["5"], id="a text from a number"),
        pytest.param('.spec.nodeName | test("^[a-z]$")', [True], id="a pattern"),
        pytest.param('"a\\n" | test("^a$")', [False], id="a pattern in Go's language"),
        pytest.param('"a" | test("(?=a)")', None, id="a pattern that Go does not know fails"),
        pytest.param('"a" | test("(")', None, id="what is no pattern fails"),
        pytest.param(f'"{"a" * 5000}!" | test("^(a+)+$")', [False], id="a pattern that others take years over"),
        pytest.param("null", [], id="null is no result"),
        pytest.param(".spec.priority < null", [False], id="numbers come after null"),
    ],
)
def test_results(text: str, expected: Any) -> None:
    assert compile_expression(text)(POD) == expected


@cases(
    "text, position, reason",
    {
        "empty": ("", 0, "ends too early"),
        "a pipe into nothing": (".a |", 4, "ends too early"),
        "assignment": (".a = 1", 3, "not supported"),
        "an open bracket": (".a[", 3, "ends too early"),
        "an open parenthesis": ("(.a", 3, "ends too early"),
        "too many": (".a .b )", 6, "not expected"),
        "an unknown function": (".a | frobnicate(1)", 5, "no function"),
        "conditions": ("if .a then 1 else 2 end", 0, "no function"),
        "string interpolation": ('"\\(.a)"', 0, "interpolation"),
        "variables": ("$x", 0, "not supported"),
    },
)
def test_what_is_not_supported_is_said_with_its_place(text: str, position: int, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason) as caught:
        compile_expression(text)
    assert caught.value.position == position
