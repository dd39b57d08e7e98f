"""The local time zone is determined as in Go."""

import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.tables import cases

from pilothouse.env.zones import local_zone

SUMMER = datetime.datetime(2026, 7, 1)


@cases(
    "value, hours",
    {
        "a name": ("Europe/Rome", 2),
        "a name after a colon": (":Europe/Rome", 2),
        "empty: UTC": ("", 0),
        "unknown zone: UTC": ("Nowhere/Land", 0),
        "missing file: UTC": ("/nowhere", 0),
    },
)
def test_tz_variable(value: str, hours: int) -> None:
    assert local_zone({"TZ": value}).utcoffset(SUMMER) == datetime.timedelta(hours=hours)


def test_localtime_file_without_the_variable(tmp_path: Path) -> None:
    assert local_zone({}, tmp_path / "localtime") is datetime.UTC
    link = tmp_path / "localtime"
    result = [Path(folder) / "Asia/Tokyo" for folder in ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo")]
    source = next((path for path in result if path.exists()), None)
    if source is None:
        pytest.skip("this system has no zone files")
    link.write_bytes(source.read_bytes())
    assert local_zone({}, link).utcoffset(SUMMER) == ZoneInfo("Asia/Tokyo").utcoffset(SUMMER)
    assert local_zone({"TZ": str(link)}).utcoffset(SUMMER) == datetime.timedelta(hours=9)
