"""The time of the change that caused endpoints to be written, an annotation for measuring network programming latency.

Upstream: v1.36 ``staging/src/k8s.io/endpointslice/util/trigger_time_tracker.go``.
"""

import datetime
from collections.abc import Iterable

from pilothouse.api.core import Pod, Service
from pilothouse.machinery.times import format_time
from pilothouse.semantics.pods import ready_condition


class _Seen:
    __slots__ = ("made", "pods")

    def __init__(self, pods: dict[str, datetime.datetime], made: datetime.datetime | None) -> None:
        self.pods = pods
        self.made = made


class TriggerTimeTracker:
    """For each Service, the times of changes that its last sync observed."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def of(self, key: str, service: Service, pods: Iterable[Pod]) -> str:
        """The time of the earliest change since the last sync; for the first sync the creation of the Service. Empty if
        no change has a time (``ComputeEndpointLastChangeTriggerTime``)."""
        made = service.metadata.creation_timestamp
        times: dict[str, datetime.datetime] = {}
        for pod in pods:
            condition = ready_condition(pod)
            if condition is not None and condition.last_transition_time is not None:
                times[pod.metadata.name] = condition.last_transition_time
        before = self._seen.get(key)
        self._seen[key] = _Seen(times, made)
        if before is None:
            return format_time(made) if made is not None else ""
        moved = [at for name, at in times.items() if name not in before.pods or at > before.pods[name]]
        if made is not None and (before.made is None or made > before.made):
            moved.append(made)
        return format_time(min(moved)) if moved else ""

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)
