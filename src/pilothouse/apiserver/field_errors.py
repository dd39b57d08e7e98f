"""Errors of fields, as upstream's ``field.Error``: reasons and messages.

The constructors have the names of apimachinery's ``pkg/util/validation/field/errors.go`` (v0.36). ``errors.invalid``
combines a list of them to a 422.
"""

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.go_text import FormattedValue, compact_json, print_float, quote

with lazy_imports():
    from pilothouse.apiserver import internal_types  # only needed for errors


class FieldError(msgspec.Struct, frozen=True):
    """An error about one field. ``text`` is the message without the field."""

    field: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


ErrorList = list[FieldError]


def repeated(values: Sequence[Hashable]) -> frozenset[int]:
    """The positions of the values that are equal to an earlier one."""
    first_positions = {value: position for position, value in reversed([*enumerate(values)])}
    return frozenset(position for position, value in enumerate(values) if first_positions[value] < position)


def internal_value(type_: str, value: object) -> FormattedValue:
    """A value of one of upstream's internal types, as ``internal_types`` formats it."""
    return internal_types.internal_value(type_, value)


def of_named_type(value: object) -> FormattedValue:
    """A string of a named type (``core.Protocol``), or a pointer to one: Go formats it as JSON, and quotes only plain
    strings."""
    return value if isinstance(value, FormattedValue) else FormattedValue(compact_json(value, in_order=True))


def struct_value(fields: Iterable[tuple[str, object]]) -> FormattedValue:
    """A struct that is not part of an object, with Go's field names."""
    return FormattedValue(compact_json(dict(fields)))


def internal_diff(type_: str, old: object, new: object) -> str:
    """The diff of a value, line by line, as ``internal_types`` formats it."""
    return internal_types.internal_diff(type_, old, new)


def format_value(value: object) -> str:
    """A value as in messages: strings quoted, numbers plain, everything else as compact JSON with sorted maps."""
    if isinstance(value, str):
        return value if isinstance(value, FormattedValue) else quote(value)
    if isinstance(value, float):
        return print_float(value)
    return compact_json(value, in_order=True)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """``Invalid value``."""
    text = f"Invalid value: {format_value(value)}"
    return FieldError(field, "FieldValueInvalid", f"{text}: {detail}" if detail else text)


def all_invalid(field: str, value: object, details: Iterable[str]) -> ErrorList:
    """``Invalid value`` for each detail."""
    return [invalid(field, value, detail) for detail in details]


def invalid_omitting_value(field: str, detail: str) -> FieldError:
    """``Invalid value``, without the value (``OmitValueType``)."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {detail}")


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    """``Invalid value``, because of its type."""
    return FieldError(field, "FieldValueTypeInvalid", f"Invalid value: {format_value(value)}: {detail}")


def required(field: str, detail: str = "") -> FieldError:
    """``Required value``."""
    return FieldError(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def not_supported(field: str, value: object, supported: Iterable[str], *, plain: bool = False) -> FieldError:
    """``Unsupported value``, with the supported values in this order.

    The values mostly have a named type, so that the value is formatted as JSON; it is quoted if it is a plain string.
    """
    text = format_value(value) if plain else of_named_type(value)
    supported_texts = ", ".join(format_value(supported_value) for supported_value in supported)
    return FieldError(
        field, "FieldValueNotSupported", f"Unsupported value: {text}: supported values: {supported_texts}"
    )


def duplicate(field: str, value: object) -> FieldError:
    """``Duplicate value``."""
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {format_value(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    """``Forbidden``."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> FieldError:
    """``Too long``, in bytes."""
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} {unit}")


def too_many(field: str, count: int, limit: int) -> FieldError:
    """``Too many`` items."""
    items = "item" if limit == 1 else "items"
    return FieldError(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} {items}")


def not_found(field: str, value: object) -> FieldError:
    """``Not found``: a reference to something that does not exist."""
    return FieldError(field, "FieldValueNotFound", f"Not found: {format_value(value)}")
