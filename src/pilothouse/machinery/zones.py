"""Time zones by name, as Go's ``time.LoadLocation`` takes them.

Read by the API server, which rejects CronJobs with others, by schedules and by the CronJob controller. The database is
the system's, or that of the package ``tzdata`` where the system has none.
"""

import datetime

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import zoneinfo  # which looks into how Python was built


class UnknownZone(ValueError):
    """No such zone; the message is Go's."""


def load_zone(name: str) -> datetime.tzinfo:
    """The zone of that name; ``UTC`` also by no name. Raises ``UnknownZone``."""
    if name in ("", "UTC"):
        return datetime.UTC
    if ".." in name or name.startswith(("/", "\\")):
        raise UnknownZone("time: invalid location name")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UnknownZone(f"unknown time zone {name}") from None
