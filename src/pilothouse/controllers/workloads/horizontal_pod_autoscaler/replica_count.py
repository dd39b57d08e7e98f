"""How many replicas a metric asks for. Pure; values are thousandths.

The idea is one proportion: at a use of u and a target of t, n pods should be ⌈u ÷ t × n⌉. What makes it long is what is
not known. A pod without a sample counts, on the way down, as if it used what it may, and on the way up as if it used
nothing: so it can damp a change and never cause one. The same goes for pods that are still starting, on the way up.

Upstream: v1.36 ``pkg/controller/podautoscaler/replica_calculator.go`` and ``metrics/utilization.go``.
"""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.grouping import Patience, group_pods, requests_of
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import (
    MAX_INT32,
    MAX_INT64,
    Sample,
    Samples,
    Unmeasured,
    quotient,
)
from pilothouse.semantics.pods import is_ready


class Tolerances(msgspec.Struct, frozen=True):
    """How far use and target may be apart before anything is done: 0.1 is a tenth."""

    down: float
    up: float

    def covers(self, ratio: float) -> bool:
        """Whether use ÷ target is near enough to 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of the workload, and everything else that one sync may read."""

    pods: Sequence[Pod]
    current: int
    """``spec.replicas`` of the scale."""
    reported: int
    """``status.replicas`` of the scale."""
    tolerances: Tolerances
    patience: Patience
    now: datetime.datetime
    pod_level_resources: bool = True
    """Whether what a pod requests as a whole counts."""

    def must_exist(self) -> None:
        """Raises ``Unmeasured`` if there are no pods."""
        if not self.pods:
            raise Unmeasured("no pods returned by selector while calculating replica count")

    def count_ready(self) -> int:
        """How many run and are ready. Raises ``Unmeasured`` if there are no pods at all."""
        if not self.pods:
            raise Unmeasured(
                "unable to calculate ready pods: no pods returned by selector while calculating replica count"
            )
        return sum(pod.status.phase == "Running" and is_ready(pod) for pod in self.pods)


class Use(msgspec.Struct, frozen=True):
    """``ratio`` is use ÷ target; ``average`` is per pod; ``utilization`` is in percent of requests, if that was
    asked."""

    ratio: float
    average: int
    utilization: int = 0


class Count(msgspec.Struct, frozen=True):
    """``replicas`` are asked for at this use."""

    replicas: int
    average: int
    utilization: int = 0


def by_utilization(pods: Pods, samples: Samples, resource: str, container: str, target: int) -> Count:
    """For a share of what the pods request: ``target`` percent. Raises ``Unmeasured``."""
    pods.must_exist()
    counted = _Counted(pods, samples, resource)
    requests = requests_of(pods.pods, resource, container, pod_level_resources=pods.pod_level_resources)
    return counted.count(
        lambda known: _utilization(known, requests, target),
        # Beyond 100 % the target itself is what a pod may use.
        lambda name: quotient(requests[name] * max(100, target), 100),
    )


def by_average(pods: Pods, samples: Samples, target: int, resource: str = "") -> Count:
    """For an average per pod. ``resource`` is empty for metrics that are no resource. Raises ``Unmeasured``."""
    pods.must_exist()
    return _Counted(pods, samples, resource).count(lambda known: _average(known, target), lambda _name: target)


def by_value(pods: Pods, value: int, target: int) -> int:
    """For one value that is to be ``target``, whatever it is that the pods do to it. Raises ``Unmeasured``."""
    ratio = value / target
    if pods.current == 0:
        return _whole(ratio)
    if pods.tolerances.covers(ratio):
        return pods.current
    return _whole(ratio * pods.count_ready())


def by_share(pods: Pods, value: int, target: int) -> Count:
    """For one value of which each pod is to have ``target``."""
    reported = pods.reported
    # Where there are no pods yet nothing is near the target, and nobody has a share of it.
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
    """The samples that count, and the pods that they are missing from."""

    def __init__(self, pods: Pods, samples: Samples, resource: str) -> None:
        self._pods = pods
        self._groups = group_pods(pods.pods, samples, resource, pods.patience, pods.now)
        out = {*self._groups.ignored, *self._groups.unready}
        self._known = {name: sample for name, sample in samples.items() if name not in out}
        if not self._known:
            raise Unmeasured("did not receive metrics for targeted pods (pods might be unready)")

    def count(self, use_of: UseOf, full: Full) -> Count:
        """``use_of`` says what samples come to; ``full`` what a pod uses that uses all it may."""
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
            # What was filled in turned the direction: then nobody knows which one it is.
            or (use.ratio < 1.0 < ratio or ratio < 1.0 < use.ratio)
            # There are more or fewer pods than wanted now, in the middle of a rollout: no reason to go the other way.
            or (ratio < 1.0 and replicas > current)
            or (ratio > 1.0 and replicas < current)
        ):
            replicas = current
        return Count(replicas, use.average, use.utilization)


def _utilization(samples: Samples, requests: Mapping[str, int], target: int) -> Use:
    known = [name for name in samples if name in requests]
    requested = sum(requests[name] for name in known)
    if requested == 0:
        raise Unmeasured("no metrics returned matched known pods")
    used = sum(samples[name].value for name in known)
    percent = quotient(used * 100, requested)
    return Use(percent / target, quotient(used, len(known)), percent)


def _average(samples: Samples, target: int) -> Use:
    average = quotient(sum(sample.value for sample in samples.values()), len(samples))
    return Use(average / target, average)


def _whole(replicas: float) -> int:
    return MAX_INT32 if replicas > MAX_INT32 else math.ceil(replicas)
