"""The time of the change that endpoints are written for: an annotation to measure the latency of programming.

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


class TriggerTimes:
    """For each service, the times that its last sync saw."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def of(self, key: str, service: Service, pods: Iterable[Pod]) -> str:
        """The earliest change since the last sync, at the first sync the creation of the service; empty if there is no
        change with a time."""
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
