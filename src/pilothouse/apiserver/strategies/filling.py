"""Small pieces that many strategies are made of: fill in what is absent, refuse what may not change or be negative."""

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object

IMMUTABLE = "field is immutable"
NON_NEGATIVE = "must be greater than or equal to 0"
PORT_RANGE = "must be between 1 and 65535, inclusive"


def fill(obj: Object, defaults: Mapping[str, Any]) -> None:
    """Set every field that is absent or null. Values must not be shared containers.

    An empty string is one where Go has a pointer, and has been dropped already where Go has none (``empties``).
    """
    for field, value in defaults.items():
        if obj.get(field) is None:
            obj[field] = value


def child(obj: Object, field: str) -> Object:
    """The object in that field, made if there is none."""
    found: Object | None = obj.get(field)
    if found is None:
        found = obj[field] = {}
    return found


def fixed(obj: Object, old: Object, path: str, fields: Iterable[str]) -> list[FieldError]:
    """``field is immutable`` for each of the fields that differs; ``path`` is where they are, "" at the top."""
    prefix = f"{path}." if path else ""
    return [
        errors.invalid_value(prefix + field, obj.get(field), IMMUTABLE)
        for field in fields
        if obj.get(field) != old.get(field)
    ]


def number_problems(obj: Object, path: str, fields: Iterable[str]) -> list[FieldError]:
    """``NON_NEGATIVE`` for each of the fields that is less than zero; ``path`` is where they are, "" at the top."""
    prefix = f"{path}." if path else ""
    return [
        errors.invalid_value(prefix + field, obj[field], NON_NEGATIVE) for field in fields if (obj.get(field) or 0) < 0
    ]


def go_named(value: Any) -> Any:
    """A value of an internal type without JSON names, as messages print it: with Go's field names."""
    if isinstance(value, dict):
        return {name[:1].upper() + name[1:]: go_named(member) for name, member in value.items()}
    if isinstance(value, list):
        return [go_named(item) for item in value]
    return value
