"""The pods of a workload that are not ready, for the failure of a ``maxUnavailable`` budget.

``UnavailablePods`` observes the pods of one workload; ``budgets`` asks it for a ``Moment`` when a budget is exceeded.
"""

import itertools
from collections import deque
from collections.abc import Iterator

import msgspec

from pilothouse.sim import Origin, Simulation
from pilothouse.simulate.scenario.scalars import shown_seconds

_PODS = "/pods/"
_NAMED = 5
"""Maximum number of named pods of one moment."""
_LONGEST_DETAIL = 160
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


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str | None = None


class _Waiting(msgspec.Struct, frozen=True):
    reason: str | None = None
    message: str | None = None


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    reason: str | None = None
    exit_code: int = 0


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, frozen=True):
    name: str = ""
    state: _State = _State()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_Container, ...] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode = msgspec.json.Decoder(_Object).decode


class _Unready(msgspec.Struct, frozen=True):
    """The write since which a pod is not ready."""

    at: float
    origin: Origin | None


class UnavailablePods:
    """The pods of one workload that are not ready, in the order in which they became so."""

    def __init__(self) -> None:
        self._lost: dict[str, _Unready] = {}
        self._not_ready_yet: dict[str, _Unready] = {}
        self._removed: deque[tuple[str, str, _Unready]] = deque(maxlen=_NAMED)
        """Lost pods that do not exist any more: key and node. They are forgotten when no pod is missing."""

    def ready(self, key: str) -> None:
        """The pod is ready."""
        self._lost.pop(key, None)
        self._not_ready_yet.pop(key, None)

    def not_ready(self, key: str, at: float, origin: Origin | None, *, was_ready: bool) -> None:
        """The pod is not ready. ``was_ready``: it was until this write."""
        if was_ready:
            self._lost[key] = _Unready(at, origin)
        elif key not in self._lost:
            self._not_ready_yet.setdefault(key, _Unready(at, origin))

    def removed(self, key: str, value: bytes) -> None:
        """The pod, whose last state is ``value``, does not exist any more."""
        self._not_ready_yet.pop(key, None)
        if (lost := self._lost.pop(key, None)) is not None:
            self._removed.append((key, _decode(value).spec.node_name or "", lost))

    def complete(self) -> None:
        """No pod is missing now."""
        self._removed.clear()

    def moment(self, simulation: Simulation, began: float, unavailable: int) -> Moment:
        """The pods that are not ready now. ``began``: the start of the timeline."""
        existing = itertools.chain(self._lost.items(), self._not_ready_yet.items())
        pods = []
        for key, unready in itertools.islice(existing, _NAMED):
            record = simulation.store.get(key)
            pod = _decode(record.value) if record is not None else _Object()
            reason = _reason(simulation, pod, unready, began)
            if key in self._not_ready_yet and unready.origin is not None:
                reason += f" (created{_since(unready, began)})"
            pods.append(_pod(simulation, key, pod.spec.node_name or "", reason))
        count = len(self._lost) + len(self._not_ready_yet)
        gone = list(self._removed)[-max(0, unavailable - count) :] if unavailable > count else []
        for key, node, unready in gone[: _NAMED - len(pods)]:
            reason = f"it was deleted{_since(unready, began)}, and has no replacement yet"
            pods.append(_pod(simulation, key, node, reason))
        return Moment(
            at=round(simulation.env.monotonic() - began, 3),
            unavailable=unavailable,
            pods=tuple(pods),
            more=max(count, unavailable) - len(pods),
        )


def _pod(simulation: Simulation, key: str, node: str, reason: str) -> UnavailablePod:
    found = simulation.store.get(f"/nodes/{node}") if node else None
    zone = "" if found is None else (_decode(found.value).metadata.labels or {}).get(_ZONE, "")
    return UnavailablePod(pod=key.removeprefix(_PODS), node=node, zone=zone, reason=reason)


def _reason(simulation: Simulation, pod: _Object, unready: _Unready, began: float) -> str:
    node = pod.spec.node_name
    conditions = {condition.type: condition for condition in pod.status.conditions or ()}
    if pod.metadata.deletion_timestamp:
        origin = unready.origin
        is_eviction = origin is not None and origin.call.subresource == "eviction"
        return f"{'evicted' if is_eviction else 'marked for deletion'}{_since(unready, began)}"
    if pod.status.phase == "Failed":
        texts = filter(None, (pod.status.reason, pod.status.message))
        return _bounded(": ".join(("failed", *texts)))
    if not node:
        message = conditions.get("PodScheduled", _Condition()).message
        return _bounded(f"it waits for a node{f': {message}' if message else ''}")
    if not _is_ready_node(simulation, node):
        return f"its node is not ready; the pod was marked so{_since(unready, began)}"
    for container in pod.status.container_statuses or ():
        state = container.state
        if state.waiting is not None and state.waiting.reason:
            return _bounded(f"its container {container.name} waits: {state.waiting.reason}")
        if state.terminated is not None:
            reason = f"{state.terminated.reason or 'terminated'}, exit code {state.terminated.exit_code}"
            return _bounded(f"its container {container.name} has ended: {reason}")
    message = conditions.get("Ready", _Condition()).message
    return _bounded(message or "its containers have not started")


def _since(unready: _Unready, began: float) -> str:
    """When, and by whom."""
    at = f" at {shown_seconds(round(unready.at - began, 3))}" if unready.at >= began else ""
    origin = unready.origin
    return at if origin is None else f"{at} by {origin.controller or origin.program.partition('#')[0]}"


def _is_ready_node(simulation: Simulation, name: str) -> bool:
    record = simulation.store.get(f"/nodes/{name}")
    conditions = () if record is None else _decode(record.value).status.conditions or ()
    return any((condition.type, condition.status) == ("Ready", "True") for condition in conditions)


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST_DETAIL else f"{text[: _LONGEST_DETAIL - 1]}…"
