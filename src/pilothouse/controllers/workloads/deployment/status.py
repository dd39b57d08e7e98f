"""The status of a Deployment; its conditions are in ``progress``. Pure.

Upstream: ``calculateStatus`` of v1.36 ``pkg/controller/deployment/sync.go``, ``syncRolloutStatus`` of ``progress.go``.
"""

import datetime
from collections.abc import Sequence

from msgspec.structs import replace

from pilothouse.api.apps import Deployment, DeploymentStatus, ReplicaSet
from pilothouse.controllers.workloads.deployment.bounds import bounds_of, desired_replicas
from pilothouse.controllers.workloads.deployment.progress import (
    AVAILABLE,
    TIMED_OUT,
    condition,
    sync_rollout_status,
    with_condition,
    with_failure,
)
from pilothouse.controllers.workloads.deployment.sizes import size_of


def calculate_status(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    now: datetime.datetime,
    *,
    report_terminating: bool = True,
) -> DeploymentStatus:
    """The sums over all ReplicaSets, and the condition Available. Other conditions stay."""
    available = sum(rs.status.available_replicas for rs in sets)
    minimum_available = available >= desired_replicas(deployment) - bounds_of(deployment).unavailable
    availability = (
        condition(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
        if minimum_available
        else condition(
            AVAILABLE, "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
        )
    )
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(rs.status.replicas for rs in sets),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum(rs.status.ready_replicas for rs in sets),
        available_replicas=available,
        unavailable_replicas=max(0, sum(map(size_of, sets)) - available),
        terminating_replicas=terminating(sets) if report_terminating else None,
        collision_count=deployment.status.collision_count,
        conditions=with_condition(deployment.status.conditions, availability),
    )


def describe(deployment: Deployment, status: DeploymentStatus) -> str:
    """Why this status is written instead of the present one, in a sentence."""
    previous = {existing.type: existing for existing in deployment.status.conditions}
    text = (
        f"status: {desired_replicas(deployment)} replicas desired; {status.replicas} exist, {status.updated_replicas} "
        f"updated, {status.available_replicas} available"
    )
    for new in status.conditions:
        old = previous.get(new.type)
        if old is None or (old.status, old.reason) != (new.status, new.reason):
            text += f"; {new.type} is {new.status}, {new.reason}: {new.message}"
            if new.reason == TIMED_OUT:
                text += f" (progressDeadlineSeconds {deployment.spec.progress_deadline_seconds})"
    return text


def terminating(sets: Sequence[ReplicaSet]) -> int | None:
    """Terminating pods; ``None`` if a ReplicaSet does not report them. One without a status has none."""
    total = 0
    for rs in sets:
        count = rs.status.terminating_replicas
        if count is None:
            if rs.status.observed_generation:
                return None
            continue
        total += count
    return total


def rollout_status(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    now: datetime.datetime,
    *,
    report_terminating: bool = True,
) -> DeploymentStatus:
    """The status after a sync of a rollout: the sums, with progress and failures."""
    status = calculate_status(deployment, new, sets, now, report_terminating=report_terminating)
    status = replace(status, conditions=sync_rollout_status(deployment, new, status, now))
    return replace(status, conditions=with_failure(status.conditions, new, sets))
