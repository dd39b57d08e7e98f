"""The counts of a budget, from its pods and the size of their workloads. Pure.

Upstream: ``getExpectedPodCount``, ``buildDisruptedPodMap`` and ``countHealthyPods`` of v1.36
``pkg/controller/disruption/disruption.go``.
"""

import datetime
from collections.abc import Collection, Mapping, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.api.policy import PodDisruptionBudgetSpec
from pilothouse.machinery.int_or_percent import scaled
from pilothouse.semantics.pods import is_ready

DELETION_TIMEOUT = datetime.timedelta(minutes=2)
"""How long an evicted pod counts as being deleted without a deletion timestamp."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods are expected, and how many of them must be healthy."""

    expected: int
    desired: int


class DisruptedPods(msgspec.Struct, frozen=True, kw_only=True):
    """The evicted pods that still exist."""

    awaited: Mapping[str, datetime.datetime]
    """When each was evicted, by name."""
    overdue: tuple[Pod, ...]
    """Those that were not deleted in time; they count again."""
    recheck_at: datetime.datetime | None
    """When the first of those awaited will be overdue."""


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether the budget depends on the size of the workloads."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def expected_pod_count(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> Counts:
    """``scale`` is the size of all workloads that own the pods; it matters only if ``needs_scale``.

    Percentages are rounded up both ways: of 7 pods 30 % may be missing, which are 3, and 34 % must be there, also 3.
    Raises ``InvalidBound``.
    """
    if spec.max_unavailable is not None:
        return Counts(expected=scale, desired=max(0, scale - scaled(spec.max_unavailable, scale, up=True)))
    if isinstance(spec.min_available, str):
        return Counts(expected=scale, desired=scaled(spec.min_available, scale, up=True))
    if spec.min_available is not None:
        return Counts(expected=pods, desired=spec.min_available)
    return Counts(expected=0, desired=0)


def build_disrupted_pod_map(
    pods: Sequence[Pod], disrupted: Mapping[str, datetime.datetime], now: datetime.datetime
) -> DisruptedPods:
    """The entries of ``disrupted`` whose pod is still expected to be deleted; not those that are gone or
    terminating."""
    awaited = {}
    overdue = []
    recheck_at: datetime.datetime | None = None
    if disrupted:
        for pod in pods:
            at = disrupted.get(pod.metadata.name)
            if at is None or pod.metadata.deletion_timestamp is not None:
                continue
            expected_deletion = at + DELETION_TIMEOUT
            if expected_deletion < now:
                overdue.append(pod)
                continue
            awaited[pod.metadata.name] = at
            recheck_at = expected_deletion if recheck_at is None else min(recheck_at, expected_deletion)
    return DisruptedPods(awaited=awaited, overdue=tuple(overdue), recheck_at=recheck_at)


def count_healthy_pods(pods: Collection[Pod], awaited: Mapping[str, datetime.datetime], now: datetime.datetime) -> int:
    """How many pods are ready and are not being evicted. The phase is ignored, as upstream."""
    healthy = 0
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None or not is_ready(pod):
            continue
        at = awaited.get(pod.metadata.name)
        if at is None or at + DELETION_TIMEOUT <= now:
            healthy += 1
    return healthy
