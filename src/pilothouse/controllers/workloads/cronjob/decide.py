"""Whether to start a Job now, and which finished Jobs to delete. Pure.

Upstream: v1.36 ``pkg/controller/cronjob/cronjob_controllerv2.go`` (``syncCronJob``, ``cleanupFinishedJobs``).
"""

import datetime
from collections.abc import Iterable

import msgspec

from pilothouse.api.batch import CronJob, CronJobStatus, Job
from pilothouse.api.core import EVENT_TYPE_NORMAL, EVENT_TYPE_WARNING
from pilothouse.controllers.workloads.cronjob.schedule import (
    TOO_MANY,
    NoScheduledTime,
    has_own_zone,
    most_recent_schedule_time,
    next_schedule_time_duration,
    schedule_of,
)
from pilothouse.machinery.cron import CronError
from pilothouse.machinery.zones import UnknownZone, load_zone
from pilothouse.semantics.jobs import finished_condition


class CronJobEvent(msgspec.Struct, frozen=True):
    """An event about the CronJob."""

    type: str
    reason: str
    message: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of a sync, and the events to record."""

    start: datetime.datetime | None = None
    """The scheduled time to start a Job for."""
    replace: bool = False
    """Delete active Jobs before."""
    wait: float | None = None
    """Seconds until the next sync. ``None``: when something changes."""
    events: tuple[CronJobEvent, ...] = ()


_TOO_MANY = CronJobEvent(
    EVENT_TYPE_WARNING,
    "TooManyMissedTimes",
    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
)
_ACTIVE = CronJobEvent(
    EVENT_TYPE_NORMAL,
    "JobAlreadyActive",
    "Not starting job because prior execution is running and concurrency policy is Forbid",
)


def job_name(cron_job: CronJob, scheduled_time: datetime.datetime) -> str:
    """The name of the Job for a scheduled time, which no other Job of the CronJob has."""
    return f"{cron_job.metadata.name}-{int(scheduled_time.timestamp()) // 60}"


def decide(
    cron_job: CronJob, status: CronJobStatus, now: datetime.datetime, local: datetime.tzinfo = datetime.UTC
) -> Decision:
    """The actions now. ``status`` is updated with the active Jobs."""
    spec, meta = cron_job.spec, cron_job.metadata
    if meta.deletion_timestamp is not None:
        return Decision()
    if spec.time_zone is not None:
        try:
            load_zone(spec.time_zone)
        except UnknownZone as error:
            text = f"invalid timeZone: {_quote(spec.time_zone)}: {error}"
            return Decision(events=(CronJobEvent(EVENT_TYPE_WARNING, "UnknownTimeZone", text),))
    if spec.suspend:
        return Decision()
    events: list[CronJobEvent] = []
    if has_own_zone(cron_job):
        text = (
            f"CRON_TZ or TZ used in schedule {_quote(spec.schedule)} is not officially supported, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
        events.append(CronJobEvent(EVENT_TYPE_WARNING, "UnsupportedSchedule", text))
    try:
        schedule = schedule_of(cron_job, local)
    except CronError as error:
        text = f"unparseable schedule: {_quote(spec.schedule)} : {error}"
        return Decision(events=(*events, CronJobEvent(EVENT_TYPE_WARNING, "UnparseableSchedule", text)))
    try:
        due = most_recent_schedule_time(cron_job, schedule, now)
    except NoScheduledTime as error:
        text = f"invalid schedule: {spec.schedule} : {error}"
        return Decision(events=(*events, CronJobEvent(EVENT_TYPE_WARNING, "InvalidSchedule", text)))
    wait = next_schedule_time_duration(cron_job, schedule, now)
    scheduled_time = due.at
    if scheduled_time is None:
        return Decision(wait=wait, events=tuple(events))
    if due.missed > TOO_MANY:
        events.append(_TOO_MANY)
    # Upstream checks the deadline here (event MissSchedule). It never is exceeded: earlier times were not searched.
    name = job_name(cron_job, scheduled_time)
    if status.last_schedule_time == scheduled_time or any(
        job.name == name and job.namespace == meta.namespace for job in status.active
    ):
        return Decision(wait=wait, events=tuple(events))
    if spec.concurrency_policy == "Forbid" and status.active:
        # lastScheduleTime does not change: the Job for this time is started when the active one has finished, unless a
        # later time comes first.
        return Decision(wait=wait, events=(*events, _ACTIVE))
    replace = spec.concurrency_policy == "Replace" and bool(status.active)
    return Decision(start=scheduled_time, replace=replace, wait=wait, events=tuple(events))


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def jobs_to_clean_up(cron_job: CronJob, jobs: Iterable[Job]) -> list[Job]:
    """The finished Jobs beyond the limits, the oldest first."""
    by_end: dict[str, list[Job]] = {"Complete": [], "Failed": []}
    for job in jobs:
        end = finished_condition(job)
        if end is not None:
            by_end[end.type].append(job)
    excess: list[Job] = []
    limits = cron_job.spec.successful_jobs_history_limit, cron_job.spec.failed_jobs_history_limit
    for ended, limit in zip(by_end.values(), limits, strict=True):
        if limit is not None and len(ended) > limit:
            excess += sorted(ended, key=_age)[: len(ended) - limit]
    return excess


_NEVER = datetime.datetime.max.replace(tzinfo=datetime.UTC)


def _age(job: Job) -> tuple[datetime.datetime, str]:
    return job.status.start_time or _NEVER, job.metadata.name
