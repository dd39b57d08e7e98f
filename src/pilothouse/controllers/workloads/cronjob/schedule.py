"""Which moment of a schedule is due, and when the next one is. Pure.

Upstream: v1.36 ``pkg/controller/cronjob/utils.go`` and ``formatSchedule`` of ``cronjob_controllerv2.go``.
"""

import datetime

import msgspec

from pilothouse.api.batch import CronJob
from pilothouse.machinery.cron import Schedule, parse_schedule
from pilothouse.machinery.times import add_seconds
from pilothouse.machinery.zones import UnknownZone, load_zone

PADDING = 0.1
"""Seconds by which every key is enqueued later than its scheduled time (``nextScheduleDelta``): clocks are not exact,
and a sync before that time would find nothing due."""
TOO_MANY = 100
_SECOND = datetime.timedelta(seconds=1)


class NoSuchMoment(ValueError):
    """The schedule names days that do not exist."""


class Due(msgspec.Struct, frozen=True):
    """``at`` is the last moment that has come and was not served; ``None``: there is none. ``missed`` is about how many
    came before it."""

    since: datetime.datetime
    """From when on moments were looked for."""
    at: datetime.datetime | None = None
    missed: int = 0


def schedule_of(cron_job: CronJob, local: datetime.tzinfo) -> Schedule:
    """The schedule as it is meant: in ``spec.timeZone``, else in the zone of this process. Raises ``CronError``.

    Text that names a zone by itself has the last word, also in the middle of it, where it is no zone and the text no
    schedule (upstream looks for the letters ``TZ`` anywhere).
    """
    spec = cron_job.spec
    if has_own_zone(cron_job) or spec.time_zone is None:
        return parse_schedule(spec.schedule, local)
    try:
        zone = load_zone(spec.time_zone)
    except UnknownZone:
        zone = local
    return parse_schedule(spec.schedule, zone)


def has_own_zone(cron_job: CronJob) -> bool:
    """Whether the schedule's text names a zone, which is tolerated for CronJobs of old."""
    return "TZ" in cron_job.spec.schedule


def find_due(cron_job: CronJob, schedule: Schedule, now: datetime.datetime, *, heed_deadline: bool = True) -> Due:
    """The last moment that has come (``mostRecentScheduleTime``). Raises ``NoSuchMoment``.

    Not every moment between the last one served and now is visited: how many there are is estimated from the distance
    of the first two, and the walk begins two before the end. With uneven distances it may find none.
    """
    since = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or now
    seconds = cron_job.spec.starting_deadline_seconds
    if heed_deadline and seconds is not None:
        since = max(since, add_seconds(now, -seconds))
    first = schedule.next(since)
    if first is not None and now < first:
        return Due(since)
    second = schedule.next(first) if first is not None else None
    if first is None or second is None:
        raise NoSuchMoment("time difference between two schedules is less than 1 second")
    if now < second:
        return Due(since, first)
    interval = second - first  # at least a second: moments are full seconds
    missed = (now - first) // _SECOND * _SECOND // interval + 1
    last: datetime.datetime | None = None
    moment = schedule.next(first + (missed - 2) * interval)
    while moment is not None and moment <= now:
        last = moment
        moment = schedule.next(moment)
    return Due(since, last, missed)


def until_next(cron_job: CronJob, schedule: Schedule, now: datetime.datetime) -> float | None:
    """Seconds until the CronJob is to be synced again (``nextScheduleTimeDuration``); ``None``: never.

    Always more than 0: it is counted from a moment that is not over yet (kubernetes#118706).
    """
    try:
        due = find_due(cron_job, schedule, now, heed_deadline=False)
    except NoSuchMoment:
        base = now
    else:
        base = due.at or (now if due.missed else due.since)
    moment = schedule.next(base)
    return None if moment is None else (moment - now).total_seconds() + PADDING
