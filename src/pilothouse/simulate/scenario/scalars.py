"""Scalar types of scenarios with a text format: durations, quantities, shares."""

import re
from typing import Any

from pilothouse.machinery.durations import DurationError, format_duration, parse_duration
from pilothouse.machinery.quantities import QuantityError, parse_quantity

_DAYS = re.compile(r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(.*)", re.DOTALL)
MAX_SECONDS = 366 * 86400.0
"""The maximum duration, a year: longer ones are probably mistakes."""
_PERCENT = re.compile(r"(\d{1,3})%")


class Duration(float):
    """Seconds, in Go's format with weeks and days: ``1w``, ``1d12h``, ``10m``, ``500ms``."""

    def __str__(self) -> str:
        return shown_seconds(self)


class Quantity(str):
    """An amount of a resource, as in Kubernetes: ``500m``, ``8``, ``32Gi``."""

    __slots__ = ()


class Share(str):
    """A number of pods, or a percentage: ``1``, ``25%``."""

    __slots__ = ()

    def of(self, total: int) -> int:
        """This share of ``total``, rounded down."""
        match = _PERCENT.fullmatch(self)
        return int(self) if match is None else total * int(match[1]) // 100


def duration(text: object) -> Duration:
    """Parse a duration. Raises ``ValueError``."""
    if text == 0 and not isinstance(text, bool | float):
        return Duration(0.0)
    if not isinstance(text, str):
        raise ValueError(f"expected a duration such as 90s, 10m or 1d12h, got {_shown(text)}")  # noqa: TRY004
    match = _DAYS.fullmatch(text)
    assert match is not None, "the pattern matches every text"
    weeks, days, rest = match.groups()
    try:
        seconds = parse_duration(rest) if rest or not (weeks or days) else 0.0
    except DurationError:
        hint = ": give it a unit" if text.isdecimal() else ""
        raise ValueError(f'expected a duration such as 90s, 10m or 1d12h, got "{text[:60]}"{hint}') from None
    seconds += int(weeks or 0) * 7 * 86400 + int(days or 0) * 86400
    if not 0 <= seconds <= MAX_SECONDS:
        raise ValueError(f'durations are from 0 to 366d, got "{text[:60]}"')
    return Duration(seconds)


def counted(number: int, noun: str) -> str:
    """``1 run``, ``2,000 runs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown_seconds(seconds: float) -> str:
    """Format a duration: ``1d2h``, ``10m``, ``1.5s``."""
    days, rest = divmod(seconds, 86400)
    text = format_duration(rest)
    for unit in ("0s", "0m"):
        if len(text) > 2 and text.endswith(unit) and not text[-3].isdigit():
            text = text[:-2]
    if not days:
        return text
    return f"{int(days)}d" + (text if rest else "")


def decode(kind: type, value: Any) -> Any:
    """msgspec's hook for the types of this module. Raises ``ValueError``."""
    if kind is Duration:
        return duration(value)
    if kind is Quantity:
        return _quantity(value)
    if kind is Share:
        return _share(value)
    raise NotImplementedError(f"scenarios have no values of {kind}")


def _quantity(value: object) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"expected a quantity such as 500m, 8 or 32Gi, got {_shown(value)}")  # noqa: TRY004
    try:
        if parse_quantity(str(value)).mantissa < 0:
            raise ValueError(f"a quantity must not be negative here, got {value}")
    except QuantityError as error:
        raise ValueError(f'expected a quantity such as 500m, 8 or 32Gi, got "{str(value)[:60]}"') from error
    return Quantity(value)


def _share(value: object) -> Share:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    match = _PERCENT.fullmatch(text)
    if match is None and not (text.isdecimal() and len(text) < 10):
        raise ValueError(f"expected a number or a percentage such as 25%, got {_shown(value)}")
    return Share(text)


def _shown(value: object) -> str:
    names = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value)) or f"{str(value)[:60]!s}"


_SCHEMAS: dict[type, dict[str, Any]] = {
    Duration: {
        "type": "string",
        "pattern": r"^(\d+w)?(\d+d)?((\d+(\.\d+)?|\.\d+)(ns|us|µs|ms|s|m|h))*$",
        "description": "A duration: 90s, 10m, 1d12h",
    },
    Quantity: {
        "anyOf": [{"type": "string"}, {"type": "number"}],
        "description": "A quantity: 500m, 8, 32Gi",
    },
    Share: {
        "anyOf": [{"type": "string", "pattern": r"^\d{1,3}%$|^\d+$"}, {"type": "integer", "minimum": 0}],
        "description": "A number of pods or a percentage: 1, 25%",
    },
}


def schema_of(kind: type) -> dict[str, Any]:
    """msgspec's hook for JSON Schema."""
    schema = _SCHEMAS.get(kind)
    if schema is None:
        raise NotImplementedError(f"scenarios have no values of {kind}")
    return schema
