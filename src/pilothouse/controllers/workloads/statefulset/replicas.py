"""The pods of a StatefulSet by ordinal, and their state. Pure.

Upstream: the first half of ``updateStatefulSet``, v1.36 ``pkg/controller/statefulset/stateful_set_control.go``.
"""

import datetime
from collections.abc import Iterable
from itertools import islice

import msgspec

from pilothouse.api.apps import StatefulSet
from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.statefulset.identity import ordinal_of, pod_name, revision_of
from pilothouse.machinery.int_or_percent import scaled
from pilothouse.semantics.pods import is_available, is_ready

PARALLEL = "Parallel"
ON_DELETE = "OnDelete"
ROLLING_UPDATE = "RollingUpdate"
MAX_MISSING = 500
"""How many missing pods one sync considers: those with the lowest ordinals. The events of their creation cause the next
sync. ``spec.replicas`` may be two thousand million, with which upstream's controller ends for lack of memory."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the spec, with defaults."""

    name: str
    desired: int = 1
    start: int = 0
    ordered: bool = True
    min_ready_seconds: int = 0
    strategy: str = ROLLING_UPDATE
    partition: int | None = 0
    """The partition. ``None`` without ``rollingUpdate``: all pods are updated, but one that is created again below
    ``currentReplicas`` uses the current revision."""
    max_unavailable: int | None = None
    """How many pods may be unavailable during an update; ``None`` if the gate is off: one at a time."""

    @property
    def first_to_update(self) -> int:
        """The position, counted from the first ordinal, from which on pods are updated."""
        return self.partition or 0

    def is_desired(self, ordinal: int) -> bool:
        return self.start <= ordinal < self.start + self.desired

    def is_available(self, pod: Pod, now: datetime.datetime) -> bool:
        return is_available(pod, self.min_ready_seconds, now)

    def is_unavailable(self, pod: Pod, now: datetime.datetime) -> bool:
        """Whether it is unavailable or terminating."""
        return pod.metadata.deletion_timestamp is not None or not self.is_available(pod, now)


def rules_of(owner: StatefulSet, *, use_max_unavailable: bool) -> Rules:
    """The rules of this spec. Raises ``InvalidBound``."""
    spec = owner.spec
    desired = 1 if spec.replicas is None else spec.replicas
    rolling = spec.update_strategy.rolling_update
    bound = 1
    if rolling is not None and rolling.max_unavailable is not None:
        # Rounded down, but at least 1 (getStatefulSetMaxUnavailable).
        bound = max(1, scaled(rolling.max_unavailable, desired, up=False)) if use_max_unavailable else 1
    return Rules(
        name=owner.metadata.name,
        desired=desired,
        start=spec.ordinals.start if spec.ordinals is not None else 0,
        ordered=spec.pod_management_policy != PARALLEL,
        min_ready_seconds=spec.min_ready_seconds,
        strategy=spec.update_strategy.type,
        partition=None if rolling is None else rolling.partition or 0,
        max_unavailable=bound if use_max_unavailable else None,
    )


class Slot(msgspec.Struct, frozen=True):
    """An ordinal that should have a pod, and the pod if it exists."""

    ordinal: int
    name: str
    pod: Pod | None = None


class Replicas(msgspec.Struct, frozen=True):
    slots: tuple[Slot, ...]
    """The replicas, by ordinal: all that exist, and the first ``MAX_MISSING`` that do not."""
    condemned: tuple[Pod, ...]
    """Pods out of range, the highest ordinal first."""
    first_unavailable: str
    """The name of the lowest pod that is unavailable or terminating, ``""`` if there is none."""
    unlisted: int = 0
    """How many more are missing."""

    def pods(self) -> tuple[Pod, ...]:
        return (*(slot.pod for slot in self.slots if slot.pod is not None), *self.condemned)


def split_replicas(pods: Iterable[Pod], rules: Rules, now: datetime.datetime) -> Replicas:
    """Sort the pods by ordinal. One whose name is not that of its ordinal (``web-01``, or a number too large) is
    ignored."""
    by_ordinal: dict[int, Pod] = {}
    condemned: list[Pod] = []
    for pod in pods:
        ordinal = ordinal_of(pod.metadata.name)
        if pod.metadata.name != pod_name(rules.name, ordinal):
            continue
        if rules.is_desired(ordinal):
            by_ordinal[ordinal] = pod
        else:
            condemned.append(pod)
    condemned.sort(key=lambda pod: -ordinal_of(pod.metadata.name))
    every = range(rules.start, rules.start + rules.desired)
    missing = islice((ordinal for ordinal in every if ordinal not in by_ordinal), MAX_MISSING)
    ordinals = sorted([*by_ordinal, *missing])
    slots = tuple(Slot(ordinal, pod_name(rules.name, ordinal), by_ordinal.get(ordinal)) for ordinal in ordinals)
    missed = [slot.name for slot in slots if slot.pod is None or rules.is_unavailable(slot.pod, now)]
    missed += [pod.metadata.name for pod in reversed(condemned) if rules.is_unavailable(pod, now)]
    return Replicas(slots, tuple(condemned), missed[0] if missed else "", len(every) - len(slots))


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    replicas: int = 0
    ready: int = 0
    available: int = 0
    current: int = 0
    updated: int = 0


def tally(pods: Iterable[Pod], rules: Rules, current: str, update: str, now: datetime.datetime) -> Tally:
    """Count pods. Terminating ones may be ready, but are of no revision (``computeReplicaStatus``)."""
    replicas = ready = available = of_current = of_update = 0
    for pod in pods:
        if not pod.status.phase:
            continue
        replicas += 1
        if is_running_and_ready(pod):
            ready += 1
            if rules.is_available(pod, now):
                available += 1
        if pod.metadata.deletion_timestamp is None:
            revision = revision_of(pod.metadata)
            of_current += revision == current
            of_update += revision == update
    return Tally(replicas=replicas, ready=ready, available=available, current=of_current, updated=of_update)


def is_running_and_ready(pod: Pod) -> bool:
    """Whether it is running and ready."""
    return pod.status.phase == "Running" and is_ready(pod)
