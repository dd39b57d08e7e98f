"""Groups the pods of a workload for a metric, and calculates their requests. Pure.

Upstream: ``groupPods`` and ``calculateRequests`` of v1.36 ``pkg/controller/podautoscaler/replica_calculator.go``.
"""

import datetime
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.api.core import Container, Pod
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import MetricUnavailable, Sample, Samples
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.semantics.pods import effective_requests, ready_condition

CPU = "cpu"


class ReadinessDelays(msgspec.Struct, frozen=True, kw_only=True):
    """How long cpu samples of a new pod may be skipped, and how long its readiness counts as initial. In seconds."""

    cpu_initialization_period: float
    initial_readiness_delay: float


class Groups(msgspec.Struct, frozen=True):
    """The pods of a workload by state; names in the order of the pods."""

    ready: int
    unready: tuple[str, ...]
    """Starting: their samples do not count."""
    missing: tuple[str, ...]
    """Running, but without a sample."""
    ignored: tuple[str, ...]
    """Terminating or failed."""


def group_pods(
    pods: Iterable[Pod], samples: Samples, resource: str, delays: ReadinessDelays, now: datetime.datetime
) -> Groups:
    """Group the pods. ``resource`` is empty for metrics other than resource metrics."""
    ready = 0
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    for pod in pods:
        name = pod.metadata.name
        sample = samples.get(name)
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            ignored.append(name)
        elif pod.status.phase == "Pending":
            unready.append(name)
        elif sample is None:
            missing.append(name)
        elif resource == CPU and _is_starting(pod, sample, delays, now):
            unready.append(name)
        else:
            ready += 1
    return Groups(ready, tuple(unready), tuple(missing), tuple(ignored))


def _is_starting(pod: Pod, sample: Sample, delays: ReadinessDelays, now: datetime.datetime) -> bool:
    """Whether the sample may include the pod's start, when many programs use more cpu than later."""
    condition, started = ready_condition(pod), pod.status.start_time
    if condition is None or started is None:
        return True
    since = condition.last_transition_time or _NEVER
    # abs: a start far in the future means that the clock was set back
    if abs((now - started).total_seconds()) < delays.cpu_initialization_period:
        # A sample counts if its whole window is after the time at which the pod became ready.
        return condition.status == "False" or (sample.at or _NEVER) < since + datetime.timedelta(seconds=sample.window)
    # After that period only a pod that has never been ready is starting.
    return condition.status == "False" and (since - started).total_seconds() < delays.initial_readiness_delay


_NEVER = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)


def calculate_requests(
    pods: Iterable[Pod], resource: str, container: str = "", *, pod_level_resources: bool = True
) -> Mapping[str, int]:
    """What each pod requests of the resource, in milli-units; with ``container``, of that container only.

    Raises ``MetricUnavailable`` for the first pod, in any state, that has no request. Requests of the pod precede
    those of its containers, unless the gate ``PodLevelResources`` is off.
    """
    return {
        pod.metadata.name: _request_of(pod, resource, container, pod_level_resources=pod_level_resources)
        for pod in pods
    }


def _request_of(pod: Pod, resource: str, desired: str, *, pod_level_resources: bool) -> int:
    if pod_level_resources and not desired and _has_pod_level_requests(pod):
        requests = effective_requests(pod)
        if resource not in requests:
            raise MetricUnavailable(f"missing pod-level request for {resource} in Pod {pod.metadata.name}")
        return requests[resource] if resource == CPU else requests[resource] * 1000
    total = 0
    for container in _running_containers(pod):
        if desired and container.name != desired:
            continue
        text = container.resources.requests.get(resource)
        if text is None:
            raise MetricUnavailable(
                f"missing request for {resource} in container {container.name} of Pod {pod.metadata.name}"
            )
        total += parse_quantity(text).milli_value
        if desired:
            return total
    if desired:
        raise MetricUnavailable(f"container {desired} not found in Pod {pod.metadata.name}")
    return total


def _running_containers(pod: Pod) -> tuple[Container, ...]:
    """The containers that run as long as the pod does."""
    sidecars = tuple(container for container in pod.spec.init_containers if container.restart_policy == "Always")
    return (*pod.spec.containers, *sidecars)


def _has_pod_level_requests(pod: Pod) -> bool:
    return any(name in (CPU, "memory") or name.startswith("hugepages-") for name in sorted(pod.spec.resources.requests))
