"""Sentences that describe why a Job's pods are created and deleted, and how it finishes. Pure."""

from pilothouse.api.batch import Job, JobStatus
from pilothouse.controllers.workloads.job.decide import Census, CreatePods, is_suspended
from pilothouse.controllers.workloads.job.status import Ending

_SHOWN = 10
"""At most this many indexes are listed."""


def describe_parallelism(job: Job, census: Census) -> str:
    """``parallelism 2, completions 5: 1 succeeded, 2 active``."""
    spec = job.spec
    if is_suspended(job):
        return f"the Job is suspended, {len(census.active)} pods are active"
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    completions = "none" if spec.completions is None else spec.completions
    return (
        f"parallelism {parallelism}, completions {completions}: {census.succeeded} succeeded, {census.failed} failed, "
        f"{len(census.active)} active"
    )


def describe_creation(job: Job, census: Census, action: CreatePods) -> str:
    """Why pods are created."""
    created = "1 pod is created" if action.count == 1 else f"{action.count} pods are created"
    text = f"{describe_parallelism(job, census)}, backoffLimit {_limit(job)}: {created}"
    if not action.indexes:
        return text
    ellipsis = ", …" if len(action.indexes) > _SHOWN else ""
    return f"{text}, for the indexes {', '.join(map(str, action.indexes[:_SHOWN]))}{ellipsis}"


def describe_ending(job: Job, census: Census, ending: Ending) -> str:
    """Why the Job finishes."""
    text = f"{ending.reason}: {ending.message}"
    match ending.reason:
        case "BackoffLimitExceeded":
            return f"{text} ({census.failed} pods failed, backoffLimit {_limit(job)})"
        case "DeadlineExceeded":
            return f"{text} (activeDeadlineSeconds {job.spec.active_deadline_seconds})"
        case "MaxFailedIndexesExceeded":
            return f"{text} (maxFailedIndexes {job.spec.max_failed_indexes}, failed: {census.failed_indexes})"
        case "FailedIndexes":
            return f"{text} ({census.failed_indexes})"
        case _:
            return text


def describe_status(job: Job, status: JobStatus) -> str:
    """Why the status is written."""
    old = {(existing.type, existing.status) for existing in job.status.conditions}
    text = f"status: {status.active} active, {status.succeeded} succeeded, {status.failed} failed"
    waiting = status.uncounted_terminated_pods
    if waiting is not None and (waiting.succeeded or waiting.failed):
        text += f", {len(waiting.succeeded) + len(waiting.failed)} ended pods are being counted"
    for condition in status.conditions:
        if (condition.type, condition.status) not in old:
            text += f"; {condition.type} is {condition.status}, {condition.reason}: {condition.message}"
            if condition.reason == "BackoffLimitExceeded":
                text += f" (backoffLimit {_limit(job)})"
            elif condition.reason == "DeadlineExceeded":
                text += f" (activeDeadlineSeconds {job.spec.active_deadline_seconds})"
    return text


def _limit(job: Job) -> int:
    return 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
