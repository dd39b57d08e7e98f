"""Defaults and checks of fields that many kinds share: absent, immutable, non-negative.

The messages are those of apimachinery's ``pkg/api/validation`` (v0.36).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid
from pilothouse.apiserver.objects import Object

IMMUTABLE = "field is immutable"
NON_NEGATIVE = "must be greater than or equal to 0"
PORT_RANGE = "must be between 1 and 65535, inclusive"


def set_default_fields(obj: Object, defaults: Mapping[str, Any]) -> None:
    """Set every field that is absent or null. Values must not be shared containers.

    An empty string is kept: where Go's field is not a pointer it has been removed before (``omitempty``).
    """
    for field, value in defaults.items():
        if obj.get(field) is None:
            obj[field] = value


def ensure_object(obj: Object, field: str) -> Object:
    """The object in that field, created if absent."""
    value: Object | None = obj.get(field)
    if value is None:
        value = obj[field] = {}
    return value


def set_or_remove(obj: Object, field: str, value: Any) -> None:
    """Set a field, or remove it if the value is None."""
    if value is None:
        obj.pop(field, None)
    else:
        obj[field] = value


def validate_immutable_fields(obj: Object, old: Object, path: str, fields: Mapping[str, str]) -> ErrorList:
    """``field is immutable`` for each changed field (``ValidateImmutableField``). ``fields`` maps names to
    internal types (``internal_types``); ``path`` is that of the object, "" at the top."""
    prefix = f"{path}." if path else ""
    return [
        invalid(prefix + field, internal_value(type_, obj.get(field)), IMMUTABLE)
        for field, type_ in fields.items()
        if obj.get(field) != old.get(field)
    ]


def validate_nonnegative_fields(obj: Object, path: str, fields: Iterable[str]) -> ErrorList:
    """``NON_NEGATIVE`` for each field that is less than zero; ``path`` is that of the object, "" at the top."""
    prefix = f"{path}." if path else ""
    return [invalid(prefix + field, obj[field], NON_NEGATIVE) for field in fields if (obj.get(field) or 0) < 0]
