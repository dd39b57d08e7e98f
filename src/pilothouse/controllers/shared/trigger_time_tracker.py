"""The time of the change that caused endpoints to be written, an annotation for measuring network programming latency.

Upstream: v1.36 ``staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go``.
"""

import datetime
from collections.abc import Iterable

from pilothouse.api.core import Pod, Service
from pilothouse.machinery.times import format_time
from pilothouse.semantics.pods import ready_condition


class _Seen:
    __slots__ = ("pods", "service_time")

    def __init__(self, pods: dict[str, datetime.datetime], service_time: datetime.datetime | None) -> None:
        self.pods = pods
        self.service_time = service_time


class TriggerTimeTracker:
    """For each Service, the times of changes that its last sync observed."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def of(self, key: str, service: Service, pods: Iterable[Pod]) -> str:
        """The time of the earliest change since the last sync; for the first sync the creation of the Service. Empty if
        no change has a time (``ComputeEndpointLastChangeTriggerTime``)."""
        service_time = service.metadata.creation_timestamp
        times: dict[str, datetime.datetime] = {}
        for pod in pods:
            condition = ready_condition(pod)
            if condition is not None and condition.last_transition_time is not None:
                times[pod.metadata.name] = condition.last_transition_time
        old = self._seen.get(key)
        self._seen[key] = _Seen(times, service_time)
        if old is None:
            return format_time(service_time) if service_time is not None else ""
        moved = [at for name, at in times.items() if name not in old.pods or at > old.pods[name]]
        if service_time is not None and (old.service_time is None or service_time > old.service_time):
            moved.append(service_time)
        return format_time(min(moved)) if moved else ""

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)
