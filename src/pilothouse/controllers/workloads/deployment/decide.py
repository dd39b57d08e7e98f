"""The action of one sync of a Deployment. Pure.

Upstream: ``syncDeployment``, v1.36 ``pkg/controller/deployment/deployment_controller.go``.
"""

import enum
from collections.abc import Sequence

import msgspec

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.controllers.workloads.deployment import recreate, rolling
from pilothouse.controllers.workloads.deployment.bounds import RECREATE, ROLLING_UPDATE
from pilothouse.controllers.workloads.deployment.history import rollback_revision
from pilothouse.controllers.workloads.deployment.scaling import is_scaling_event
from pilothouse.controllers.workloads.deployment.sizes import Resize


class SyncCase(enum.Enum):
    """The case that a sync handles."""

    REPORT = "report"
    """It is being deleted: only its status is kept up."""
    SCALE = "scale"
    """It is paused or was scaled: sizes change, nothing is rolled."""
    ROLL_BACK = "roll back"
    """A client requests a rollback."""
    ROLL = "roll"
    """Old pods are replaced, a few at a time."""
    RECREATE = "recreate"
    """Old pods are deleted before new ones are created."""


class UnknownStrategy(ValueError):
    """The strategy type is unknown."""


def sync_case(deployment: Deployment, sets: Sequence[ReplicaSet]) -> SyncCase:
    """The first that applies, so that each size is written once."""
    if deployment.metadata.deletion_timestamp is not None:
        return SyncCase.REPORT
    if deployment.spec.paused:
        return SyncCase.SCALE
    if rollback_revision(deployment) is not None:
        return SyncCase.ROLL_BACK
    if is_scaling_event(deployment, sets):
        return SyncCase.SCALE
    strategy = deployment.spec.strategy.type
    if strategy == ROLLING_UPDATE:
        return SyncCase.ROLL
    if strategy == RECREATE:
        return SyncCase.RECREATE
    raise UnknownStrategy(f"unexpected deployment strategy type: {strategy}")


class Plan(msgspec.Struct, frozen=True):
    """One step of a rollout. ``create``: the new ReplicaSet is to be created. ``waits``: old pods still exist."""

    resizes: tuple[Resize, ...] = ()
    create: bool = False
    waits: bool = False


def rollout_rolling(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Plan:
    """Scale up the new ReplicaSet, or if it cannot grow, scale down the old ones."""
    if new is None:
        return Plan(create=True)
    return Plan(
        tuple(
            rolling.reconcile_new_replica_set(deployment, new, old)
            or rolling.reconcile_old_replica_sets(deployment, new, old)
        )
    )


def rollout_recreate(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, old_pods_left: bool
) -> Plan:
    """Scale down all old ones, wait for their pods, then create or scale up the new one."""
    scaled_down = recreate.scale_down_old_replica_sets_for_recreate(old)
    if scaled_down:
        return Plan(tuple(scaled_down))
    if old_pods_left:
        return Plan(waits=True)
    if new is None:
        return Plan(create=True)
    return Plan(tuple(rolling.reconcile_new_replica_set(deployment, new, old)))
