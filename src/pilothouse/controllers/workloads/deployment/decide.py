"""Which way one sync of a Deployment goes. Pure; ``sync_context`` carries out what it comes to.

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
    """What a sync is about."""

    REPORT = "report"
    """It is being deleted: only its status is kept up."""
    SCALE = "scale"
    """It is paused or was scaled: sizes change, nothing is rolled."""
    ROLL_BACK = "roll back"
    """Somebody asks for an older template."""
    ROLL = "roll"
    """Old pods are replaced, a few at a time."""
    RECREATE = "recreate"
    """Old pods go, then new ones come."""


class UnknownStrategy(ValueError):
    """The strategy is none that this release knows."""


def way_of(deployment: Deployment, sets: Sequence[ReplicaSet]) -> Way:
    """What this sync is about. The first that applies: two things at once would be two writers of one size."""
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
    """One step of a rollout. ``create``: the new ReplicaSet is missing and may be made. ``waits``: old pods are still
    there, and nothing can be done about it."""

    resizes: tuple[Resize, ...] = ()
    create: bool = False
    waits: bool = False


def next_roll(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Plan:
    """First the new ReplicaSet grows, and only when it cannot the old ones shrink: pods come before others go."""
    if new is None:
        return Plan(create=True)
    return Plan(tuple(rolling.grow(deployment, new, old) or rolling.shrink(deployment, new, old)))


def next_recreation(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], *, old_pods_left: bool
) -> Plan:
    """First all old ones shrink, then their pods are waited for, then the new one comes."""
    emptied = recreate.empty(old)
    if emptied:
        return Plan(tuple(emptied))
    if old_pods_left:
        return Plan(waits=True)
    if new is None:
        return Plan(create=True)
    return Plan(tuple(rolling.grow(deployment, new, old)))
