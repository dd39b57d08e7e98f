"""Cron schedules, with the errors of robfig/cron v3."""

import pytest

from pilothouse.machinery.cron import CronError, check_schedule


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "*/5 0-12/3 1,15 JAN-dec sun",
        "0 0 ? * 1-5",
        "@daily",
        "@every 1h30m",
        "TZ=UTC 0 * * * *",
    ],
)
def test_schedules(text: str) -> None:
    check_schedule(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "expected exactly 5 fields, found 1: [x]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("@often", "unrecognized descriptor: @often"),
        ("1,2," * 1_023 + " * * * *", "the schedule is longer than 4096 characters"),
    ],
)
def test_invalid_schedules(text: str, message: str) -> None:
    with pytest.raises(CronError) as caught:
        check_schedule(text)
    assert str(caught.value) == message
