"""Times and durations, with the errors of Go's time package (Go 1.26, src/time/format_test.go, time_test.go)."""

import datetime

import pytest

from pilothouse.machinery.durations import DurationError, format_duration, parse_duration, parse_nanoseconds
from pilothouse.machinery.times import TimeError, format_micro_time, format_time, parse_micro_time, parse_time

UTC = datetime.UTC


def test_times_have_seconds_and_micro_times_six_digits() -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
    assert format_time(at) == "2026-01-02T03:04:05Z"
    assert format_micro_time(at) == "2026-01-02T03:04:05.678900Z"
    assert format_micro_time(at.replace(microsecond=0)) == "2026-01-02T03:04:05.000000Z"


def test_times_are_written_in_utc() -> None:
    at = datetime.datetime(2026, 1, 1, 1, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    assert format_time(at) == "2025-12-31T23:00:00Z"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", datetime.datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00.25Z", datetime.datetime(2026, 1, 1, microsecond=250000, tzinfo=UTC)),
        ("2026-01-01T02:00:00+02:00", datetime.datetime(2026, 1, 1, tzinfo=UTC)),
        ("2024-02-29T00:00:00-00:30", datetime.datetime(2024, 2, 29, 0, 30, tzinfo=UTC)),
    ],
)
def test_parse_time(text: str, expected: datetime.datetime) -> None:
    assert parse_time(text) == expected


_LAYOUT = '"2006-01-02T15:04:05Z07:00"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", f'parsing time "x" as {_LAYOUT}: cannot parse "x" as "2006"'),
        ("", f'parsing time "" as {_LAYOUT}: cannot parse "" as "2006"'),
        (
            "2026-01-01 00:00:00Z",
            f'parsing time "2026-01-01 00:00:00Z" as {_LAYOUT}: cannot parse " 00:00:00Z" as "T"',
        ),
        ("2026-13-01T00:00:00Z", 'parsing time "2026-13-01T00:00:00Z": month out of range'),
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ("2026-01-01T24:00:00Z", 'parsing time "2026-01-01T24:00:00Z": hour out of range'),
        ("2026-01-01T00:00:00Zx", 'parsing time "2026-01-01T00:00:00Zx": extra text: "x"'),
        ("2026-01-01T00:00:00", f'parsing time "2026-01-01T00:00:00" as {_LAYOUT}: cannot parse "" as "Z07:00"'),
    ],
)
def test_invalid_times(text: str, message: str) -> None:
    with pytest.raises(TimeError) as caught:
        parse_time(text)
    assert str(caught.value) == message


def test_micro_time_requires_six_digits() -> None:
    assert parse_micro_time("2026-01-01T01:00:00.000001+01:00").microsecond == 1
    for text in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.00000Z", "2026-01-01T00:00:00.0000000Z"):
        with pytest.raises(TimeError):
            parse_micro_time(text)


@pytest.mark.parametrize(
    ("text", "seconds", "formatted"),
    [
        ("0", 0, "0s"),
        ("1h30m", 5400, "1h30m0s"),
        ("500ms", 0.5, "500ms"),
        ("1.5s", 1.5, "1.5s"),
        ("-1.5h", -5400, "-1h30m0s"),
        ("1µs", 1e-6, "1µs"),
        ("1us", 1e-6, "1µs"),
        ("60s", 60, "1m0s"),
        (".5m", 30, "30s"),
        ("15ns", 15e-9, "15ns"),
    ],
)
def test_durations(text: str, seconds: float, formatted: str) -> None:
    assert parse_duration(text) == pytest.approx(seconds)
    assert format_duration(parse_duration(text)) == formatted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("3", 'time: missing unit in duration "3"'),
        ("1x", 'time: unknown unit "x" in duration "1x"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_invalid_durations(text: str, message: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


def test_nanoseconds_are_exact() -> None:
    assert parse_nanoseconds("9223372036854775807ns") == (1 << 63) - 1
    assert parse_nanoseconds("-9223372036854775808ns") == -(1 << 63)
