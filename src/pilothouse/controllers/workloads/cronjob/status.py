"""The status of a CronJob from its Jobs. Pure.

Upstream: v1.36 ``pkg/controller/cronjob/cronjob_controllerv2.go`` (``syncCronJob``).
"""

import datetime
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from pilothouse.api.batch import JOBS, CronJobStatus, Job
from pilothouse.api.core import EVENT_TYPE_NORMAL, ObjectReference
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.cronjob.decide import CronJobEvent
from pilothouse.machinery.owners import object_reference
from pilothouse.semantics.jobs import finished_condition


def delete_from_active_list(status: CronJobStatus, uids: Collection[str]) -> CronJobStatus:
    if not any(job.uid in uids for job in status.active):
        return status
    return replace(status, active=tuple(job for job in status.active if job.uid not in uids))


def add_to_active_list(status: CronJobStatus, job: ObjectMeta, scheduled_time: datetime.datetime) -> CronJobStatus:
    return replace(status, active=(*status.active, object_reference(JOBS, job)), last_schedule_time=scheduled_time)


def update_active_list(status: CronJobStatus, jobs: Iterable[Job]) -> tuple[CronJobStatus, list[CronJobEvent]]:
    """The status without finished Jobs, and the events about them."""
    events: list[CronJobEvent] = []
    active = {reference.uid for reference in status.active}
    for job in jobs:
        end = finished_condition(job)
        if end is None:
            continue
        if job.metadata.uid in active:
            status = delete_from_active_list(status, (job.metadata.uid,))
            text = f"Saw completed job: {job.metadata.name}, condition: {end.type}"
            events.append(CronJobEvent(EVENT_TYPE_NORMAL, "SawCompletedJob", text))
        at = job.status.completion_time
        if end.type == "Complete" and at is not None:
            last_successful_time = status.last_successful_time
            if last_successful_time is None or at > last_successful_time:
                status = replace(status, last_successful_time=at)
    return status, events


def active_jobs_not_in_status(status: CronJobStatus, jobs: Iterable[Job]) -> list[Job]:
    """The active Jobs that are not in the status."""
    active = {reference.uid for reference in status.active}
    return [job for job in jobs if job.metadata.uid not in active and finished_condition(job) is None]


def active_jobs_not_in_cache(status: CronJobStatus, jobs: Iterable[Job]) -> list[ObjectReference]:
    """Active Jobs of the status that the cache does not show."""
    names = {job.metadata.uid for job in jobs}
    return [reference for reference in status.active if reference.uid not in names]
