"""The rolling update: which old pods to delete, and where to create new ones next to them. Pure.

Upstream: ``rollingUpdate``, v1.36 ``pkg/controller/daemon/update.go``, where the order of nodes is random; here it is
the caller's.
"""

import datetime
import enum
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.api.apps import DaemonSetUpdateStrategy
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules
from pilothouse.machinery.int_or_percent import InvalidBound, scaled


class Move(enum.Enum):
    """The action that the rolling update may take on a node."""

    DELETE = "delete"
    """The old pod is deleted now, whatever the bounds: it is unavailable, or its successor is available."""
    CREATE = "create"
    """A new pod is created now: the old one is unavailable."""
    MAY_DELETE = "may delete"
    """The old pod is deleted when the bound allows."""
    MAY_CREATE = "may create"
    """A new pod is created next to the old one when the bound allows."""


class Step(msgspec.Struct, frozen=True):
    """The share of one node in the count, and the action that it allows. ``pod`` is the old pod."""

    move: Move | None = None
    pod: str = ""
    unavailable: int = 0
    surging: int = 0
    available: int = 0


def step_of(node_pods: NodePods, rules: Rules, now: datetime.datetime) -> Step | None:
    """The state of a node in the rolling update; ``None`` if it neither has nor should have a pod."""
    if not node_pods.should_run and not node_pods.pods:
        return None
    new, old, has_duplicates = _live(node_pods, rules)
    if rules.surges:
        return _surging_step(node_pods, rules, now, new, old, has_duplicates)
    if has_duplicates or (new is None) == (old is None):
        # ``manage`` deletes surplus pods and creates missing ones.
        return Step(unavailable=1)
    if new is not None:
        return Step(unavailable=0 if rules.is_available(new, now) else 1)
    assert old is not None, "one of the two is there"
    if rules.is_available(old, now):
        return Step(Move.MAY_DELETE, old.metadata.name)
    return Step(Move.DELETE, old.metadata.name, unavailable=1)


def _surging_step(
    node_pods: NodePods, rules: Rules, now: datetime.datetime, new: Pod | None, old: Pod | None, has_duplicates: bool
) -> Step:
    if has_duplicates:
        return Step(surging=1)
    counted = old or new
    available = 1 if counted is not None and rules.is_available(counted, now) else 0
    if old is None:
        return Step(available=available)
    name = old.metadata.name
    if new is not None:
        if rules.is_available(new, now):
            return Step(Move.DELETE, name, available=available)
        return Step(surging=1, available=available)
    if not rules.is_available(old, now):
        return Step(Move.CREATE if node_pods.should_run else Move.DELETE, name, available=available)
    return Step(Move.MAY_CREATE if node_pods.should_run else Move.MAY_DELETE, name, available=available)


def _live(node_pods: NodePods, rules: Rules) -> tuple[Pod | None, Pod | None, bool]:
    """The new pod and the old pod of the node, and whether there are more of a kind (``findUpdatedPodsOnNode``)."""
    new: Pod | None = None
    old: Pod | None = None
    for pod in node_pods.pods:
        if pod.metadata.deletion_timestamp is not None:
            continue
        if rules.is_updated(pod):
            if new is not None:
                return None, None, True
            new = pod
        else:
            if old is not None:
                return None, None, True
            old = pod
    return new, old, False


class Bounds(msgspec.Struct, frozen=True):
    """How many pods may be missing, or be there twice, at one time."""

    unavailable: int
    surge: int


def bounds_of(strategy: DaemonSetUpdateStrategy, desired: int) -> Bounds:
    """The bounds for this number of nodes. Percentages are rounded up. If both are 0, one pod may be missing. Raises
    ``InvalidBound``."""
    rolling = strategy.rolling_update
    if strategy.type != "RollingUpdate" or rolling is None:
        unavailable = surge = 0
    else:
        unavailable = scaled(rolling.max_unavailable, desired, up=True)
        surge = scaled(rolling.max_surge, desired, up=True)
    if unavailable == 0 and surge == 0 and desired > 0:
        unavailable = 1
    return Bounds(unavailable, surge)


def allows_surge(strategy: DaemonSetUpdateStrategy) -> bool:
    """Whether maxSurge has an effect, even if only on one node (``AllowsSurge``)."""
    rolling = strategy.rolling_update
    if strategy.type != "RollingUpdate" or rolling is None:
        return False
    try:
        return scaled(rolling.max_surge, 1, up=True) > 0
    except InvalidBound:
        return False


class Counts(msgspec.Struct, frozen=True):
    """The steps of all nodes, added up."""

    desired: int = 0
    """Nodes that should run a pod."""
    unavailable: int = 0
    surging: int = 0
    available: int = 0


class Plan(msgspec.Struct, frozen=True):
    """The actions of the rolling update in this sync: nodes to create a pod for, and names of pods to delete."""

    create: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def plan(counts: Counts, moves: Mapping[Move, Mapping[str, str]], bounds: Bounds, *, surging: bool) -> Plan:
    """The actions now. ``moves`` has, for each action, the nodes that allow it and their old pods.

    Without surge: at most ``bounds.unavailable`` pods are unavailable; old pods that are unavailable anyway are also
    replaced. With surge: at most ``bounds.surge`` nodes have two pods; pods on nodes that are no longer eligible are
    only deleted as far as others are available.
    """
    delete = list(moves.get(Move.DELETE, {}).values())
    may_delete = moves.get(Move.MAY_DELETE, {})
    if not surging:
        return Plan(delete=(*delete, *_first(may_delete.values(), bounds.unavailable - counts.unavailable)))
    if bounds.surge:
        # A percentage of no nodes is no surge. Upstream then uses maxUnavailable, which is 0 if there is a surge.
        delete += _first(may_delete.values(), counts.available - counts.desired)
    create = [*moves.get(Move.CREATE, {}), *_first(moves.get(Move.MAY_CREATE, {}), bounds.surge - counts.surging)]
    return Plan(create=tuple(create), delete=tuple(delete))


def _first(names: Iterable[str], count: int) -> list[str]:
    if count <= 0:
        return []
    return [name for name, _number in zip(names, range(count), strict=False)]
