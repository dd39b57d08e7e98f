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


class Count(msgspec.Struct, frozen=True):
    """The recommended replicas, with the usage."""

    replicas: int
    average: int
    utilization: int = 0


def by_utilization(pods: Pods, samples: Samples, resource: str, container: str, target: int) -> Count:
    """For a utilization target, in percent of the pods' requests. Raises ``MetricUnavailable``."""
    pods.must_exist()
    counted = _Counted(pods, samples, resource)
    requests = calculate_requests(pods.pods, resource, container, pod_level_resources=pods.pod_level_resources)
    return counted.count(
        lambda known_samples: _utilization(known_samples, requests, target),
        # Above 100 % the target itself.
        lambda name: quotient(requests[name] * max(100, target), 100),
    )


def by_average(pods: Pods, samples: Samples, target: int, resource: str = "") -> Count:
    """For an average per pod. ``resource`` is empty for metrics that are not resource metrics. Raises
    ``MetricUnavailable``."""
    pods.must_exist()
    return _Counted(pods, samples, resource).count(
        lambda known_samples: _average(known_samples, target), lambda _name: target
    )


def by_value(pods: Pods, value: int, target: int) -> int:
    """For a single value with this target. Raises ``MetricUnavailable``."""
    ratio = value / target
    if pods.current == 0:
        return _whole(ratio)
    if pods.tolerances.covers(ratio):
        return pods.current
    return _whole(ratio * pods.count_ready())


def by_share(pods: Pods, value: int, target: int) -> Count:
    """For a single value that is divided by the number of pods."""
    reported = pods.reported
    # Without pods no ratio is within the tolerance.
    ratio = value / (target * reported) if reported else math.inf
    replicas = reported if pods.tolerances.covers(ratio) else _whole(value / target)
    average = value if value >= MAX_INT64 else math.ceil(value / (reported or 1))
    return Count(replicas, average)


def total_of(values: Sequence[int]) -> int:
    """The sum, no larger than upstream can count."""
    total = 0
    for value in values:
        total = min(total + value, MAX_INT64)
    return total


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

    def count(self, use_of: UseOf, full: Full) -> Count:
        """``use_of`` computes the usage; ``full`` is the usage that a pod without sample is assumed to have."""
        pods, groups = self._pods, self._groups
        tolerances, current = pods.tolerances, pods.current
        use = use_of(self._known)
        starting = groups.unready if use.ratio > 1.0 else ()
        if not groups.missing and not starting:
            replicas = current if tolerances.covers(use.ratio) else _whole(use.ratio * groups.ready)
            return Count(replicas, use.average, use.utilization)
        filled = dict(self._known)
        for name in groups.missing:
            if use.ratio < 1.0:
                filled[name] = Sample(full(name))
            elif use.ratio > 1.0:
                filled[name] = Sample(0)
        for name in starting:
            filled[name] = Sample(0)
        ratio = use_of(filled).ratio
        replicas = _whole(ratio * len(filled))
        if (
            tolerances.covers(ratio)
            # The assumed samples reversed the direction.
            or (use.ratio < 1.0 < ratio or ratio < 1.0 < use.ratio)
            # During a rollout there are more or fewer pods than desired; do not scale in the other direction.
            or (ratio < 1.0 and replicas > current)
            or (ratio > 1.0 and replicas < current)
        ):
            replicas = current
        return Count(replicas, use.average, use.utilization)


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


def _whole(replicas: float) -> int:
    return MAX_INT32 if replicas > MAX_INT32 else math.ceil(replicas)
