"""The replica calculator. Pure; values are milli-units.

With a usage of u and a target of t, n pods should be ⌈u ÷ t × n⌉. A pod without a sample counts as using its target
when scaling down, and as using nothing when scaling up: it can damp a change, but not cause one. Pods that are starting
also count as using nothing when scaling up.

Upstream: v1.36 ``pkg/controller/podautoscaler/replica_calculator.go`` and ``metrics/utilization.go``.
"""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.grouping import (
    ReadinessDelays,
    calculate_requests,
    group_pods,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import (
    MAX_INT32,
    MAX_INT64,
    MetricUnavailable,
    Sample,
    Samples,
    quotient,
)
from pilothouse.semantics.pods import is_ready


class Tolerances(msgspec.Struct, frozen=True):
    """How far usage and target may differ without scaling: 0.1 is a tenth."""

    down: float
    up: float

    def covers(self, ratio: float) -> bool:
        """Whether usage ÷ target is near enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of the workload, and other input of one sync."""

    pods: Sequence[Pod]
    current: int
    """``spec.replicas`` of the scale."""
    reported: int
    """``status.replicas`` of the scale."""
    tolerances: Tolerances
    delays: ReadinessDelays
    now: datetime.datetime
    pod_level_resources: bool = True
    """Whether requests of pods count, and not only of containers."""

    def must_exist(self) -> None:
        """Raises ``MetricUnavailable`` if there are no pods."""
        if not self.pods:
            raise MetricUnavailable("no pods returned by selector while calculating replica count")

    def count_ready(self) -> int:
        """How many are running and ready. Raises ``MetricUnavailable`` if there are no pods."""
        if not self.pods:
            raise MetricUnavailable(
                "unable to calculate ready pods: no pods returned by selector while calculating replica count"
            )
        return sum(pod.status.phase == "Running" and is_ready(pod) for pod in self.pods)


class Use(msgspec.Struct, frozen=True):
    """``ratio`` is usage ÷ target; ``average`` is per pod; ``utilization`` is in percent of requests."""

    ratio: float
    average: int
    utilization: int = 0


class Computation(msgspec.Struct, frozen=True, kw_only=True):
    """How the pods counted."""

    total: int
    measured: int
    """Pods whose samples count."""
    missing: int
    """Running, but without a sample."""
    missing_nodes: tuple[str, ...]
    """The nodes of those, each once."""
    missing_as: str
    """What those count as: ``0``, ``100%``, ``the target``; empty if they do not count."""
    starting: int
    starting_as: str
    """As for ``missing_as``."""
    ignored: int
    """Terminating or failed."""
    ratio: float
    """Usage ÷ target, with the assumed samples."""
    counted: int
    """The number of pods that the ratio is multiplied by."""
    kept: str = ""
    """The reason for which the current replicas stay, whatever the ratio makes."""


class Count(msgspec.Struct, frozen=True):
    """The recommended replicas, with the usage. ``computation`` is None if the usage is not that of pods."""

    replicas: int
    average: int
    utilization: int = 0
    computation: Computation | None = None


def by_utilization(pods: Pods, samples: Samples, resource: str, container: str, target: int) -> Count:
    """For a utilization target, in percent of the pods' requests. Raises ``MetricUnavailable``."""
    pods.must_exist()
    counted = _Counted(pods, samples, resource)
    requests = calculate_requests(pods.pods, resource, container, pod_level_resources=pods.pod_level_resources)
    return counted.count(
        lambda known_samples: _utilization(known_samples, requests, target),
        # Above 100 % the target itself.
        lambda name: quotient(requests[name] * max(100, target), 100),
        f"{max(100, target)}%",
    )


def by_average(pods: Pods, samples: Samples, target: int, resource: str = "") -> Count:
    """For an average per pod. ``resource`` is empty for metrics that are not resource metrics. Raises
    ``MetricUnavailable``."""
    pods.must_exist()
    return _Counted(pods, samples, resource).count(
        lambda known_samples: _average(known_samples, target), lambda _name: target, "the target"
    )


def by_value(pods: Pods, value: int, target: int) -> int:
    """For a single value with this target. Raises ``MetricUnavailable``."""
    ratio = value / target
    if pods.current == 0:
        return whole(ratio)
    if pods.tolerances.covers(ratio):
        return pods.current
    return whole(ratio * pods.count_ready())


def by_share(pods: Pods, value: int, target: int) -> Count:
    """For a single value that is divided by the number of pods."""
    reported = pods.reported
    # Without pods no ratio is within the tolerance.
    ratio = value / (target * reported) if reported else math.inf
    replicas = reported if pods.tolerances.covers(ratio) else whole(value / target)
    average = value if value >= MAX_INT64 else math.ceil(value / (reported or 1))
    return Count(replicas, average)


def total_of(values: Sequence[int]) -> int:
    """The sum, no larger than upstream can count."""
    total = 0
    for value in values:
        total = min(total + value, MAX_INT64)
    return total


WITHIN_TOLERANCE = "within the tolerance"

UseOf = Callable[[Samples], Use]
Full = Callable[[str], int]


class _Counted:
    """The samples that count, and the pods without."""

    def __init__(self, pods: Pods, samples: Samples, resource: str) -> None:
        self._pods = pods
        self._groups = group_pods(pods.pods, samples, resource, pods.delays, pods.now)
        excluded = {*self._groups.ignored, *self._groups.unready}
        self._known = {name: sample for name, sample in samples.items() if name not in excluded}
        if not self._known:
            raise MetricUnavailable("did not receive metrics for targeted pods (pods might be unready)")

    def count(self, use_of: UseOf, full: Full, full_text: str) -> Count:
        """``use_of`` computes the usage; ``full`` is the usage that a pod without sample is assumed to have, and
        ``full_text`` its description."""
        groups, current = self._groups, self._pods.current
        use = use_of(self._known)
        starting = groups.unready if use.ratio > 1.0 else ()
        ratio, counted, kept = use.ratio, groups.ready, ""
        if groups.missing or starting:
            filled = dict(self._known)
            for name in groups.missing:
                if use.ratio < 1.0:
                    filled[name] = Sample(full(name))
                elif use.ratio > 1.0:
                    filled[name] = Sample(0)
            for name in starting:
                filled[name] = Sample(0)
            ratio, counted = use_of(filled).ratio, len(filled)
            kept = self._reason_to_stay(use.ratio, ratio, whole(ratio * counted))
        elif self._pods.tolerances.covers(ratio):
            kept = WITHIN_TOLERANCE
        missing_as = "0" if use.ratio > 1.0 else full_text if use.ratio < 1.0 else ""
        computation = Computation(
            total=len(self._pods.pods),
            measured=groups.ready,
            missing=len(groups.missing),
            missing_nodes=self._nodes_of(groups.missing),
            missing_as=missing_as,
            starting=len(groups.unready),
            starting_as="0" if starting else "",
            ignored=len(groups.ignored),
            ratio=ratio,
            counted=counted,
            kept=kept,
        )
        replicas = current if kept else whole(ratio * counted)
        return Count(replicas, use.average, use.utilization, computation)

    def _reason_to_stay(self, measured: float, ratio: float, replicas: int) -> str:
        """Why the current replicas stay after samples were assumed; empty if they don't."""
        if self._pods.tolerances.covers(ratio):
            return WITHIN_TOLERANCE
        if measured < 1.0 < ratio or ratio < 1.0 < measured:
            return "which would reverse the direction"
        # During a rollout there are more or fewer pods than desired; do not scale in the other direction.
        current = self._pods.current
        if (ratio < 1.0 and replicas > current) or (ratio > 1.0 and replicas < current):
            return f"which makes {replicas} replicas, in the opposite direction"
        return ""

    def _nodes_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """The nodes of these pods, each once."""
        if not names:
            return ()
        chosen = frozenset(names)
        nodes = (pod.spec.node_name for pod in self._pods.pods if pod.metadata.name in chosen)
        return tuple(sorted({node for node in nodes if node}))


def _utilization(samples: Samples, requests: Mapping[str, int], target: int) -> Use:
    names = [name for name in samples if name in requests]
    requested = sum(requests[name] for name in names)
    if requested == 0:
        raise MetricUnavailable("no metrics returned matched known pods")
    used = sum(samples[name].value for name in names)
    percent = quotient(used * 100, requested)
    return Use(percent / target, quotient(used, len(names)), percent)


def _average(samples: Samples, target: int) -> Use:
    average = quotient(sum(sample.value for sample in samples.values()), len(samples))
    return Use(average / target, average)


def whole(replicas: float) -> int:
    """Rounded up, no larger than upstream can count."""
    return MAX_INT32 if replicas > MAX_INT32 else math.ceil(replicas)
