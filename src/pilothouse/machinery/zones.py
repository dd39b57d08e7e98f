"""Time zones by name, as in Go's ``time.LoadLocation``.

Used by the API server, which rejects CronJobs with invalid ones, by schedules and by the CronJob controller. The
database is the system's, or that of the package ``tzdata`` if the system has none.
"""

import datetime

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import zoneinfo  # expensive: it imports sysconfig


class UnknownZone(ValueError):
    """An unknown time zone; the message is Go's."""


def load_zone(name: str) -> datetime.tzinfo:
    """The time zone of that name; ``UTC`` for an empty name. Raises ``UnknownZone``."""
    if name in ("", "UTC"):
        return datetime.UTC
    if ".." in name or name.startswith(("/", "\\")):
        raise UnknownZone("time: invalid location name")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(f"unknown time zone {name}") from None
