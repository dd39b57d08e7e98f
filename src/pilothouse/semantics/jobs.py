"""Whether and how a Job has finished. Sources: kubernetes v1.36 ``pkg/controller/job/util``."""

from pilothouse.api.batch import Job, JobCondition


def true_condition(job: Job, type_: str) -> JobCondition | None:
    for condition in job.status.conditions:
        if condition.type == type_ and condition.status == "True":
            return condition
    return None


def finished_condition(job: Job) -> JobCondition | None:
    """The first of ``Complete`` and ``Failed`` that is True. ``None``: the Job has not finished."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition
    return None


def is_finished(job: Job) -> bool:
    """Whether the Job has finished."""
    return finished_condition(job) is not None
