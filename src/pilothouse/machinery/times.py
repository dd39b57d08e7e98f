"""Times in JSON: RFC 3339, whole seconds for ``Time``, exactly six digits for ``MicroTime``, always UTC.

The errors are those of Go's ``time.Parse``, which the API server returns to clients.
"""

import datetime
import re
from functools import lru_cache

from pilothouse.machinery.durations import whole_seconds
from pilothouse.machinery.go_text import quote

TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
"""Go's layout of ``Time``, for messages."""
MICRO_TIME_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
"""Go's layout of ``MicroTime``, for messages."""

_time = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
_micro_time = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{6})(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)


class TimeError(ValueError):
    """Text that is no time, with the message of Go's ``time.Parse``."""


def format_time(at: datetime.datetime) -> str:
    """``2026-01-01T00:00:00Z``; fractions of a second are truncated, as upstream."""
    return _formatted(at)


@lru_cache(maxsize=256)  # many objects have the same time
def _formatted(at: datetime.datetime) -> str:
    return _utc(at).isoformat()[:19] + "Z"  # a fifth of strftime's time


@lru_cache(maxsize=64)
def format_micro_time(at: datetime.datetime) -> str:
    """``2026-01-01T00:00:00.000000Z``."""
    if at.tzinfo is not datetime.UTC:
        at = _utc(at)
    return at.isoformat(timespec="microseconds")[:26] + "Z"


def _utc(at: datetime.datetime) -> datetime.datetime:
    assert at.tzinfo is not None, "times are aware: a naive one could mean anything"
    return at if at.tzinfo is datetime.UTC else at.astimezone(datetime.UTC)


def parse_time(text: str) -> datetime.datetime:
    """The time in UTC; any fraction and offset are accepted. Raises ``TimeError``."""
    return _parse(text, _time, TIME_LAYOUT)


def parse_micro_time(text: str) -> datetime.datetime:
    """The time in UTC; there must be exactly six digits after the dot. Raises ``TimeError``."""
    return _parse(text, _micro_time, MICRO_TIME_LAYOUT)


_FIRST = datetime.datetime.min.replace(tzinfo=datetime.UTC)
_LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


def add_seconds(at: datetime.datetime, seconds: float) -> datetime.datetime:
    """``at.Add(time.Duration(seconds) * time.Second)`` for seconds from users; see ``whole_seconds``.

    Times before the year 1 and after 9999 become the first and the last one.
    """
    duration = datetime.timedelta(seconds=whole_seconds(seconds))
    try:
        return at + duration
    except OverflowError:
        return _LAST if duration > datetime.timedelta() else _FIRST


def _parse(text: str, pattern: re.Pattern[str], layout: str) -> datetime.datetime:
    match = pattern.fullmatch(text)
    if match is None:
        raise TimeError(_parse_error(text, layout))
    year, month, day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    microsecond = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        time = datetime.datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second), microsecond, tzinfo=datetime.UTC
        )
        if sign:
            offset = datetime.timedelta(hours=int(offset_hours), minutes=int(offset_minutes))
            time = time - offset if sign == "+" else time + offset
    except (ValueError, OverflowError):
        raise TimeError(_parse_error(text, layout)) from None
    if sign and (int(offset_hours) > 24 or int(offset_minutes) >= 60):
        raise TimeError(_parse_error(text, layout))
    return time


def _parse_error(text: str, layout: str) -> str:
    """Walk the layout as Go 1.26's ``time.parse``, up to the error."""
    value = text
    numbers: dict[str, int] = {}

    def cannot(element: str) -> str:
        return f"parsing time {quote(text)} as {quote(layout)}: cannot parse {quote(value)} as {quote(element)}"

    def out_of_range(unit: str) -> str:
        return f"parsing time {quote(text)}: {unit} out of range"

    limits = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}
    for element in ("2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"):
        if not element.isdigit():
            if not value.startswith(element):
                return cannot(element)
            value = value[1:]
            continue
        width = len(element)
        if not (value[:width].isascii() and value[:width].isdigit() and len(value) >= width):
            return cannot(element)
        numbers[element] = int(value[:width])
        if element in limits:
            unit, low, high = limits[element]
            if not low <= numbers[element] <= high:
                return out_of_range(unit)
        value = value[width:]
    if layout == MICRO_TIME_LAYOUT:
        if not re.match(r"\.\d{6}", value, re.ASCII):
            return cannot(".000000")
        value = value[7:]
        if value[:1].isdigit():
            return cannot("Z07:00")
    elif fraction := re.match(r"[.,]\d+", value, re.ASCII):
        value = value[fraction.end() :]
    zone = re.match(r"Z|[+-](\d\d):(\d\d)", value, re.ASCII)
    if zone is None:
        return cannot("Z07:00")
    if zone[1] is not None:
        if int(zone[1]) > 24:
            return out_of_range("time zone offset hour")
        if int(zone[2]) >= 60:
            return out_of_range("time zone offset minute")
    if value[zone.end() :]:
        return f"parsing time {quote(text)}: extra text: {quote(value[zone.end() :])}"
    return out_of_range("day" if numbers["02"] < 1 or not _is_date(numbers) else "year")


def _is_date(numbers: dict[str, int]) -> bool:
    try:
        datetime.date(max(numbers["2006"], 1), numbers["01"], numbers["02"])
    except ValueError:
        return False
    return True
