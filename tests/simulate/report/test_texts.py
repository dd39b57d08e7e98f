"""Numbers and times as people read them; the axis has round ones."""

from tests.tables import cases

from pilothouse.simulate.report.axis import Axis
from pilothouse.simulate.report.texts import number_text, seconds_text


@cases(
    "seconds, expected",
    {
        "zero": (0.0, "0s"),
        "next to nothing": (0.0004, "0s"),
        "milliseconds": (0.25, "250ms"),
        "three digits": (3.5537, "3.55s"),
        "tens": (34.926, "34.9s"),
        "minutes": (123.288, "2m3s"),
        "hours": (5400.4, "1h30m"),
        "hours and minutes": (40_005.0, "11h7m"),
        "days": (691_200.0, "8d"),
        "before the time line": (-60.0, "−1m"),
    },
)
def test_seconds(seconds: float, expected: str) -> None:
    assert seconds_text(seconds) == expected


@cases("number, expected", {"integer": (3.0, "3"), "part": (0.12345, "0.123"), "large": (1234567.8, "1,234,568")})
def test_numbers(number: float, expected: str) -> None:
    assert number_text(number) == expected


@cases(
    "axis, expected",
    {
        "minutes": (Axis(0, 1500), ["0s", "5m", "10m", "15m", "20m", "25m"]),
        "before the time line": (Axis(0, 240, 60), ["−1m", "−30s", "0s", "30s", "1m", "1m30s", "2m", "2m30s", "3m"]),
        "a week": (Axis(0, 7 * 86400), ["0s", "1d", "2d", "3d", "4d", "5d", "6d", "7d"]),
        "a second": (Axis(0, 1), ["0s", "200ms", "400ms", "600ms", "800ms", "1s"]),
    },
)
def test_ticks(axis: Axis, expected: list[str]) -> None:
    assert [label for _x, label in axis.ticks()] == expected


def test_an_axis_of_a_year_has_few_ticks() -> None:
    assert len(list(Axis(0, 366 * 86400).ticks())) < 12
