"""Equal values are shared, up to a bounded number."""

from collections.abc import Hashable

import msgspec
import pytest

from pilothouse.machinery import shared_values
from pilothouse.machinery.shared_values import SharedValues


def test_equal_values_are_one_object() -> None:
    values: SharedValues[list[int]] = SharedValues()
    first = values.share("key", [1])
    assert values.share("key", [1]) is first
    assert values.share("key", [2]) == [2]
    assert values.share("other", [1]) is not first


def test_size_is_bounded() -> None:
    values: SharedValues[int] = SharedValues()
    for number in range(10 * shared_values._MAX_VALUES):
        values.share(number, number)
        assert len(values._known) <= shared_values._MAX_VALUES


class _Named(msgspec.Struct, frozen=True):
    names: tuple[str, ...]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("x" * 5000, id="text"),
        pytest.param((False, ("waiting", "x" * 5000)), id="text in a tuple"),
        pytest.param((_Named(("x" * 3000, "x" * 3000)),), id="texts in a struct"),
        pytest.param(tuple(range(5000)), id="many items"),
    ],
)
def test_long_keys_are_not_kept(key: Hashable) -> None:
    values: SharedValues[int] = SharedValues()
    assert values.share(key, 1) == 1
    assert not values._known
