"""When the TTL of a finished Job expires. Pure.

Upstream: v1.36 ``pkg/controller/ttlafterfinished/ttlafterfinished_controller.go``.
"""

import datetime

from pilothouse.api.batch import Job
from pilothouse.machinery.times import add_seconds
from pilothouse.semantics.jobs import finished_condition


class NoFinishTime(ValueError):
    """A Job has finished, but the condition has no time."""


def needs_cleanup(job: Job) -> bool:
    """Whether the Job needs cleanup: it has finished, has a TTL, and is not being deleted."""
    return (
        job.metadata.deletion_timestamp is None
        and job.spec.ttl_seconds_after_finished is not None
        and finished_condition(job) is not None
    )


def expires_at(job: Job) -> datetime.datetime | None:
    """The time after which it may be deleted; ``None`` if it is not to be deleted. Raises ``NoFinishTime``."""
    seconds = job.spec.ttl_seconds_after_finished
    finished = finished_condition(job)
    if job.metadata.deletion_timestamp is not None or seconds is None or finished is None:
        return None
    at = finished.last_transition_time
    if at is None:
        meta = job.metadata
        raise NoFinishTime(f"unable to find the time when the Job {meta.namespace}/{meta.name} finished")
    return add_seconds(at, seconds)
