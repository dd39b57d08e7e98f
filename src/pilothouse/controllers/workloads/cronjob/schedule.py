"""Which scheduled time is due, and when the next one is. Pure.

Upstream: v1.36 ``pkg/controller/cronjob/utils.go`` and ``formatSchedule`` of ``cronjob_controllerv2.go``.
"""

import datetime

import msgspec

from pilothouse.api.batch import CronJob
from pilothouse.machinery.cron import Schedule, parse_schedule
from pilothouse.machinery.times import add_seconds
from pilothouse.machinery.zones import UnknownZone, load_zone

PADDING = 0.1
"""Seconds by which keys are enqueued after their scheduled time (``nextScheduleDelta``), since clocks are not exact."""
TOO_MANY = 100
_SECOND = datetime.timedelta(seconds=1)


class NoScheduledTime(ValueError):
    """The schedule names days that do not exist."""


class MissedSchedules(msgspec.Struct, frozen=True):
    """``at`` is the last scheduled time that has passed without a Job, if any; ``missed`` about how many were before
    it."""

    since: datetime.datetime
    """The start of the search."""
    at: datetime.datetime | None = None
    missed: int = 0


def schedule_of(cron_job: CronJob, local: datetime.tzinfo) -> Schedule:
    """The schedule in ``spec.timeZone``, else in the zone of this process. Raises ``CronError``. A zone in the text
    itself takes precedence (upstream searches for the letters ``TZ`` anywhere in it)."""
    spec = cron_job.spec
    if has_own_zone(cron_job) or spec.time_zone is None:
        return parse_schedule(spec.schedule, local)
    try:
        zone = load_zone(spec.time_zone)
    except UnknownZone:
        zone = local
    return parse_schedule(spec.schedule, zone)


def has_own_zone(cron_job: CronJob) -> bool:
    """Whether the schedule's text names a zone, which is tolerated for old CronJobs."""
    return "TZ" in cron_job.spec.schedule


def most_recent_schedule_time(
    cron_job: CronJob, schedule: Schedule, now: datetime.datetime, *, include_starting_deadline_seconds: bool = True
) -> MissedSchedules:
    """The last scheduled time that has passed (``mostRecentScheduleTime``). Raises ``NoScheduledTime``.

    Not all times since the last Job are visited: their number is estimated from the first interval, and the search
    starts two intervals before the end. With irregular intervals it may find none.
    """
    since = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or now
    seconds = cron_job.spec.starting_deadline_seconds
    if include_starting_deadline_seconds and seconds is not None:
        since = max(since, add_seconds(now, -seconds))
    first = schedule.next(since)
    if first is not None and now < first:
        return MissedSchedules(since)
    second = schedule.next(first) if first is not None else None
    if first is None or second is None:
        raise NoScheduledTime("time difference between two schedules is less than 1 second")
    if now < second:
        return MissedSchedules(since, first)
    interval = second - first  # at least a second: moments are full seconds
    missed = (now - first) // _SECOND * _SECOND // interval + 1
    last: datetime.datetime | None = None
    scheduled_time = schedule.next(first + (missed - 2) * interval)
    while scheduled_time is not None and scheduled_time <= now:
        last = scheduled_time
        scheduled_time = schedule.next(scheduled_time)
    return MissedSchedules(since, last, missed)


def next_schedule_time_duration(cron_job: CronJob, schedule: Schedule, now: datetime.datetime) -> float | None:
    """Seconds until the next sync of the CronJob (``nextScheduleTimeDuration``); ``None``: never. Always greater than 0
    (kubernetes#118706)."""
    try:
        due = most_recent_schedule_time(cron_job, schedule, now, include_starting_deadline_seconds=False)
    except NoScheduledTime:
        base = now
    else:
        base = due.at or (now if due.missed else due.since)
    scheduled_time = schedule.next(base)
    return None if scheduled_time is None else (scheduled_time - now).total_seconds() + PADDING
