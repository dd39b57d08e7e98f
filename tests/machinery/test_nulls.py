"""Nulls are left out of objects, wherever these are."""

from typing import Any

import pytest

from pilothouse.machinery.nulls import without_nulls


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="a null by itself stays"),
        pytest.param({"a": None, "b": 0, "c": ""}, {"b": 0, "c": ""}, id="zeros are no nulls"),
        pytest.param({"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="what becomes empty stays"),
        pytest.param([{"a": None}, None, [None]], [{}, None, [None]], id="nulls in lists stay"),
    ],
)
def test_members_that_are_null_are_left_out(value: Any, expected: Any) -> None:
    assert without_nulls(value) == expected


def test_the_value_is_not_changed() -> None:
    value = {"a": [{"b": None}]}
    without_nulls(value)
    assert value == {"a": [{"b": None}]}
