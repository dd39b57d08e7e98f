"""Times of a schedule. Rows mirror ``spec_test.go`` and ``constantdelay_test.go`` of robfig/cron v3."""

import datetime

import pytest
from tests.tables import cases

from pilothouse.machinery.cron import ConstantDelaySchedule, CronError, parse_schedule
from pilothouse.machinery.zones import UnknownZone, load_zone

UTC = datetime.UTC
NEW_YORK = "America/New_York"


def at(text: str) -> datetime.datetime:
    result = datetime.datetime.fromisoformat(text)
    return result if result.tzinfo is not None else result.replace(tzinfo=UTC)


@cases(
    "moment, schedule, expected",
    {
        "every fifteen minutes: the first": ("2012-07-09T15:00", "0/15 * * * *", True),
        "every fifteen minutes: the last": ("2012-07-09T15:45", "0/15 * * * *", True),
        "every fifteen minutes: other minute": ("2012-07-09T15:40", "0/15 * * * *", False),
        "every fifteen minutes from the fifth": ("2012-07-09T15:50", "5/15 * * * *", True),
        "a month by name": ("2012-07-15T15:00", "0/15 * * Jul *", True),
        "other month": ("2012-07-15T15:00", "0/15 * * Jun *", False),
        "a Sunday in July": ("2012-07-15T08:30", "30 08 ? Jul Sun", True),
        "a day in July": ("2012-07-15T08:30", "30 08 15 Jul ?", True),
        "day of the week does not match": ("2012-07-16T08:30", "30 08 ? Jul Sun", False),
        "day of the month does not match": ("2012-07-16T08:30", "30 08 15 Jul ?", False),
        "hourly": ("2012-07-09T15:00", "@hourly", True),
        "hourly, not on the hour": ("2012-07-09T15:04", "@hourly", False),
        "daily": ("2012-07-09T00:00", "@daily", True),
        "daily, not at midnight": ("2012-07-09T15:00", "@daily", False),
        "weekly, on Sunday": ("2012-07-08T00:00", "@weekly", True),
        "weekly, not on Monday": ("2012-07-09T00:00", "@weekly", False),
        "monthly, on the first": ("2012-07-01T00:00", "@monthly", True),
        "monthly, not on the eighth": ("2012-07-08T00:00", "@monthly", False),
        "yearly": ("2013-01-01T00:00", "@yearly", True),
        "both days restricted: both match": ("2012-07-15T00:00", "* * 1,15 * Sun", True),
        "both days restricted: the day of the month matches": ("2012-06-15T00:00", "* * 1,15 * Sun", True),
        "both days restricted: the day of the week matches": ("2012-07-08T00:00", "* * 1,15 * Sun", True),
        "a star: the day of the week decides": ("2012-07-15T00:00", "* * * * Mon", False),
        "a star: the day of the month decides": ("2012-07-09T00:00", "* * 1,15 * *", False),
        "star for the day of the week, day of the month matches": ("2012-07-15T00:00", "* * 1,15 * *", True),
        "a star with a step is restricted": ("2012-07-15T00:00", "* * */10 * Sun", True),
        "a star with a step, both match": ("2012-07-15T00:00", "* * */2 * Sun", True),
    },
)
def test_activation(moment: str, schedule: str, expected: bool) -> None:
    """TestActivation."""
    result = parse_schedule(schedule).next(at(moment) - datetime.timedelta(seconds=1))
    assert (result == at(moment)) is expected


@cases(
    "zone, after, schedule, expected",
    {
        "the next quarter": ("UTC", "2012-07-09T14:45", "0/15 * * * *", ["2012-07-09T15:00"]),
        "a second before": ("UTC", "2012-07-09T14:59:59", "0/15 * * * *", ["2012-07-09T15:00"]),
        "half a second before": ("UTC", "2012-07-09T14:59:59.5", "0/15 * * * *", ["2012-07-09T15:00"]),
        "the next hour": ("UTC", "2012-07-09T15:45", "20-35/15 * * * *", ["2012-07-09T16:20"]),
        "the next day": ("UTC", "2012-07-09T23:46", "*/15 * * * *", ["2012-07-10T00:00"]),
        "other hour": ("UTC", "2012-07-09T23:35:51", "20-35/15 1/2 * * *", ["2012-07-10T01:20"]),
        "other day": ("UTC", "2012-07-09T23:35:51", "20-35/15 1/2 */2 * *", ["2012-07-11T01:20"]),
        "the next month": ("UTC", "2012-07-09T23:35", "0 0 9 Apr-Oct ?", ["2012-08-09T00:00"]),
        "a named month": ("UTC", "2012-07-09T23:35", "0 0 */5 Apr,Aug,Oct Mon", ["2012-08-01T00:00"]),
        "the next year": ("UTC", "2012-07-09T23:35", "0 0 * Feb Mon", ["2013-02-04T00:00"]),
        "from Monday on, by two": ("UTC", "2012-07-09T23:35", "0 0 * Feb Mon/2", ["2013-02-01T00:00"]),
        "carries into the next year": ("UTC", "2012-12-31T23:59:45", "* * * * *", ["2013-01-01T00:00"]),
        "a leap year": ("UTC", "2012-07-09T23:35", "0 0 29 Feb ?", ["2016-02-29T00:00"]),
        "30 February": ("UTC", "2012-07-09T23:35", "0 0 30 Feb ?", []),
        "31 April": ("UTC", "2012-07-09T23:35", "0 0 31 Apr ?", []),
        "beyond five years": ("UTC", "2096-02-29T12:00", "0 0 29 Feb ?", []),
        "a field of nothing": ("UTC", "2012-07-09T00:00", ", * * * *", []),
        "set forward: a moment that does not exist": (
            NEW_YORK,
            "2012-03-11T00:00-05:00",
            "30 2 11 Mar ?",
            ["2013-03-11T02:30-04:00"],
        ),
        "set forward: hourly": (
            NEW_YORK,
            "2012-03-11T00:00-05:00",
            "0 * * * ?",
            ["2012-03-11T01:00-05:00", "2012-03-11T03:00-04:00", "2012-03-11T04:00-04:00"],
        ),
        "set forward: nightly, before": (
            NEW_YORK,
            "2012-03-11T00:00-05:00",
            "0 1 * * ?",
            ["2012-03-11T01:00-05:00", "2012-03-12T01:00-04:00"],
        ),
        "set forward: nightly, skipped once": (
            NEW_YORK,
            "2012-03-11T00:00-05:00",
            "0 2 * * ?",
            ["2012-03-12T02:00-04:00", "2012-03-13T02:00-04:00"],
        ),
        "set back: after it": (NEW_YORK, "2012-11-04T00:00-04:00", "30 2 04 Nov ?", ["2012-11-04T02:30-05:00"]),
        "set back: the same moment again": (
            NEW_YORK,
            "2012-11-04T01:45-04:00",
            "30 1 04 Nov ?",
            ["2012-11-04T01:30-05:00"],
        ),
        "set back: hourly": (
            NEW_YORK,
            "2012-11-04T00:00-04:00",
            "0 * * * ?",
            ["2012-11-04T01:00-04:00", "2012-11-04T01:00-05:00", "2012-11-04T02:00-05:00"],
        ),
        "set back: nightly, twice": (
            NEW_YORK,
            "2012-11-04T00:00-04:00",
            "0 1 * * ?",
            ["2012-11-04T01:00-04:00", "2012-11-04T01:00-05:00", "2012-11-05T01:00-05:00"],
        ),
        "a midnight that does not exist": (
            "America/Sao_Paulo",
            "2018-11-03T12:00-03:00",
            "0 0 * * *",
            ["2018-11-05T00:00-02:00"],
        ),
        "time zone with half an hour offset": (
            "Asia/Kolkata",
            "2026-01-01T00:00+05:30",
            "15 6 * * *",
            ["2026-01-01T06:15+05:30"],
        ),
    },
)
def test_next(zone: str, after: str, schedule: str, expected: list[str]) -> None:
    """TestNext, with rows for the days on which clocks are set."""
    parsed, moment = parse_schedule(schedule, load_zone(zone)), at(after)
    for text in expected:
        result = parsed.next(moment)
        assert result == at(text)
        moment = result
    if not expected:
        assert parsed.next(moment) is None


@cases(
    "text, after, expected",
    {
        "minutes": ("@every 15m", "2012-07-09T14:45", "2012-07-09T15:00"),
        "hours": ("@every 2h15m", "2012-07-09T23:35:51", "2012-07-10T01:50:51"),
        "truncated to seconds": ("@every 1500ms", "2012-07-09T14:45", "2012-07-09T14:45:01"),
        "at least one second": ("@every 10ns", "2012-07-09T14:45:00.5", "2012-07-09T14:45:01"),
        "rounded to seconds": ("@every 15m", "2012-07-09T14:45:00.005", "2012-07-09T15:00"),
        "more than a day": ("@every 25h", "2012-12-31T23:59:45", "2013-01-02T00:59:45"),
    },
)
def test_constant_delay_next(text: str, after: str, expected: str) -> None:
    """TestConstantDelayNext."""
    parsed = parse_schedule(text)
    assert isinstance(parsed, ConstantDelaySchedule)
    assert parsed.next(at(after)) == at(expected)


def test_schedule_time_zone_takes_precedence() -> None:
    for prefix in ("TZ=", "CRON_TZ="):
        parsed = parse_schedule(f"{prefix}Europe/Rome 0 12 * * *", load_zone(NEW_YORK))
        assert parsed.next(at("2026-01-01T00:00")) == at("2026-01-01T11:00")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TZ=Nowhere/Land * * * * *", "provided bad location Nowhere/Land: unknown time zone Nowhere/Land"),
        ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("", "empty spec string"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    ],
)
def test_schedules_that_never_occur(text: str, message: str) -> None:
    with pytest.raises(CronError) as caught:
        parse_schedule(text)
    assert str(caught.value) == message


def test_empty_list_items_are_ignored() -> None:
    assert parse_schedule("0,,30 * * * *").next(at("2026-01-01T00:00")) == at("2026-01-01T00:30")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nowhere/Land", "unknown time zone Nowhere/Land"),
        ("America", "unknown time zone America"),
        ("../etc/passwd", "time: invalid location name"),
        ("/etc/localtime", "time: invalid location name"),
    ],
)
def test_invalid_time_zones(name: str, message: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        load_zone(name)
    assert str(caught.value) == message
