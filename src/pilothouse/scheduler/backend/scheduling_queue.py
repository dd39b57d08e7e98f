"""The pods that wait to be scheduled.

A pod is in one of these states:

* *activeQ*: to be scheduled next; higher priority first, then the pod that was added, or last tried, first.
* *in flight*: ``pop`` returned it, and the decision is being carried out.
* *reporting*: no node fits, and this is being written. An event that may help is remembered until
  ``add_unschedulable`` (upstream's in-flight events).
* *unschedulablePods*: no node fits. ``move_all_to_active_or_backoff_queue`` takes it out for an event that may help.
* *backoffQ*: scheduled again when its backoff ends. A pod that an event moved here is popped earlier if no other pod is
  ready (``SchedulerPopFromBackoffQ``, on since v1.33); one whose attempt failed with an error is not.

As kube-scheduler v1.36 ``pkg/scheduler/backend/queue/scheduling_queue.go``. Everything happens on the event loop, in
the order of the calls.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto

from pilothouse.api.core import Pod
from pilothouse.env import Env
from pilothouse.machinery.causes import TIMER, Triggers, current_triggers
from pilothouse.machinery.metrics import Registry
from pilothouse.runtime.dispatch import DISPATCH
from pilothouse.scheduler import metrics
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.metrics import SchedulerMetrics

BACKOFF_SECONDS = (1.0, 10.0)
"""First and longest backoff (``podInitialBackoffSeconds``, ``podMaxBackoffSeconds``)."""
BACKOFF_ORDERING_WINDOW_SECONDS = 1.0
"""Pods whose backoff ends in the same window are ordered as in activeQ (``backoffQOrderingWindowDuration``)."""
POD_MAX_IN_UNSCHEDULABLE_PODS_SECONDS = 300.0
"""After this long a pod is scheduled again without an event."""


class _State(Enum):
    ACTIVE = auto()
    IN_FLIGHT = auto()
    REPORTING = auto()
    UNSCHEDULABLE = auto()
    BACKOFF = auto()


_POPPED = (_State.IN_FLIGHT, _State.REPORTING)


def _window_end(moment: float) -> float:
    """The end of the window: a pod is backing off until then (``isPodBackingoff``)."""
    return (moment // BACKOFF_ORDERING_WINDOW_SECONDS + 1) * BACKOFF_ORDERING_WINDOW_SECONDS


class QueuedPodInfo:
    """A pod in the queue, by key and uid."""

    __slots__ = (
        "added_at", "attempts", "backoff_until", "flushed", "key", "move_requested", "pod_info", "priority", "sequence",
        "state", "taken", "timestamp", "triggers", "uid", "unschedulable_plugins",
    )  # fmt: skip

    def __init__(self, key: str, uid: str, priority: int, added_at: float = 0.0) -> None:
        self.key = key
        self.uid = uid
        self.priority = priority
        self.added_at = added_at
        """By the clock of metrics."""
        self.attempts = 0
        self.flushed = False
        """Whether it became pending again only because of the time that has passed."""
        self.state = _State.ACTIVE
        self.move_requested = False
        """Whether an event arrived while the pod was in flight."""
        self.pod_info: PodInfo | None = None
        self.unschedulable_plugins: frozenset[str] = frozenset()
        """The plugins that rejected it in the last attempt."""
        self.timestamp = 0.0
        """When it was added, or its last attempt ended. Among pods of one priority the earliest is scheduled first."""
        self.backoff_until = 0.0
        self.sequence = 0
        self.triggers: Triggers | None = None
        """The events that have it scheduled next."""
        self.taken: Triggers | None = None
        """Those that have it scheduled now, once it is popped."""

    def note(self) -> None:
        """It is scheduled because of the event that is being delivered, or of the triggers of another pod, or else
        because of the time."""
        triggers = self.triggers
        if triggers is None:
            triggers = self.triggers = Triggers()
        if DISPATCH.type:
            DISPATCH.note(triggers)
        elif (inherited := current_triggers()) is not None:
            triggers.inherit(inherited)
        else:
            triggers.add(TIMER)

    def update(self, pod: Pod) -> PodInfo:
        """The ``PodInfo`` of this version of the pod; kept until there is another version."""
        if self.pod_info is None or self.pod_info.pod is not pod:
            self.pod_info = PodInfo(pod)
        return self.pod_info


_Item = tuple[float, float, float, int, QueuedPodInfo]
"""In a heap: end of the backoff, negative priority, timestamp, sequence number, pod."""


class PriorityQueue:
    """See the module. Create it in the running loop."""

    def __init__(self, env: Env, counts: SchedulerMetrics | None = None) -> None:
        self._env = env
        self._metrics = counts or SchedulerMetrics(Registry(), "")
        self._pods: dict[str, QueuedPodInfo] = {}
        self._unschedulable_pods: dict[str, QueuedPodInfo] = {}
        """The pods in the states reporting and unschedulable, which an event may help."""
        self._cluster_wide: dict[str, QueuedPodInfo] = {}
        """Those of them that an event on any node may help."""
        self._reporting: dict[str, QueuedPodInfo] = {}
        # A pod that changes its state leaves an entry in the heap, which is skipped by its state and sequence number.
        self._active_q: list[_Item] = []
        self._pod_error_backoff_q: list[_Item] = []
        self._pod_backoff_q: list[_Item] = []
        self._sequence = 0
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """The number of pods in all states."""
        return len(self._pods)

    def add(self, key: str, uid: str, priority: int) -> None:
        """Add a pod, or move it to a queue after an update that may make it schedulable."""
        queued_pod = self._pods.get(key)
        if queued_pod is None or queued_pod.uid != uid:
            self._delete_unschedulable(key)
            self._reporting.pop(key, None)
            queued_pod = self._pods[key] = QueuedPodInfo(key, uid, priority, self._metrics.clock())
            queued_pod.timestamp = self._env.monotonic()
            queued_pod.note()
            self._activate(queued_pod, metrics.POD_ADD)
            return
        queued_pod.priority = priority
        queued_pod.note()
        if queued_pod.state in _POPPED:
            queued_pod.move_requested = True
        elif queued_pod.state is _State.UNSCHEDULABLE:
            self._requeue(queued_pod, metrics.POD_UPDATE)

    def delete(self, key: str) -> None:
        """Remove a pod in any state."""
        self._pods.pop(key, None)
        self._delete_unschedulable(key)
        if self._reporting.pop(key, None) is not None:
            self._notify()

    def has_unschedulable_pods(self, *, cluster_wide: bool = False) -> bool:
        """Whether ``move_all_to_active_or_backoff_queue`` could find a pod."""
        return bool(self._cluster_wide if cluster_wide else self._unschedulable_pods)

    def contains(self, key: str, uid: str) -> bool:
        """Whether the queue has this pod, in any state."""
        queued_pod = self._pods.get(key)
        return queued_pod is not None and queued_pod.uid == uid

    def is_in_attempt(self, key: str) -> bool:
        """Whether the pod was popped, and the result of the attempt is not written yet."""
        queued_pod = self._pods.get(key)
        return queued_pod is not None and queued_pod.state in _POPPED

    async def pop(self) -> QueuedPodInfo:
        """Wait for the next pod. Then call ``delete``, ``add_to_error_backoff``, or ``mark_unschedulable`` and
        ``add_unschedulable``."""
        while True:
            queued_pod = self._next_pod()
            if queued_pod is not None:
                queued_pod.state = _State.IN_FLIGHT
                queued_pod.move_requested = False
                queued_pod.attempts += 1
                queued_pod.taken, queued_pod.triggers = queued_pod.triggers, None
                return queued_pod
            self._waiter = asyncio.get_running_loop().create_future()
            timer = None
            backoffs = [heap[0][0] for heap in (self._pod_error_backoff_q, self._pod_backoff_q) if heap]
            if backoffs:
                timer = asyncio.get_running_loop().call_at(min(backoffs), self._notify)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()

    def mark_unschedulable(
        self, queued_pod: QueuedPodInfo, rejected_by: frozenset[str], *, cluster_wide: bool = False
    ) -> None:
        """No node fits the popped pod. From now on events count for it; call ``add_unschedulable`` when this was
        reported. With ``cluster_wide`` pods on any node may help it."""
        if self._pods.get(queued_pod.key) is queued_pod:
            queued_pod.state = _State.REPORTING
            self._reporting[queued_pod.key] = queued_pod
            queued_pod.unschedulable_plugins = rejected_by
            self._unschedulable_pods[queued_pod.key] = queued_pod
            if cluster_wide:
                self._cluster_wide[queued_pod.key] = queued_pod

    def add_unschedulable(self, queued_pod: QueuedPodInfo) -> None:
        """Move the pod that was marked to unschedulablePods."""
        if self._pods.get(queued_pod.key) is not queued_pod:
            return
        self._reporting.pop(queued_pod.key, None)
        queued_pod.state = _State.UNSCHEDULABLE
        queued_pod.timestamp = self._env.monotonic()
        queued_pod.backoff_until = _window_end(queued_pod.timestamp + self._backoff_seconds(queued_pod))
        if queued_pod.move_requested:
            self._requeue(queued_pod, metrics.SCHEDULE_ATTEMPT_FAILURE)
        else:
            self._metrics.added_to("unschedulable", metrics.SCHEDULE_ATTEMPT_FAILURE).inc()

    def add_to_error_backoff(self, queued_pod: QueuedPodInfo) -> None:
        """The attempt failed with an error: schedule the pod again after its backoff."""
        if self._pods.get(queued_pod.key) is queued_pod:
            self._delete_unschedulable(queued_pod.key)
            self._reporting.pop(queued_pod.key, None)
            if queued_pod.triggers is None and queued_pod.taken is not None:
                queued_pod.triggers = queued_pod.taken.retried()
            queued_pod.state = _State.BACKOFF
            queued_pod.timestamp = self._env.monotonic()
            self._push(self._pod_error_backoff_q, queued_pod.timestamp + self._backoff_seconds(queued_pod), queued_pod)
            self._metrics.added_to("backoff", metrics.SCHEDULE_ATTEMPT_FAILURE).inc()
            self._notify()

    def move_all_to_active_or_backoff_queue(
        self, hint: Callable[[QueuedPodInfo], bool], *, event: str = "", cluster_wide: bool = False
    ) -> None:
        """After an event, move every unschedulable pod for which ``hint`` is true; with ``cluster_wide`` only those
        that pods on any node may help. ``event`` is the label of metrics."""
        for queued_pod in list((self._cluster_wide if cluster_wide else self._unschedulable_pods).values()):
            if queued_pod.state is _State.UNSCHEDULABLE:
                if hint(queued_pod):
                    queued_pod.note()
                    self._requeue(queued_pod, event)
            elif not queued_pod.move_requested and hint(queued_pod):
                queued_pod.note()
                queued_pod.move_requested = True

    def request_move(self, queued_pod: QueuedPodInfo) -> None:
        """There may have been an event that helps the popped pod: if it is unschedulable it is not left waiting."""
        if queued_pod.state is _State.REPORTING and not queued_pod.move_requested:
            queued_pod.note()
            queued_pod.move_requested = True

    def flush_unschedulable_pods_leftover(self) -> None:
        """Schedule pods again that no event has moved for ``POD_MAX_IN_UNSCHEDULABLE_PODS_SECONDS``."""
        limit = self._env.monotonic() - POD_MAX_IN_UNSCHEDULABLE_PODS_SECONDS
        for queued_pod in list(self._unschedulable_pods.values()):
            if queued_pod.state is _State.UNSCHEDULABLE and queued_pod.timestamp <= limit:
                queued_pod.note()
                queued_pod.flushed = True
                self._requeue(queued_pod, metrics.UNSCHEDULABLE_TIMEOUT)

    def pending(self) -> dict[str, int]:
        """How many pods wait, by the queue that they are in."""
        states = Counter(queued_pod.state for queued_pod in self._pods.values())
        return {
            "active": states[_State.ACTIVE],
            "backoff": states[_State.BACKOFF],
            "unschedulable": states[_State.UNSCHEDULABLE] + states[_State.REPORTING],
        }

    def unschedulable_by_plugin(self) -> dict[str, int]:
        """How many pods wait for an event, by the plugins that have rejected them."""
        return Counter(
            plugin for queued_pod in self._unschedulable_pods.values() for plugin in queued_pod.unschedulable_plugins
        )

    def _delete_unschedulable(self, key: str) -> None:
        self._unschedulable_pods.pop(key, None)
        self._cluster_wide.pop(key, None)

    def _requeue(self, queued_pod: QueuedPodInfo, event: str) -> None:
        self._delete_unschedulable(queued_pod.key)
        if event != metrics.UNSCHEDULABLE_TIMEOUT:
            queued_pod.flushed = False
        if queued_pod.backoff_until <= self._env.monotonic():
            self._activate(queued_pod, event)
        else:
            queued_pod.state = _State.BACKOFF
            self._push(self._pod_backoff_q, queued_pod.backoff_until, queued_pod)
            self._metrics.added_to("backoff", event).inc()
            self._notify()

    def _activate(self, queued_pod: QueuedPodInfo, event: str) -> None:
        self._metrics.added_to("active", event).inc()
        queued_pod.state = _State.ACTIVE
        self._push(self._active_q, 0.0, queued_pod)
        self._notify()

    def _push(self, heap: list[_Item], backoff_end: float, queued_pod: QueuedPodInfo) -> None:
        self._sequence += 1
        queued_pod.sequence = self._sequence
        order = backoff_end, -queued_pod.priority, queued_pod.timestamp
        heapq.heappush(heap, (*order, self._sequence, queued_pod))

    def _next_pod(self) -> QueuedPodInfo | None:
        now = self._env.monotonic()
        for heap in (self._pod_error_backoff_q, self._pod_backoff_q):
            while heap and (heap[0][0] <= now or self._is_stale(heap[0])):
                item = heapq.heappop(heap)
                if not self._is_stale(item):
                    self._activate(item[-1], metrics.BACKOFF_COMPLETE)
        for heap in (self._active_q, self._pod_backoff_q):
            while heap:
                if heap is self._pod_backoff_q and self._is_overtaken(heap[0][-1]):
                    return None
                item = heapq.heappop(heap)
                if not self._is_stale(item):
                    if heap is self._pod_backoff_q:
                        self._metrics.added_to("active", metrics.POP_FROM_BACKOFF_Q).inc()
                    return item[-1]
        return None

    def _is_overtaken(self, queued_pod: QueuedPodInfo) -> bool:
        """Whether a pod of higher priority will be scheduled before its backoff ends, once its report is written."""
        return any(other.move_requested and other.priority > queued_pod.priority for other in self._reporting.values())

    def _is_stale(self, item: _Item) -> bool:
        *_order, sequence, queued_pod = item
        return (
            queued_pod.sequence != sequence
            or queued_pod.state in _POPPED
            or self._pods.get(queued_pod.key) is not queued_pod
        )

    def _backoff_seconds(self, queued_pod: QueuedPodInfo) -> float:
        """1 s after the first attempt, 2 s after the second, then 4, 8 and 10 s."""
        first, longest = BACKOFF_SECONDS
        return float(min(first * 2.0 ** min(queued_pod.attempts - 1, 30), longest))

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
