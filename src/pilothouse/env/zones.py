"""The time zone of the machine, as Go programs determine it (``time/zoneinfo_unix.go``)."""

import datetime
import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LOCALTIME = Path("/etc/localtime")


def local_zone(environ: Mapping[str, str] = os.environ, localtime: Path = LOCALTIME) -> datetime.tzinfo:
    """``TZ`` if it is set (a name or a file; empty is UTC), else ``/etc/localtime``; UTC if both are unusable."""
    name = environ.get("TZ")
    try:
        if name is None:
            with localtime.open("rb") as file:
                return ZoneInfo.from_file(file)
        name = name.removeprefix(":")
        if name.startswith("/"):
            with Path(name).open("rb") as file:
                return ZoneInfo.from_file(file)
        return ZoneInfo(name) if name else datetime.UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.UTC
