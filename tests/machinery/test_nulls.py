"""Null members are removed from objects at any depth."""

from typing import Any

from tests.tables import cases

from pilothouse.machinery.nulls import without_nulls


@cases(
    "value, expected",
    {
        "null": (None, None),
        "zeros are no nulls": ({"a": None, "b": 0, "c": ""}, {"b": 0, "c": ""}),
        "empty objects are kept": ({"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        "nulls in lists are kept": ([{"a": None}, None, [None]], [{}, None, [None]]),
    },
)
def test_null_members_are_removed(value: Any, expected: Any) -> None:
    assert without_nulls(value) == expected


def test_input_is_not_modified() -> None:
    value = {"a": [{"b": None}]}
    without_nulls(value)
    assert value == {"a": [{"b": None}]}
