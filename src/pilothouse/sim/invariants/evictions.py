"""Invariants of taint eviction: no pod is deleted that tolerates the taints, or before its tolerationSeconds expire."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import Node, Pod, Taint, Toleration
from pilothouse.client.interceptor import Observation
from pilothouse.semantics.nodes import NO_EXECUTE, toleration_seconds
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.live_reads import LiveReads
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

CONTROLLER = "node-controller"
MAX_AGE = 8.0
"""Maximum age of a live read: it is used for a second; patch and deletion may each take three seconds."""
FOREVER = float("inf")

_node = msgspec.json.Decoder(Node).decode
_pod = msgspec.json.Decoder(Pod).decode
Taints = tuple[Taint, ...]


class _Bound:
    """The history of a pod since it was bound."""

    def __init__(self, pod: Pod, now: float) -> None:
        self.uid = pod.metadata.uid
        self.since = now
        self.tolerations = [(now, pod.spec.tolerations)]


class Evictions(Invariant):
    """Checks each deletion of a pod that was not being deleted.

    A live read of the node, not older than ``MAX_AGE``, must have returned a taint that the pod does not tolerate
    without limit, or no node. If the pod tolerates all of them for some time, the node must have been tainted for the
    shortest of these times. A moment without taints restarts that time, unless it cannot be detected afterwards: the
    next taints are different ones, or have no ``timeAdded``.
    """

    def __init__(self) -> None:
        self._reads = LiveReads()
        self._taints: dict[str, list[tuple[float, Taints]]] = {}
        """By node: its taints, with the time of each change. A deleted node has none."""
        self._pods: dict[str, Pod] = {}
        self._bound: dict[str, _Bound] = {}
        self.evicted = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        now = asyncio.get_running_loop().time()
        if change.key.startswith("/nodes/"):
            name = change.key.removeprefix("/nodes/")
            node = _node(change.value)
            taints = () if change.type == "DELETED" else no_execute(node)
            history = self._taints.setdefault(name, [])
            if not history or history[-1][1] != taints:
                history.append((now, taints))
        elif change.key.startswith("/pods/"):
            old_pod = self._pods.get(change.key)
            pod = _pod(change.value)
            if (
                origin is not None
                and origin.controller == CONTROLLER
                and origin.call.verb == "delete"
                and old_pod is not None
                and old_pod.metadata.deletion_timestamp is None
            ):
                self._check(change.key, old_pod, origin, now)
            self._record(change, pod, now)

    def _record(self, change: Change, pod: Pod, now: float) -> None:
        key = change.key
        if change.type == "DELETED":
            self._pods.pop(key, None)
            self._bound.pop(key, None)
            return
        self._pods[key] = pod
        bound = self._bound.get(key)
        if not pod.spec.node_name:
            return
        if bound is None or bound.uid != pod.metadata.uid:
            self._bound[key] = _Bound(pod, now)
        elif bound.tolerations[-1][1] != pod.spec.tolerations:
            bound.tolerations.append((now, pod.spec.tolerations))

    def _check(self, key: str, pod: Pod, origin: Origin, now: float) -> None:
        self.evicted += 1
        body: dict[str, Any] = msgspec.json.decode(origin.body) if origin.body else {}
        if (body.get("preconditions") or {}).get("uid") != pod.metadata.uid:
            raise Violation(f"{key}: {origin} has no precondition for the uid {pod.metadata.uid}")
        name = pod.spec.node_name
        read = self._reads.newest(origin, name, max_age=MAX_AGE)
        if read is None:
            raise Violation(f"{key}: {origin}, and node {name} was not read live before that")
        read_at, node = read
        if node is None:
            return
        bound = self._bound[key]
        taints = no_execute(node)
        # The previous tolerations count, too: one may be added while the deletion is in flight.
        recent = [t for i, (_since, t) in enumerate(bound.tolerations) if _until(bound.tolerations, i) > now - MAX_AGE]
        stays = [shortest(taints, tolerations) for tolerations in recent]
        if all(seconds == FOREVER for seconds in stays):
            raise Violation(f"{key} is evicted and tolerates what node {name} had {now - read_at:.3f} s ago: {taints}")
        if any(seconds is None for seconds in stays):
            return
        tainted_since, toleration_seconds = self._tainted_since(name, bound, read_at)
        if now - tainted_since < toleration_seconds - 0.001:
            raise Violation(
                f"{key} is evicted {now - tainted_since:.3f} s after node {name} was tainted; it tolerates "
                f"{toleration_seconds} s"
            )

    def _tainted_since(self, name: str, bound: _Bound, read_at: float) -> tuple[float, float]:
        """The time since which the pod was observably on a node with taints, and the shortest time for which it
        tolerated any of them."""
        history = [entry for entry in self._taints[name] if entry[0] <= read_at]
        tainted_since, shortest_seconds = read_at, FOREVER
        next_taints: Taints = ()
        for index in range(len(history) - 1, -1, -1):
            since, taints = history[index]
            if index + 1 < len(history) and history[index + 1][0] <= bound.since:
                break
            times = [shortest(taints, t) for _since, t in bound.tolerations]
            counting = [seconds for seconds in times if seconds is not None and seconds != FOREVER]
            if not taints or not counting:
                if next_taints and _shows_a_gap(history[:index], next_taints):
                    break
                continue
            tainted_since, next_taints = max(since, bound.since), taints
            shortest_seconds = min(shortest_seconds, *counting)
        return tainted_since, shortest_seconds

    def observed(self, process: "Process", observation: Observation) -> None:
        self._reads.observe(process, observation)

    def check_final_state(self) -> None:
        """At the end no pod remains that does not tolerate its node's taints, or only for some time."""
        for key, pod in self._pods.items():
            history = self._taints.get(pod.spec.node_name)
            if not history or pod.metadata.deletion_timestamp is not None:
                continue
            seconds = shortest(history[-1][1], pod.spec.tolerations)
            if seconds is None or seconds <= 600.0:
                raise Violation(f"{key} is still on {pod.spec.node_name}, with taints {history[-1][1]}")


def no_execute(node: Node) -> Taints:
    """The NoExecute taints."""
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def shortest(taints: Taints, tolerations: tuple[Toleration, ...]) -> float | None:
    """The minimum time for which a pod tolerates the taints; None if it does not tolerate one of them."""
    times = [toleration_seconds(taint, tolerations) for taint in taints]
    finite = [seconds for seconds in times if seconds is not None]
    return None if len(finite) < len(times) else min(finite, default=FOREVER)


def _shows_a_gap(earlier: list[tuple[float, Taints]], current: Taints) -> bool:
    """Whether the taints are observably not the previous ones: same key, different ``timeAdded``."""
    previous: Taints = next((taints for _since, taints in reversed(earlier) if taints), ())
    times = {(taint.key, taint.effect): taint.time_added for taint in previous}
    return not any(taint in previous for taint in current) and any(
        taint.time_added is not None and times.get((taint.key, taint.effect)) not in (None, taint.time_added)
        for taint in current
    )


def _until(history: list[tuple[float, Any]], index: int) -> float:
    return history[index + 1][0] if index + 1 < len(history) else FOREVER
