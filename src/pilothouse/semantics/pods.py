"""Whether a pod is active, ready, available, and its deletion cost.

Workload controllers, the scheduler and the simulated nodes import these predicates by name. Sources: kubernetes
v1.36, ``pkg/api/v1/pod/util.go``, ``pkg/controller/controller_utils.go``,
``component-helpers/resource/helpers.go``.
"""

import datetime
import re
from collections.abc import Iterable, Mapping

from pilothouse.api.core import Container, Pod, PodCondition
from pilothouse.machinery.quantities import parse_quantity

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - a value in pod specs, no address to listen on
NOTHING_ASSUMED: Mapping[str, int] = {}
_integer = re.compile("0|-[0-9]+|[1-9][0-9]*", re.ASCII)


def is_terminal(pod: Pod) -> bool:
    """Whether it is finished: Succeeded or Failed."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether it counts as a replica: neither finished nor being deleted."""
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    """Whether it is being deleted and not finished."""
    return pod.metadata.deletion_timestamp is not None and not is_terminal(pod)


def ready_condition(pod: Pod) -> PodCondition | None:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition
    return None


def is_ready(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def is_available(pod: Pod, min_ready_seconds: int, now: datetime.datetime) -> bool:
    """Whether it has been ready for at least ``min_ready_seconds``; for 0 being ready is enough."""
    return time_until_available(pod, min_ready_seconds, now) == 0


def time_until_available(pod: Pod, min_ready_seconds: int, now: datetime.datetime) -> float | None:
    """Seconds until it is available if it stays ready; 0 if it is, ``None`` if it is not ready.

    ``None`` also if its transition to ready has no time and ``min_ready_seconds`` is set: then only a new transition
    makes the pod available.
    """
    condition = ready_condition(pod)
    if condition is None or condition.status != "True":
        return None
    if min_ready_seconds == 0:
        return 0
    since = condition.last_transition_time
    if since is None:
        return None
    left = (since - now).total_seconds() + min_ready_seconds
    return left if left > 0 else 0


def seconds_until_next_available(
    pods: Iterable[Pod], min_ready_seconds: int, counted_at: datetime.datetime, now: datetime.datetime
) -> float:
    """Seconds from ``now`` until the first of those that were not available at ``counted_at`` is.

    ``min_ready_seconds`` if that is unknown for all of them.
    """
    waits = [time_until_available(pod, min_ready_seconds, counted_at) for pod in pods]
    earliest = min((wait for wait in waits if wait), default=None)
    if earliest is None:
        return float(min_ready_seconds)
    return max(0.0, earliest - max(0.0, (now - counted_at).total_seconds()))


def deletion_cost(annotations: Mapping[str, str]) -> int:
    """The value of the annotation, an int32; lower values are deleted first. Missing and invalid ones count as 0.

    Upstream reads neither ``+10`` nor ``008`` (``pkg/controller/controller_utils.go``, ``validFirstDigit``).
    """
    text = annotations.get(DELETION_COST)
    if text is None or not _integer.fullmatch(text) or len(text) > 64:
        return 0
    cost = int(text)
    return cost if -(1 << 31) <= cost < 1 << 31 else 0


def max_restart_counts(pod: Pod) -> tuple[int, int]:
    """The highest restart count of regular containers, and of sidecars (init containers that restart)."""
    statuses = pod.status.container_statuses
    regular = max([status.restart_count for status in statuses]) if statuses else 0
    if not pod.status.init_container_statuses:
        return regular, 0
    sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    return regular, max(
        (status.restart_count for status in pod.status.init_container_statuses if status.name in sidecars), default=0
    )


def effective_requests(
    pod: Pod, missing: Mapping[str, int] = NOTHING_ASSUMED, *, pod_level: bool = True, status: bool = False
) -> dict[str, int]:
    """The pod's requests: ``cpu`` in milli-units, others in whole units.

    Containers run together with the sidecars; a plain init container runs only with the sidecars started before it, so
    the result is the larger of the two, plus the overhead of the runtime. Pod-level requests of cpu, memory and huge
    pages replace the sum of the containers, unless ``pod_level`` is false. A container without a request of a resource
    in ``missing`` counts with that value (upstream's ``NonMissingContainerRequests``). With ``status`` a pod that is
    being resized counts with the maximum of what it requests, what is allocated, and what it has
    (``UseStatusResources``).
    """
    spec = pod.spec
    total: dict[str, int] = {}
    in_effect = _InEffect(pod) if status else None
    for container in spec.containers:
        _add(total, in_effect.requests(container) if in_effect else container.resources.requests, missing)
    if spec.init_containers:
        sidecars: dict[str, int] = {}
        peak: dict[str, int] = {}
        for container in spec.init_containers:
            if container.restart_policy == "Always":
                requests = in_effect.requests(container) if in_effect else container.resources.requests
                _add(total, requests, missing)
                _add(sidecars, requests, missing)
                need = sidecars
            else:
                need = dict(sidecars)
                _add(need, container.resources.requests, missing)
            _raise(peak, need)
        _raise(total, peak)
    if pod_level:
        for name, text in (in_effect.pod_level_requests() if in_effect else spec.resources.requests).items():
            if is_pod_level(name):
                total[name] = _amount(name, text)
    if spec.overhead:
        _add(total, spec.overhead, NOTHING_ASSUMED)
    return total


class _InEffect:
    """What a running pod counts with (``determineEffectiveRequests`` of component-helpers ``resource/helpers.go``)."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
        self._statuses = {one.name: one for one in statuses if one.resources is not None}
        self._infeasible = is_resize_infeasible(pod)

    def requests(self, container: Container) -> Mapping[str, str]:
        status = self._statuses.get(container.name)
        if status is None or status.resources is None:
            return container.resources.requests
        return self._highest(container.resources.requests, status.resources.requests, status.allocated_resources)

    def pod_level_requests(self) -> Mapping[str, str]:
        requests, status = self._pod.spec.resources.requests, self._pod.status
        if status.resources is None or not requests:
            return requests
        highest = self._highest(requests, status.resources.requests, status.allocated_resources)
        return {name: highest.get(name, "0") for name in requests}

    def _highest(self, requested: Mapping[str, str], *granted: Mapping[str, str]) -> Mapping[str, str]:
        # A resize that will never be granted does not count.
        highest: dict[str, str] = {} if self._infeasible else dict(requested)
        for amounts in granted:
            for name, text in amounts.items():
                other = highest.get(name)
                if other is None or (text != other and parse_quantity(text) > parse_quantity(other)):
                    highest[name] = text
        return highest


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet has rejected the resize of the pod for good."""
    return any((one.type, one.reason) == ("PodResizePending", "Infeasible") for one in pod.status.conditions)


def granted_requests(pod: Pod) -> tuple[object, ...]:
    """Everything in the status on which ``effective_requests`` depends with ``status``, to compare two versions."""
    status = pod.status
    containers = tuple(
        (one.name, one.resources, one.allocated_resources)
        for one in (*status.container_statuses, *status.init_container_statuses)
        if one.resources is not None
    )
    return containers, status.resources, status.allocated_resources, is_resize_infeasible(pod)


def is_pod_level(name: str) -> bool:
    """Whether a pod may request the resource at pod level."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def host_ports(pod: Pod) -> tuple[tuple[str, str, int], ...]:
    """(address, protocol, port) of every port that it takes on its node, without doubles.

    Sidecars count, other init containers do not: they have ended before anybody connects. No address means all.
    """
    spec = pod.spec
    sidecars = tuple(c for c in spec.init_containers if c.restart_policy == "Always") if spec.init_containers else ()
    used_ports: dict[tuple[str, str, int], None] = {}
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                used_ports[port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port] = None
    return tuple(used_ports)


def _amount(name: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value if name == "cpu" else quantity.value


def _add(total: dict[str, int], more: Mapping[str, str], missing: Mapping[str, int]) -> None:
    for name, text in more.items():
        total[name] = total.get(name, 0) + _amount(name, text)
    for name, amount in missing.items():
        if name not in more:
            total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, -1):
            total[name] = amount
