"""The pods of a workload that are not ready, for the failure of a ``maxUnavailable`` budget.

``UnavailablePods`` observes the pods of one workload; ``budgets`` asks it for a ``Moment`` when a budget is exceeded.
"""

import itertools
from collections import deque
from collections.abc import Iterator

import msgspec

from pilothouse.sim import Origin, Simulation
from pilothouse.simulate.pod_views import PODS, Condition, PodView, bounded, decode_pod, is_ready_node, node_of
from pilothouse.simulate.scenario.scalars import shown_seconds

_NAMED = 5
"""Maximum number of named pods of one moment."""
_ZONE = "topology.kubernetes.io/zone"


class UnavailablePod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that is not ready, and why."""

    pod: str
    """``NAMESPACE/NAME``."""
    node: str
    """Empty if it is not scheduled."""
    zone: str
    """The zone of the node's label; empty if it has none, or no longer exists."""
    reason: str

    def __str__(self) -> str:
        zone = f" (zone {self.zone})" if self.zone else ""
        return f"{self.pod}{f' on {self.node}{zone}' if self.node else ''}: {self.reason}"


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A moment at which a budget is exceeded."""

    at: float
    """Seconds since the start of the timeline."""
    unavailable: int
    pods: tuple[UnavailablePod, ...]
    """The first pods that are not ready: those that were ready before come first, then those that have not been ready
    yet, such as their replacements, then those that do not exist any more."""
    more: int
    """The number of further ones."""

    def lines(self) -> Iterator[str]:
        """For users."""
        yield f"{self.unavailable} unavailable at {shown_seconds(self.at)}; pods that were not ready:"
        yield from (f"  {pod}" for pod in self.pods)
        if self.more:
            yield f"  and {self.more} more"


class _Write(msgspec.Struct, frozen=True):
    at: float
    origin: Origin | None


class _Unready(msgspec.Struct):
    """A pod that is not ready."""

    since: _Write
    """The write that made it so, or created it."""
    deletion: _Write | None = None
    """The first one since which it is marked for deletion, or removed."""


class UnavailablePods:
    """The pods of one workload that are not ready, in the order in which they became so."""

    def __init__(self) -> None:
        self._lost: dict[str, _Unready] = {}
        self._not_ready_yet: dict[str, _Unready] = {}
        self._removed: deque[tuple[str, str, _Write]] = deque(maxlen=_NAMED)
        """Lost pods that do not exist any more: key, node and deletion. They are forgotten when no pod is missing."""

    def ready(self, key: str) -> None:
        """The pod is ready."""
        self._lost.pop(key, None)
        self._not_ready_yet.pop(key, None)

    def not_ready(self, key: str, at: float, origin: Origin | None, *, was_ready: bool, is_deleted: bool) -> None:
        """The pod is not ready. ``was_ready``: it was until this write; ``is_deleted``: it is marked for deletion, or
        removed."""
        write = _Write(at, origin)
        unready = None if was_ready else self._lost.get(key)
        if unready is None:
            unready = (self._lost if was_ready else self._not_ready_yet).setdefault(key, _Unready(write))
        if is_deleted and unready.deletion is None:
            unready.deletion = write

    def removed(self, key: str, value: bytes) -> None:
        """The pod, whose last state is ``value``, does not exist any more. After ``not_ready``."""
        self._not_ready_yet.pop(key, None)
        lost = self._lost.pop(key, None)
        if lost is not None and lost.deletion is not None:
            self._removed.append((key, decode_pod(value).spec.node_name or "", lost.deletion))

    def complete(self) -> None:
        """No pod is missing now."""
        self._removed.clear()

    def moment(self, simulation: Simulation, began: float, unavailable: int) -> Moment:
        """The pods that are not ready now. ``began``: the start of the timeline."""
        existing = itertools.chain(self._lost.items(), self._not_ready_yet.items())
        pods = []
        for key, unready in itertools.islice(existing, _NAMED):
            record = simulation.store.get(key)
            pod = decode_pod(record.value) if record is not None else PodView()
            was_ready = key in self._lost
            reason = _reason(simulation, pod, unready, began, was_ready=was_ready)
            if not was_ready and unready.since.origin is not None:
                reason += f" (created{_when_and_by(unready.since, began)})"
            pods.append(_pod(simulation, key, pod.spec.node_name or "", reason))
        count = len(self._lost) + len(self._not_ready_yet)
        gone = list(self._removed)[-max(0, unavailable - count) :] if unavailable > count else []
        for key, node, deletion in gone[: _NAMED - len(pods)]:
            reason = f"it was deleted{_when_and_by(deletion, began)}, and has no replacement yet"
            pods.append(_pod(simulation, key, node, reason))
        return Moment(
            at=round(simulation.env.monotonic() - began, 3),
            unavailable=unavailable,
            pods=tuple(pods),
            more=max(count, unavailable) - len(pods),
        )


def _pod(simulation: Simulation, key: str, node: str, reason: str) -> UnavailablePod:
    found = node_of(simulation, node) if node else None
    zone = "" if found is None else (found.metadata.labels or {}).get(_ZONE, "")
    return UnavailablePod(pod=key.removeprefix(PODS), node=node, zone=zone, reason=reason)


def _reason(simulation: Simulation, pod: PodView, unready: _Unready, began: float, *, was_ready: bool) -> str:
    node = pod.spec.node_name
    conditions = {condition.type: condition for condition in pod.status.conditions or ()}
    if (deletion := unready.deletion) is not None:
        is_eviction = deletion.origin is not None and deletion.origin.call.subresource == "eviction"
        return f"{'evicted' if is_eviction else 'marked for deletion'}{_when_and_by(deletion, began)}"
    if pod.status.phase == "Failed":
        texts = filter(None, (pod.status.reason, pod.status.message))
        return bounded(": ".join(("failed", *texts)))
    if not node:
        message = conditions.get("PodScheduled", Condition()).message
        return bounded(f"it waits for a node{f': {message}' if message else ''}")
    if not is_ready_node(simulation, node):
        marked = f"; the pod was marked so{_when_and_by(unready.since, began)}" if was_ready else ""
        return f"its node is not ready{marked}"
    for container in pod.status.container_statuses or ():
        state = container.state
        if state.waiting is not None and state.waiting.reason:
            return bounded(f"its container {container.name} waits: {state.waiting.reason}")
        if state.terminated is not None:
            reason = f"{state.terminated.reason or 'terminated'}, exit code {state.terminated.exit_code}"
            return bounded(f"its container {container.name} has ended: {reason}")
    message = conditions.get("Ready", Condition()).message
    return bounded(message or "its containers have not started")


def _when_and_by(write: _Write, began: float) -> str:
    """When, and by whom."""
    at = f" at {shown_seconds(round(write.at - began, 3))}" if write.at >= began else ""
    origin = write.origin
    return at if origin is None else f"{at} by {origin.controller or origin.program.partition('#')[0]}"
