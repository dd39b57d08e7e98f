"""Numbers that do not fit their field, as Go's conversion of untyped objects takes them.

A decoder refuses them. What an apply has merged is not decoded but converted (apimachinery
``pkg/runtime/converter.go``, ``fromUnstructured``, v0.36), and Go's conversions keep the lowest bits of what is too
large. ``apiserver.handlers.applying`` comes here with what did not decode.
"""

from typing import Any

from pilothouse.api.schema import Definition, Type

_BITS = {"int32": 32, "int64": 64}
_LEAST = -(2**63)


def fit_numbers(obj: Any, definition: Definition) -> Any:
    """The object with every whole number in its field's range. 2147483648 in an ``int32`` is -2147483648."""
    if not isinstance(obj, dict):
        return obj
    fields = definition.fields
    return {name: _fit(value, fields[name].type) if name in fields else value for name, value in obj.items()}


def _fit(value: Any, type_: Type) -> Any:
    if type_.element is not None:
        if isinstance(value, list):
            return [_fit(item, type_.element) for item in value]
        if isinstance(value, dict):
            return {name: _fit(item, type_.element) for name, item in value.items()}
        return value
    if type_.name == "object":
        return fit_numbers(value, type_.definition)
    bits = _BITS.get(type_.name)
    is_whole = type(value) is int or (isinstance(value, float) and value.is_integer())
    return _wrapped(int(value), bits) if bits is not None and is_whole else value


def _wrapped(number: int, bits: int) -> int:
    # Numbers are floats on the way; what is beyond 64 bits becomes the least number there is.
    number = number if _LEAST <= number < -_LEAST else _LEAST
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half
