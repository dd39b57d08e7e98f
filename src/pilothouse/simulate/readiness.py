"""``TimesToReady``: the time from a pod's creation until it is ready for the first time, and the causes.

The only measurement behind ``timeToReady`` budgets, the output of the command, its JSON and the reports: each of them
receives the same ``Wait`` of each pod.

The wait of a pod that is created in the run ends when one of these happens:

* It is ready and not marked for deletion. Endpoints exclude terminating pods, whatever their condition: the kubelet of
  a node that was unreachable may report a pod as ready long after its eviction.
* It is marked for deletion, fails, or is removed, without having been ready. The time until then counts: otherwise the
  measure would exclude exactly the pods that were stuck.
* It succeeds without an observed ready condition, as a short Job does while its node is silent: it has no time to
  ready.
* The run ends: the age of the pod counts.
"""

import math
from array import array
from collections.abc import Callable, Iterator, Sequence

from pilothouse.sim import Simulation
from pilothouse.simulate.pod_views import PODS, PodView, bounded, decode_pod, is_ready, is_ready_node
from pilothouse.simulate.pod_wait import PodWait
from pilothouse.simulate.scenario.scalars import shown_seconds
from pilothouse.storage import Change

_SHORT = 0.5
"""Shorter stages of a wait are not shown, except for the last one."""


class Wait:
    """The wait of one pod until it is ready; it may not be finished."""

    def __init__(self, key: str, created: float) -> None:
        self.key = key
        """Storage key: ``/pods/NAMESPACE/NAME``."""
        self.seconds = 0.0
        self.outcome = ""
        """``ready``, or how it ended: ``marked for deletion``, ``failed``, ``removed``, ``the end`` of the run."""
        self._created = created
        self._scheduled: float | None = None
        self._started: float | None = None
        self._pod = PodView()

    @property
    def was_ready(self) -> bool:
        """Whether the pod became ready."""
        return self.outcome == "ready"

    def observe(self, pod: PodView, at: float) -> None:
        """Process a write of the pod."""
        self._pod = pod
        if self._scheduled is None and pod.spec.node_name:
            self._scheduled = at
        if self._started is None and pod.status.phase not in (None, "", "Pending"):
            self._started = at

    def end(self, outcome: str, at: float) -> None:
        """Finish the wait."""
        self.outcome = outcome
        self.seconds = round(at - self._created, 3)

    def described(self, node_is_ready: Callable[[str], bool]) -> PodWait:
        """For users: the node of the pod, and the stages of its wait."""
        node = self._pod.spec.node_name or ""
        ended = self._created + self.seconds
        scheduled = ended if self._scheduled is None else self._scheduled
        started = ended if self._started is None else max(self._started, scheduled)
        stages = [("a node", scheduled - self._created)]
        if self._scheduled is not None:
            stages.append(("its containers to start", started - scheduled))
        if self._started is not None:
            stages.append(("its containers to be ready", ended - started))
        if self.was_ready:  # only the stages that took most of the time
            stages_shown = [stage for stage in stages if stage[1] >= _SHORT] or stages[-1:]
        else:
            stages_shown = [*(stage for stage in stages[:-1] if stage[1] >= _SHORT), stages[-1]]
        waited_for = ", ".join(
            f"{shown_seconds(round(seconds, 2))} for {stage_name}" for stage_name, seconds in stages_shown
        )
        details = [] if self.was_ready else [self._reason()]
        if node and not self.was_ready and not node_is_ready(node):
            details.append("the node was not ready")
        if any(details):
            waited_for += f" ({'; '.join(filter(None, details))})"
        pod = self.key.removeprefix(PODS)
        return PodWait(pod=pod, node=node, seconds=self.seconds, outcome=self.outcome, waited_for=waited_for)

    def _reason(self) -> str:
        """The reason in the pod's status."""
        status = self._pod.status
        named = "PodScheduled" if not self._pod.spec.node_name else "ContainersReady"
        reasons = [
            container.state.waiting.reason or ""
            for container in status.container_statuses or ()
            if container.state.waiting
        ]
        messages = [condition.message or "" for condition in status.conditions or () if condition.type == named]
        return bounded(next(filter(None, [*reasons, *messages]), ""))


class TimesToReady:
    """Measures the pods that are created from now on. ``on_end`` is called with each finished wait."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._waiting: dict[str, Wait] = {}
        self.on_end: list[Callable[[Wait], None]] = []

    def committed(self, change: Change) -> None:
        """Process a write of a pod."""
        key, at = change.key, self._simulation.env.monotonic()
        if change.type == "ADDED":
            self._waiting[key] = Wait(key, at)
        wait = self._waiting.get(key)
        if wait is None:
            return
        pod = decode_pod(change.value)
        wait.observe(pod, at)
        outcome = _outcome(pod, removed=change.type == "DELETED")
        if outcome:
            del self._waiting[key]
            if outcome != "succeeded":
                wait.end(outcome, at)
                for observe in self.on_end:
                    observe(wait)

    def waiting(self) -> Iterator[Wait]:
        """The pods that are not ready yet, with their age, in the order of creation."""
        now = self._simulation.env.monotonic()
        for wait in self._waiting.values():
            wait.end("the end", now)
            yield wait

    def node_is_ready(self, name: str) -> bool:
        """Whether the node's Ready condition is true now."""
        return is_ready_node(self._simulation, name)


def _outcome(pod: PodView, *, removed: bool) -> str:
    """How the wait ended; empty if it has not ended."""
    phase = pod.status.phase
    if phase == "Succeeded":
        return "succeeded"
    if phase == "Failed":
        return "failed"
    if pod.metadata.deletion_timestamp:
        return "marked for deletion"
    if removed:
        return "removed"
    return "ready" if is_ready(pod.status.conditions) else ""


class Waits:
    """Finished waits: all durations, eight bytes each, and the slowest ones with details."""

    def __init__(self, most_named: int = 0) -> None:
        self._most_named = most_named
        self._seconds = array("d")
        self._slowest: list[PodWait] = []

    def add(self, wait: Wait, node_is_ready: Callable[[str], bool]) -> None:
        """Add a finished wait."""
        self._seconds.append(wait.seconds)
        if self._most_named:
            if len(self._slowest) >= self._most_named and wait.seconds <= self._slowest[-1].seconds:
                return
            self._slowest.append(wait.described(node_is_ready))
            self._slowest.sort(key=lambda wait: -wait.seconds)
            del self._slowest[self._most_named :]

    def copy(self) -> "Waits":
        """A copy, to which unfinished waits are added."""
        copied = Waits(self._most_named)
        copied._seconds = self._seconds[:]
        copied._slowest = self._slowest[:]
        return copied

    @property
    def slowest(self) -> tuple[PodWait, ...]:
        """The slowest waits, slowest first."""
        return tuple(self._slowest)

    def sorted_seconds(self) -> list[float]:
        """All durations, shortest first."""
        return sorted(self._seconds)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of sorted values; 0 if there are none."""
    if not ordered:
        return 0.0
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3)
