"""Numbers that overflow their field, as Go's conversion from unstructured treats them.

A decoder rejects them. The result of an apply is not decoded but converted (apimachinery ``pkg/runtime/converter.go``,
``fromUnstructured``, v0.36), and Go's conversions keep the lowest bits of a number. ``apiserver.endpoints.apply`` uses
this for objects that failed to decode.
"""

import operator
from typing import Any

from pilothouse.api.schema import Definition, Type

_BITS = {"int32": 32, "int64": 64}
_MIN_INT64 = -(2**63)


class ConversionError(ValueError):
    """A number that Go's conversion rejects, with its message."""


def fit_numbers(obj: Any, definition: Definition) -> Any:
    """The object with every integer wrapped to its field's range: 2147483648 in an ``int32`` is -2147483648.

    The same object, not a copy, if all of them fit. Raises ``ConversionError`` for a fraction in such a field.
    """
    if not isinstance(obj, dict):
        return obj
    fields = definition.fields
    return _with(obj, {name: _fit(value, fields[name].type) for name, value in obj.items() if name in fields})


def _with(obj: dict[str, Any], fitting: dict[str, Any]) -> dict[str, Any]:
    return obj if all(value is obj[name] for name, value in fitting.items()) else {**obj, **fitting}


def _fit(value: Any, type_: Type) -> Any:
    if type_.element is not None:
        if isinstance(value, list):
            items = [_fit(item, type_.element) for item in value]
            return value if all(map(operator.is_, items, value)) else items
        if isinstance(value, dict):
            return _with(value, {name: _fit(item, type_.element) for name, item in value.items()})
        return value
    if type_.name == "object":
        return fit_numbers(value, type_.definition)
    bits = _BITS.get(type_.name)
    if bits is None or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float):
        if not value.is_integer():
            raise ConversionError(f"cannot convert float64 to {type_.name}")
        return _wrapped(int(value), bits)
    wrapped = _wrapped(value, bits)
    return value if wrapped == value else wrapped


def _wrapped(number: int, bits: int) -> int:
    # Numbers are converted to floats; beyond 64 bits the result is the minimum.
    number = number if _MIN_INT64 <= number < -_MIN_INT64 else _MIN_INT64
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half
