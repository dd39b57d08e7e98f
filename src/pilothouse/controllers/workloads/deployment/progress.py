"""Conditions of a Deployment, among them its progress. Pure.

Upstream: v1.36 ``pkg/controller/deployment/progress.go``, ``SetDeploymentCondition``, ``DeploymentProgressing``,
``DeploymentTimedOut`` of ``util/deployment_util.go``.
"""

import datetime
from collections.abc import Sequence

from msgspec.structs import replace

from pilothouse.api.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from pilothouse.controllers.workloads.deployment.bounds import desired_replicas
from pilothouse.env.clock import whole_seconds
from pilothouse.machinery.conditions import find_condition, without_condition

AVAILABLE = "Available"
PROGRESSING = "Progressing"
REPLICA_FAILURE = "ReplicaFailure"

NEW_SET_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"

NO_DEADLINE = 2**31 - 1

Conditions = tuple[DeploymentCondition, ...]


def has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds not in (None, NO_DEADLINE)


def condition(type_: str, status: str, reason: str, message: str, now: datetime.datetime) -> DeploymentCondition:
    """A condition whose transition time is now."""
    at = whole_seconds(now)
    return DeploymentCondition(
        type=type_, status=status, reason=reason, message=message, last_update_time=at, last_transition_time=at
    )


def with_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Replace the condition of the same type, at the end. With the same status and reason the old one is kept; with the
    same status its transition time is kept."""
    old = find_condition(conditions, new.type)
    if old is not None and old.status == new.status:
        if old.reason == new.reason:
            return conditions
        new = replace(new, last_transition_time=old.last_transition_time)
    return (*without_condition(conditions, new.type), new)


def check_paused_conditions(deployment: Deployment, now: datetime.datetime) -> DeploymentCondition | None:
    """The condition for a pause that has started or ended; none if the deadline was exceeded."""
    if not has_deadline(deployment):
        return None
    old = find_condition(deployment.status.conditions, PROGRESSING)
    reason = "" if old is None else old.reason
    if reason == TIMED_OUT:
        return None
    if deployment.spec.paused and reason != PAUSED:
        return condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and reason == PAUSED:
        return condition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now)
    return None


def deployment_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all replicas are updated and available, by this status."""
    replicas = desired_replicas(deployment)
    return (
        status.updated_replicas == status.replicas == status.available_replicas == replicas
        and status.observed_generation >= deployment.metadata.generation
    )


def deployment_progressing(old: DeploymentStatus, now: DeploymentStatus) -> bool:
    """Whether something has moved since the last report: more new pods, fewer old ones, more ready or available."""
    return (
        now.updated_replicas > old.updated_replicas
        or now.replicas - now.updated_replicas < old.replicas - old.updated_replicas
        or now.ready_replicas > old.ready_replicas
        or now.available_replicas > old.available_replicas
    )


def deployment_timed_out(deployment: Deployment, conditions: Conditions, now: datetime.datetime) -> bool:
    """Whether there was no progress for the time of the deadline. Never without a Progressing condition, nor once the
    rollout has completed."""
    progressing = find_condition(conditions, PROGRESSING)
    if progressing is None or not has_deadline(deployment) or progressing.reason == NEW_SET_AVAILABLE:
        return False
    return progressing.reason == TIMED_OUT or _seconds_left(deployment, progressing, now) < 0


def seconds_to_deadline(deployment: Deployment, now: datetime.datetime) -> float | None:
    """Seconds until the rollout may exceed its deadline; ``None`` if it cannot.

    Upstream also requeues a completed rollout with missing pods, immediately and endlessly, although it never times
    out."""
    progressing = find_condition(deployment.status.conditions, PROGRESSING)
    if progressing is None or not has_deadline(deployment) or deployment_complete(deployment, deployment.status):
        return None
    if progressing.reason in (TIMED_OUT, NEW_SET_AVAILABLE):
        return None
    # One second more, because conditions have whole seconds.
    return max(0.0, _seconds_left(deployment, progressing, now)) + 1.0


def _seconds_left(deployment: Deployment, progressing: DeploymentCondition, now: datetime.datetime) -> float:
    if progressing.last_update_time is None:
        return -1.0
    deadline = deployment.spec.progress_deadline_seconds or 0
    return (progressing.last_update_time - now).total_seconds() + deadline


def sync_rollout_status(
    deployment: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: datetime.datetime
) -> Conditions:
    """The conditions of ``status`` with the condition Progressing (``syncRolloutStatus``)."""
    conditions = status.conditions
    if not has_deadline(deployment):
        return without_condition(conditions, PROGRESSING)
    old = find_condition(deployment.status.conditions, PROGRESSING)
    if status.replicas == status.updated_replicas and old is not None and old.reason == NEW_SET_AVAILABLE:
        return conditions  # nothing is rolled out
    owner = f'Deployment "{deployment.metadata.name}"' if new is None else f'ReplicaSet "{new.metadata.name}"'
    if deployment_complete(deployment, status):
        message = f"{owner} has successfully progressed."
        return with_condition(conditions, condition(PROGRESSING, "True", NEW_SET_AVAILABLE, message, now))
    if deployment_progressing(deployment.status, status):
        fresh = condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{owner} is progressing.", now)
        if old is not None and old.status == "True":
            fresh = replace(fresh, last_transition_time=old.last_transition_time)
        # Also if nothing else changed: the deadline counts from its update time.
        return (*without_condition(conditions, PROGRESSING), fresh)
    if deployment_timed_out(deployment, conditions, now):
        message = f"{owner} has timed out progressing."
        return with_condition(conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now))
    return conditions


def with_failure(conditions: Conditions, new: ReplicaSet | None, sets: Sequence[ReplicaSet]) -> Conditions:
    """The failure of a ReplicaSet to create or delete pods, preferably the new one's, copied to the Deployment."""
    for rs in (*([] if new is None else [new]), *sets):
        for rs_condition in rs.status.conditions:
            if rs_condition.type == REPLICA_FAILURE:
                failure = DeploymentCondition(
                    type=REPLICA_FAILURE,
                    status=rs_condition.status,
                    reason=rs_condition.reason,
                    message=rs_condition.message,
                    last_update_time=rs_condition.last_transition_time,
                    last_transition_time=rs_condition.last_transition_time,
                )
                return with_condition(conditions, failure)
    return without_condition(conditions, REPLICA_FAILURE)
