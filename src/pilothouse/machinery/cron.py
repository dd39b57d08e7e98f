"""Cron schedules: parsing, and the next time.

Grammar, errors and the algorithm for the next time are those of robfig/cron v3's standard parser (``parser.go``,
``spec.go``, ``constantdelay.go``), which kubernetes uses. The algorithm matters when clocks change: days follow the
calendar, hours absolute time, so an hour that does not exist on a day is skipped, and one that exists twice may match
twice.
"""

import datetime
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from pilothouse.machinery.durations import DurationError, parse_nanoseconds
from pilothouse.machinery.times import add_seconds
from pilothouse.machinery.zones import UnknownZone, load_zone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MAX_LENGTH = 4096
"""The maximum length of a schedule in characters, which Go's parser does not have. One that lists every value of every
field has 400; one of a megabyte would take a second with each sync of its CronJob."""
_YEARS = 5
"""How far ahead the next time is searched."""
_MINUTE, _HOUR = datetime.timedelta(minutes=1), datetime.timedelta(hours=1)
_SECOND = datetime.timedelta(seconds=1)


class CronError(ValueError):
    """The text is no schedule; the message is the parser's."""


class Schedule(Protocol):
    def next(self, after: datetime.datetime) -> datetime.datetime | None:
        """The first time after ``after``, in UTC with full seconds. ``None``: none within five years."""
        ...


def check_schedule(text: str) -> None:
    """Raise ``CronError`` unless the text is a schedule: five fields, ``@every 1h`` or a name such as ``@daily``."""
    parse_schedule(text)


def parse_schedule(text: str, zone: datetime.tzinfo = datetime.UTC) -> Schedule:
    """Parse a schedule, in ``zone`` unless the text begins with a time zone (``TZ=Europe/Rome ``).

    Raises ``CronError``.
    """
    if len(text) > _MAX_LENGTH:
        raise CronError(f"the schedule is longer than {_MAX_LENGTH} characters")
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, separator, text = text.partition("=")[2].partition(" ")
        if not separator:
            # The parser panics here; v1.36 reports that (``pkg/util/parsers``).
            raise CronError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        try:
            zone = load_zone(name)
        except UnknownZone as error:
            raise CronError(f"provided bad location {name}: {error}") from None
        text = text.strip()
    if text.startswith("@every "):
        try:
            nanoseconds = parse_nanoseconds(text.removeprefix("@every "))
        except DurationError as error:
            raise CronError(f"failed to parse duration {text}: {error}") from None
        return ConstantDelaySchedule(max(1, nanoseconds // 1_000_000_000))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise CronError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    if not text:
        raise CronError("empty spec string")
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise CronError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    return SpecSchedule([_field(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)], zone)


class _Field(NamedTuple):
    values: frozenset[int]
    star: bool
    """Whether it is a star, possibly without a step: then the other field for days decides alone."""


def _field(text: str, low: int, high: int, names: dict[str, int]) -> _Field:
    values: set[int] = set()
    star = False
    for expr in text.split(","):
        if expr:  # empty items are ignored
            bits, is_star = _range(expr, low, high, names)
            values.update(bits)
            star = star or is_star
    return _Field(frozenset(values), star)


def _range(expr: str, low: int, high: int, names: dict[str, int]) -> tuple[range, bool]:
    range_text, *step_texts = expr.split("/")
    bounds = range_text.split("-")
    star = bounds[0] in ("*", "?")
    if star:
        start, end = low, high
    else:
        start = end = _number(bounds[0], names)
        if len(bounds) == 2:
            end = _number(bounds[1], names)
        elif len(bounds) > 2:
            raise CronError(f"too many hyphens: {expr}")
    if len(step_texts) > 1:
        raise CronError(f"too many slashes: {expr}")
    step = 1
    if step_texts:
        step = _integer(step_texts[0])
        if len(bounds) == 1:
            end = high
        star = star and step <= 1
    if start < low:
        raise CronError(f"beginning of range ({start}) below minimum ({low}): {expr}")
    if end > high:
        raise CronError(f"end of range ({end}) above maximum ({high}): {expr}")
    if start > end:
        raise CronError(f"beginning of range ({start}) beyond end of range ({end}): {expr}")
    if step == 0:
        raise CronError(f"step of range should be a positive number: {expr}")
    return range(start, end + 1, step), star


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    return _integer(text) if named is None else named


def _integer(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise CronError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise CronError(f"negative number ({number}) not allowed: {text}")
    return number


_EARLIEST = datetime.datetime(datetime.MINYEAR + 1, 1, 1, tzinfo=datetime.UTC)


class ConstantDelaySchedule:
    """A constant delay."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds

    def next(self, after: datetime.datetime) -> datetime.datetime | None:
        return add_seconds(after.astimezone(datetime.UTC), self.seconds).replace(microsecond=0)


class SpecSchedule:
    """Minutes, hours, days and months in a time zone."""

    def __init__(self, fields: Iterable[_Field], zone: datetime.tzinfo) -> None:
        minutes, hours, days, months, weekdays = fields
        self._minutes = minutes.values
        self._hours = hours.values
        self._days = days.values
        self._months = months.values
        self._weekdays = weekdays.values
        self._both = days.star or weekdays.star
        self._zone = zone

    def next(self, after: datetime.datetime) -> datetime.datetime | None:
        # The search moves ahead, and zones shift the result: it needs some years at both ends of the calendar.
        if after.year >= datetime.MAXYEAR - 2 * _YEARS:
            return None
        start = (max(after, _EARLIEST).astimezone(datetime.UTC) + _SECOND).replace(microsecond=0)
        walk = _Walk(start, self._zone)
        limit = walk.local.year + _YEARS
        while walk.local.year <= limit:
            if (
                walk.to_month(self._months)
                and walk.to_day(self._is_day)
                and walk.to_hour(self._hours)
                and walk.to_minute(self._minutes)
                and walk.to_full_minute()
            ):
                return walk.local.astimezone(datetime.UTC)
        return None

    def _is_day(self, local: datetime.datetime) -> bool:
        """With a star in either field both must match (the star always does), else one is enough."""
        day, weekday = local.day in self._days, local.isoweekday() % 7 in self._weekdays
        return (day and weekday) if self._both else (day or weekday)


class _IsDay(Protocol):
    def __call__(self, local: datetime.datetime, /) -> bool: ...


class _Walk:
    """The time during the search for the next match. Each method returns whether it found a match within the larger
    unit; if not, the search restarts at the month (the label WRAP of ``spec.go``)."""

    def __init__(self, start: datetime.datetime, zone: datetime.tzinfo) -> None:
        self._zone = zone
        self._begun = False
        """Whether the smaller units were reset."""
        self.local = start.astimezone(zone)

    def to_month(self, months: frozenset[int]) -> bool:
        while self.local.month not in months:
            self._begin(self.local.year, self.local.month, 1, 0)
            self.local = self._wall(self.local, months=1)
            if self.local.month == 1:
                return False
        return True

    def to_day(self, fits: _IsDay) -> bool:
        while not fits(self.local):
            self._begin(self.local.year, self.local.month, self.local.day, 0)
            self.local = self._wall(self.local, days=1)
            # If midnight does not exist on that day: the nearest existing time.
            hour = self.local.hour
            if hour > 12:
                self._add((24 - hour) * _HOUR)
            elif hour:
                self._add(-hour * _HOUR)
            if self.local.day == 1:
                return False
        return True

    def to_hour(self, hours: frozenset[int]) -> bool:
        while self.local.hour not in hours:
            self._begin(self.local.year, self.local.month, self.local.day, self.local.hour)
            self._add(_HOUR)
            if self.local.hour == 0:
                return False
        return True

    def to_minute(self, minutes: frozenset[int]) -> bool:
        while self.local.minute not in minutes:
            if not self._begun:
                self._begun = True
                self._add(-self.local.second * _SECOND)
            self._add(_MINUTE)
            if self.local.minute == 0:
                return False
        return True

    def to_full_minute(self) -> bool:
        if self.local.second == 0:
            return True
        self._begun = True
        self._add((60 - self.local.second) * _SECOND)
        return False

    def _begin(self, year: int, month: int, day: int, hour: int) -> None:
        if not self._begun:
            self._begun = True
            self.local = self._date(datetime.datetime(year, month, day, hour, tzinfo=datetime.UTC))

    def _add(self, delta: datetime.timedelta) -> None:
        self.local = (self.local.astimezone(datetime.UTC) + delta).astimezone(self._zone)

    def _wall(self, local: datetime.datetime, *, months: int = 0, days: int = 0) -> datetime.datetime:
        """Go's ``AddDate``. Months are only added on the first of a month, so that days never overflow."""
        year, month = divmod(local.year * 12 + local.month - 1 + months, 12)
        wall = local.replace(year=year, month=month + 1, tzinfo=datetime.UTC, fold=0) + datetime.timedelta(days=days)
        return self._date(wall)

    def _date(self, wall: datetime.datetime) -> datetime.datetime:
        """Go's ``time.Date``: the time at which clocks of the zone show this (given as if it were UTC). If it exists
        twice, or not at all, the result is that of two lookups of the offset."""
        offset = self._offset(wall)
        if offset:
            offset = self._offset(wall - offset)
        return (wall - offset).astimezone(self._zone)

    def _offset(self, time: datetime.datetime) -> datetime.timedelta:
        return time.astimezone(self._zone).utcoffset() or datetime.timedelta()
