"""Go's durations as text: ``1h30m``, ``500ms``, as in flags, ``metav1.Duration`` fields and ``?timeout=``.

Exact in nanoseconds internally; seconds are floats, as for event loops.
"""

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LIMIT = 1 << 63
_MAX_SECONDS = _LIMIT // 10**9


def whole_seconds(seconds: float) -> float:
    """``time.Duration(seconds) * time.Second`` for seconds from users, in seconds.

    As in Go, 64 bits of nanoseconds wrap around beyond 292 years: int64's maximum is minus one second.
    """
    if -_MAX_SECONDS <= seconds <= _MAX_SECONDS:
        return seconds
    return ((int(seconds) * 10**9 + _LIMIT) % (2 * _LIMIT) - _LIMIT) / 1e9


class DurationError(ValueError):
    """The text is not a duration. The message is that of Go's ``time.ParseDuration``."""


def parse_duration(text: str) -> float:
    """Parse to seconds. Raises ``DurationError``."""
    return parse_nanoseconds(text) / 1e9


def parse_nanoseconds(text: str) -> int:
    """Parse to nanoseconds: an optional sign, then numbers with units. ``0`` needs no unit. Raises
    ``DurationError``."""
    invalid = DurationError(f"time: invalid duration {_quote(text)}")
    rest = text
    negative = rest.startswith("-")
    if rest[:1] in ("-", "+"):
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise invalid
    total = 0
    while rest:
        whole, rest = _digits(rest)
        fraction = ""
        if rest.startswith("."):
            fraction, rest = _digits(rest[1:])
        if not whole and not fraction:
            raise invalid
        end = 0
        while end < len(rest) and rest[end] != "." and not "0" <= rest[end] <= "9":
            end += 1
        if end == 0:
            raise DurationError(f"time: missing unit in duration {_quote(text)}")
        unit = _UNITS.get(rest[:end])
        if unit is None:
            raise DurationError(f"time: unknown unit {_quote(rest[:end])} in duration {_quote(text)}")
        rest = rest[end:]
        total += int(whole or "0") * unit
        if fraction:
            # Digits beyond nanoseconds are truncated, not rounded, as in Go.
            total += int(fraction) * unit // 10 ** len(fraction)
        if total > _LIMIT:
            raise invalid
    if negative:
        return -total
    if total == _LIMIT:
        raise invalid
    return total


def format_duration(seconds: float) -> str:
    """As Go prints it: ``1h30m0s``, ``1.5s``, ``500ms``, ``0s``."""
    return format_nanoseconds(round(seconds * 1e9))


def format_nanoseconds(nanoseconds: int) -> str:
    """As Go prints it: ``1h30m0s``, ``1.5s``, ``500ms``, ``0s``."""
    if nanoseconds == 0:
        return "0s"
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    if rest < 1_000_000_000:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if rest >= size:
                return f"{sign}{_decimal(rest, size)}{unit}"
    minutes, rest = divmod(rest, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _decimal(value: int, size: int) -> str:
    whole, fraction = divmod(value, size)
    if not fraction:
        return str(whole)
    digits = len(str(size)) - 1
    return f"{whole}.{fraction:0{digits}d}".rstrip("0")


def _digits(text: str) -> tuple[str, str]:
    end = 0
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    return text[:end], text[end:]


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
