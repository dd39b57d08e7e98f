"""Conditions and the status as JSON. Pure."""

import datetime

import msgspec
from msgspec.structs import replace

from pilothouse.api.batch import JobCondition, JobStatus
from pilothouse.env.clock import whole_seconds

SUSPENDED = "Suspended"
COMPLETE = "Complete"
FAILED = "Failed"
FAILURE_TARGET = "FailureTarget"
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"

Conditions = tuple[JobCondition, ...]


class Ending(msgspec.Struct, frozen=True):
    """How the Job will finish when all pods are counted and none is active."""

    type: str
    """``FailureTarget`` or ``SuccessCriteriaMet``."""
    reason: str
    message: str

    @property
    def success(self) -> bool:
        return self.type == SUCCESS_CRITERIA_MET

    @property
    def final_type(self) -> str:
        return COMPLETE if self.success else FAILED


def with_condition(
    conditions: Conditions, type_: str, status: str, reason: str, message: str, now: datetime.datetime
) -> tuple[Conditions, bool]:
    """With this condition, and whether that is a change. It is not added as False (``ensureJobConditionStatus``)."""
    at = whole_seconds(now)
    desired = JobCondition(
        type=type_, status=status, reason=reason, message=message, last_probe_time=at, last_transition_time=at
    )
    for index, condition in enumerate(conditions):
        if condition.type == type_:
            if (condition.status, condition.reason, condition.message) == (status, reason, message):
                return conditions, False
            return (*conditions[:index], desired, *conditions[index + 1 :]), True
    if status == "False":
        return conditions, False
    return (*conditions, desired), True


def finished(status: JobStatus, ending: Ending, now: datetime.datetime) -> JobStatus:
    conditions, _changed = with_condition(
        status.conditions, ending.final_type, "True", ending.reason, ending.message, now
    )
    completed = whole_seconds(now) if ending.success else None
    return replace(status, conditions=conditions, completion_time=completed)
