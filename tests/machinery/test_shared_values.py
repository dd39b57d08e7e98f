"""Equal values are shared, up to a bounded number."""

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
    for number in range(10 * shared_values._MOST):
        values.share(number, number)
        assert len(values._known) <= shared_values._MOST
