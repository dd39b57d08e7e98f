"""The machine's zone is found as Go programs find it."""

import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pilothouse.env.zones import local_zone

SUMMER = datetime.datetime(2026, 7, 1)


@pytest.mark.parametrize(
    ("value", "hours"),
    [
        pytest.param("Europe/Rome", 2, id="a name"),
        pytest.param(":Europe/Rome", 2, id="a name after a colon"),
        pytest.param("", 0, id="empty: UTC"),
        pytest.param("Nowhere/Land", 0, id="no zone: UTC"),
        pytest.param("/nowhere", 0, id="no file: UTC"),
    ],
)
def test_the_variable(value: str, hours: int) -> None:
    assert local_zone({"TZ": value}).utcoffset(SUMMER) == datetime.timedelta(hours=hours)


def test_without_the_variable_a_file_says_it(tmp_path: Path) -> None:
    assert local_zone({}, tmp_path / "localtime") is datetime.UTC
    link = tmp_path / "localtime"
    found = [Path(folder) / "Asia/Tokyo" for folder in ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo")]
    source = next((path for path in found if path.exists()), None)
    if source is None:
        pytest.skip("this system has no zone files")
    link.write_bytes(source.read_bytes())
    assert local_zone({}, link).utcoffset(SUMMER) == ZoneInfo("Asia/Tokyo").utcoffset(SUMMER)
    assert local_zone({"TZ": str(link)}).utcoffset(SUMMER) == datetime.timedelta(hours=9)
