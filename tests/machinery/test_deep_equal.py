"""Equality of JSON with the types of Go."""

from typing import Any

import pytest

from pilothouse.machinery.deep_equal import deep_equal, with_distinct_booleans


@pytest.mark.parametrize(
    ("value", "other", "expected"),
    [
        (1, 1, True),
        (True, 1, False),
        (0, False, False),
        (1.0, 1, False),
        ({"a": [{"b": True}]}, {"a": [{"b": 1}]}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (None, False, False),
        ("1", 1, False),
    ],
)
def test_types_are_compared(value: Any, other: Any, expected: bool) -> None:
    assert deep_equal(value, other) is expected
    assert deep_equal(other, value) is expected


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ({"a": 1, "b": 1}, {"a": True, "b": 1}, {"a": "True", "b": 1}),
        ({"a": {"b": [0, 2]}}, {"a": {"b": [False, 2]}}, {"a": {"b": ["False", 2]}}),
        ({"a": True}, {"a": 1}, {"a": "1"}),
        ({"a": 0}, {"a": True}, {"a": True}),
        ({"a": [1]}, {"a": [True, 2]}, {"a": [True, 2]}),
        ({}, {"a": True}, {"a": True}),
    ],
)
def test_only_values_that_python_takes_for_equal_are_marked(old: Any, new: Any, marked: Any) -> None:
    result = with_distinct_booleans(old, new)
    assert result == marked
    assert repr(result) == repr(marked)
    assert (result is new) is (repr(marked) == repr(new))
