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


@cases(
    "text, expected",
    {
        "identity": (".", [POD]),
        "a path": (".spec.nodeName", ["n"]),
        "field of a missing field": (".spec.nothing.deeper", []),
        "a quoted key": ('.metadata.annotations["a/b"]', ["1s"]),
        "a quoted field": ('.metadata.annotations."a/b"', ["1s"]),
        "an empty text is a result": ('.metadata.annotations["empty"]', [""]),
        "iterate, with a dot": (".metadata.finalizers.[]", ["f", "g"]),
        "iterate": (".metadata.finalizers[]", ["f", "g"]),
        "index": (".metadata.finalizers[1]", ["g"]),
        "the last item": (".metadata.finalizers[-1]", ["g"]),
        "past the end": (".metadata.finalizers[7]", []),
        "iterating over nothing fails": (".status.nothing.[]", None),
        "try": (".status.nothing.[]?", []),
        "a field of a text fails": (".spec.nodeName.deeper", None),
        "select": ('.status.conditions.[] | select( .type == "Ready" ) | .status', ["False"]),
        "select nothing": ('.status.conditions[] | select(.type=="x").status', []),
        "map and add": (".status.containerStatuses | map(.restartCount) | add", [2]),
        "array construction": ("[.status.containerStatuses[].name]", [["x", "y"]]),
        "length": (".status.containerStatuses | length", [2]),
        "any": (".status.containerStatuses | any(.restartCount > 1)", [True]),
        "all": (".status.containerStatuses | all(.restartCount > 1)", [False]),
        "has": ('.metadata.labels | has("app")', [True]),
        "keys": (".metadata.labels | keys", [["app"]]),
        "an alternative": ('.metadata.annotations["none"] // "5s"', ["5s"]),
        "alternative not used": ('.metadata.annotations["a/b"] // "5s"', ["1s"]),
        "and with >=": ('.spec.nodeName == "n" and .spec.priority >= 5', [True]),
        "or with not": ('.spec.nodeName == "m" or (.spec.hostNetwork | not)', [True]),
        "arithmetic": (".spec.priority * 2 + 1", [11]),
        "texts are joined": ('.spec.nodeName + "x"', ["nx"]),
        "division by zero": (".spec.priority / 0", None),
        "a pattern": ('.spec.nodeName | test("^n$")', [True]),
        "invalid pattern": ('.spec.nodeName | test("[")', None),
        "a prefix": ('.status.phase | startswith("Pen")', [True]),
        "comma": (".spec.nodeName, .status.phase", ["n", "Pending"]),
        "the first of several": ("first(.metadata.finalizers[])", ["f"]),
        "a number from a text": ('"5" | tonumber', [5]),
        "a text from a number": (".spec.priority | tostring", ["5"]),
        "a class of characters": ('.spec.nodeName | test("^[a-z]$")', [True]),
        "$ does not match before a newline, as in Go": ('"a\\n" | test("^a$")', [False]),
        "lookahead is not supported, as in Go": ('"a" | test("(?=a)")', None),
        "unclosed group": ('"a" | test("(")', None),
        "catastrophic backtracking": (f'"{"a" * 5000}!" | test("^(a+)+$")', [False]),
        "null is no result": ("null", []),
        "numbers sort after null": (".spec.priority < null", [False]),
    },
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
        "unbalanced parenthesis": (".a .b )", 6, "not expected"),
        "an unknown function": (".a | frobnicate(1)", 5, "no function"),
        "conditions": ("if .a then 1 else 2 end", 0, "no function"),
        "string interpolation": ('"\\(.a)"', 0, "interpolation"),
        "variables": ("$x", 0, "not supported"),
    },
)
def test_unsupported_syntax_is_reported_with_its_position(text: str, position: int, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason) as caught:
        compile_expression(text)
    assert caught.value.position == position
