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
from pilothouse.controllers.workloads.deployment.scaling import is_scaled
from pilothouse.controllers.workloads.deployment.sizes import Resize


class Way(enum.Enum):
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


def way_of(deployment: Deployment, sets: Sequence[ReplicaSet]) -> Way:
    """The first that applies, so that each size is written once."""
    if deployment.metadata.deletion_timestamp is not None:
        return Way.REPORT
    if deployment.spec.paused:
        return Way.SCALE
    if rollback_revision(deployment) is not None:
        return Way.ROLL_BACK
    if is_scaled(deployment, sets):
        return Way.SCALE
    strategy = deployment.spec.strategy.type
    if strategy == ROLLING_UPDATE:
        return Way.ROLL
    if strategy == RECREATE:
        return Way.RECREATE
    raise UnknownStrategy(f"unexpected deployment strategy type: {strategy}")


class Plan(msgspec.Struct, frozen=True):
    """One step of a rollout. ``create``: the new ReplicaSet is to be created. ``waits``: old pods still exist."""

    resizes: tuple[Resize, ...] = ()
    create: bool = False
    waits: bool = False


def next_roll(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Plan:
    """Scale up the new ReplicaSet, or if it cannot grow, scale down the old ones."""
    if new is None:
        return Plan(create=True)
    return Plan(tuple(rolling.grow(deployment, new, old) or rolling.shrink(deployment, new, old)))


def next_recreation(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, old_pods_left: bool
) -> Plan:
    """Scale down all old ones, wait for their pods, then create or scale up the new one."""
    emptied = recreate.empty(old)
    if emptied:
        return Plan(tuple(emptied))
    if old_pods_left:
        return Plan(waits=True)
    if new is None:
        return Plan(create=True)
    return Plan(tuple(rolling.grow(deployment, new, old)))
