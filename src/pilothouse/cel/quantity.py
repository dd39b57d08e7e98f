"""The functions of quantities (k8s.io/apiserver ``pkg/cel/library/quantity.go``, v0.36)."""

from typing import Any

from pilothouse.cel.tagged import CallError, Function, tagged
from pilothouse.machinery.quantities import Quantity, QuantityError, parse_quantity

_QUANTITY = "kubernetes.Quantity"
_INT64 = 1 << 63
_MAX_DIGITS = 19
"""The maximum number of digits in a 64-bit number; larger powers of ten are not computed."""


def quantity(text: str) -> dict[str, Any]:
    try:
        return _tag(parse_quantity(text))
    except QuantityError as error:
        raise CallError(str(error)) from None


def _tag(quantity: Quantity) -> dict[str, Any]:
    # Tagged with the number, so that 1Gi and 1024Mi are equal.
    return tagged(
        "Quantity", f"{quantity.mantissa}e{quantity.exponent}" if quantity else "0e0", canonical=str(quantity)
    )


def _quantity_of(value: dict[str, Any]) -> Quantity:
    return parse_quantity(value["canonical"])


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _sign(quantity: Quantity) -> int:
    return (quantity.mantissa > 0) - (quantity.mantissa < 0)


def _compare(left: dict[str, Any], right: dict[str, Any]) -> int:
    return _sign(_quantity_of(left) - _quantity_of(right))


def _as_int64(value: dict[str, Any]) -> int | None:
    """The value as an integer; None if it is not an integer or does not fit in 64 bits."""
    quantity = _quantity_of(value)
    if quantity.exponent > _MAX_DIGITS or (quantity.exponent < 0 and quantity.mantissa % 10**-quantity.exponent):
        return None
    number = (
        quantity.mantissa * 10**quantity.exponent
        if quantity.exponent >= 0
        else quantity.mantissa // 10**-quantity.exponent
    )
    return number if -_INT64 <= number < _INT64 else None


def _as_integer(value: dict[str, Any]) -> int:
    number = _as_int64(value)
    if number is None:
        raise CallError("cannot convert value to integer")
    return number


def _as_float(value: dict[str, Any]) -> float:
    quantity = _quantity_of(value)
    return float(f"{quantity.mantissa}e{quantity.exponent}")


def _add(value: dict[str, Any], other: dict[str, Any] | int, factor: int) -> dict[str, Any]:
    addend = Quantity(other) if isinstance(other, int) else _quantity_of(other)
    return _tag(_quantity_of(value) + addend if factor > 0 else _quantity_of(value) - addend)


FUNCTIONS = (
    Function("quantity", ("string",), _QUANTITY, quantity, member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, member=False),
    # Upstream documents it as a member, and declares it as a function (``quantity.go``).
    Function("sign", (_QUANTITY,), "int", lambda value: _sign(_quantity_of(value)), member=False),
    Function("compareTo", (_QUANTITY, _QUANTITY), "int", _compare),
    Function("isGreaterThan", (_QUANTITY, _QUANTITY), "bool", lambda left, right: _compare(left, right) > 0),
    Function("isLessThan", (_QUANTITY, _QUANTITY), "bool", lambda left, right: _compare(left, right) < 0),
    Function("isInteger", (_QUANTITY,), "bool", lambda value: _as_int64(value) is not None),
    Function("asInteger", (_QUANTITY,), "int", _as_integer),
    Function("asApproximateFloat", (_QUANTITY,), "double", _as_float),
    Function("add", (_QUANTITY, _QUANTITY), _QUANTITY, lambda value, other: _add(value, other, 1)),
    Function("add", (_QUANTITY, "int"), _QUANTITY, lambda value, other: _add(value, other, 1)),
    Function("sub", (_QUANTITY, _QUANTITY), _QUANTITY, lambda value, other: _add(value, other, -1)),
    Function("sub", (_QUANTITY, "int"), _QUANTITY, lambda value, other: _add(value, other, -1)),
)
