"""Invariants of the node lifecycle controller: when nodes are marked unreachable and pods not ready, the rate of taints
in zones, and that all of it is reverted."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.coordination import Lease
from pilothouse.api.core import Node, Pod
from pilothouse.client.interceptor import Observation
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE, node_ready_condition
from pilothouse.semantics.pods import ready_condition
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.cached import InformerCache
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

CONTROLLER = "node-controller"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
EXPECTED = {"True": (), "False": (NOT_READY,), "Unknown": (UNREACHABLE,)}

_node = msgspec.json.Decoder(Node).decode
_pod = msgspec.json.Decoder(Pod).decode


class NodeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the controller, and the tolerated delay, which is 0 without faults."""

    period: float = 5.0
    grace: float = 50.0
    rate: float = 0.1
    large: int = 50
    """Larger zones have a reduced eviction rate when they are disrupted, which is not checked."""
    slack: float = 1.0
    """The maximum delay of a taint after its token was taken from the rate limiter."""
    patience: float = 12.0
    """The time until every process has observed how many nodes of a zone are down: a pass, and the delivery of
    events."""


class NodeHealth(Invariant):
    """Checked are the writes of the node controller. In a small zone that is partially disrupted no node may be
    tainted, nor anywhere when no node is ready.
    """

    def __init__(self, limits: NodeLimits | None = None) -> None:
        self._limits = limits or NodeLimits()
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._signs: dict[tuple[str, str], list[float]] = {}
        """When a process last observed a changed Lease or heartbeat of a node."""
        self._heartbeats: dict[str, float] = {}
        """The last report of each node."""
        self._down_until: dict[str, float] = {}
        """When each node was last not ready; infinity while it is not ready."""
        self._tainted: dict[tuple[str, str], list[float]] = {}
        """When nodes were tainted, by process and zone."""
        self._disrupted: dict[str, float] = {}
        """Zones in which no node may be tainted, with the time of the disruption."""
        self._caches: dict[int, tuple[InformerCache[Lease], InformerCache[Node]]] = {}
        self._last_write = 0.0
        self.tainted = 0
        self.marked = 0

    # Events

    def started(self, process: "Process") -> None:
        """Process observations of Leases and nodes."""

        def record(name: str) -> None:
            self._signs.setdefault((process.name, name), []).append(_now())

        def lease_changed(old: Lease | None, new: Lease | None) -> None:
            if new is not None and (old is None or old.spec.renew_time != new.spec.renew_time):
                record(new.metadata.name)
            elif new is None and old is not None:
                # Changes that are reverted before the next pass are not observed.
                heartbeats = self._signs[process.name, old.metadata.name]
                heartbeats[:] = [
                    observed_at for observed_at in heartbeats if _now() - observed_at > self._limits.period
                ]

        def node_changed(old: Node | None, new: Node | None) -> None:
            if new is not None and (old is None or _heartbeat(old) != _heartbeat(new)):
                record(new.metadata.name)

        self._caches[process.number] = (
            InformerCache("leases", Lease, lease_changed),
            InformerCache("nodes", Node, node_changed),
        )

    def observed(self, process: "Process", observation: Observation) -> None:
        for cache in self._caches[process.number]:
            cache.observe(observation)

    def committed(self, change: Change, origin: Origin | None) -> None:
        by_controller = origin is not None and origin.controller == CONTROLLER
        if change.key.startswith("/nodes/"):
            name, node = change.key.removeprefix("/nodes/"), _node(change.value)
            old = self._nodes.get(name)
            if origin is not None and by_controller and old is not None and change.type == "MODIFIED":
                self._last_write = _now()
                self._check_node(name, old, node, origin)
            self._record_node(name, old, None if change.type == "DELETED" else node)
        elif change.key.startswith("/pods/"):
            before_pod, pod = self._pods.get(change.key), _pod(change.value)
            if origin is not None and by_controller and before_pod is not None and origin.call.subresource == "status":
                self._check_label(change.key, before_pod, pod)
            if change.type == "DELETED":
                self._pods.pop(change.key, None)
            else:
                self._pods[change.key] = pod

    def _record_node(self, name: str, old: Node | None, node: Node | None) -> None:
        now = _now()
        if node is None:
            self._nodes.pop(name, None)
            self._down_until[name] = now
        else:
            self._nodes[name] = node
            if old is None or _heartbeat(old) != _heartbeat(node):
                self._heartbeats[name] = now
            if _ready(node) != "True":
                self._down_until[name] = float("inf")
            elif old is None or _ready(old) != "True":
                self._down_until[name] = now
        disrupted = disrupted_zones(self._nodes, self._limits.large)
        self._disrupted = {zone: self._disrupted.get(zone, now) for zone in disrupted}

    # Checks

    def _check_node(self, name: str, old: Node, node: Node, origin: Origin) -> None:
        now = _now()
        if _ready(node) == "Unknown" and _ready(old) not in (None, "Unknown"):
            last_sign = max([self._heartbeats[name], *self._signs.get((origin.program, name), ())])
            if now - last_sign <= self._limits.grace:
                raise Violation(f"{name} is marked unknown {now - last_sign:.3f} s after its last observed heartbeat")
        if _expected_taints(node) and not _expected_taints(old):
            self._check_taint(name, node, origin, now)
        new = [key for key in _expected_taints(node) if key not in _expected_taints(old)]
        if new and tuple(new) != EXPECTED.get(_ready(old) or "", ()):
            raise Violation(f"{name} is Ready={_ready(old)} and gets the NoExecute taints {new}")

    def _check_taint(self, name: str, node: Node, origin: Origin, now: float) -> None:
        self.tainted += 1
        limits, zone = self._limits, zone_of(node)
        since = self._disrupted.get(zone, now)
        if now - since > limits.patience:
            raise Violation(f"{name} is tainted, although zone {zone!r} was disrupted {now - since:.3f} s")
        times = self._tainted.setdefault((origin.program, zone), [])
        times.append(now)
        for count, started_at in enumerate(reversed(times[:-1]), start=2):
            allowed = 1 + (now - started_at + limits.slack) * limits.rate
            if count > allowed:
                raise Violation(
                    f"{count} nodes of zone {zone!r} were tainted within {now - started_at:.3f} s, up to {name}"
                )

    def _check_label(self, key: str, old: Pod, pod: Pod) -> None:
        old_condition, new_condition = ready_condition(old), ready_condition(pod)
        if old_condition is None or new_condition is None or old_condition.status == new_condition.status:
            return
        self.marked += 1
        if new_condition.status != "False" or new_condition.reason != old_condition.reason:
            raise Violation(f"{key}: Ready became {new_condition}, from {old_condition}")
        name = pod.spec.node_name
        late = _now() - self._down_until.get(name, float("inf"))
        if late > self._limits.patience + self._limits.slack:
            raise Violation(f"{key} is marked as not ready; node {name} is ready since {late:.3f} s")

    def check_final_state(self) -> None:
        """At the end taints match conditions, and pods of unresponsive nodes are not ready."""
        quiet = _now() - self._last_write
        if quiet < 600.0:
            raise Violation(f"the node controller wrote to a node {quiet:.0f} s ago")
        for name, node in self._nodes.items():
            status = _ready(node)
            desired = EXPECTED.get(status or "", ())
            taints = tuple(
                sorted(t.key for t in node.spec.taints if t.effect == NO_SCHEDULE and t.key in (NOT_READY, UNREACHABLE))
            )
            if taints != desired:
                raise Violation(f"{name} is Ready={status}; its NoSchedule taints are {taints}")
            expected_taints = _expected_taints(node)
            if expected_taints != desired and (expected_taints or zone_of(node) not in self._disrupted):
                raise Violation(f"{name} is Ready={status}; its NoExecute taints are {expected_taints}")
        for key, pod in self._pods.items():
            pod_node = self._nodes.get(pod.spec.node_name)
            ready = ready_condition(pod)
            if pod_node is not None and _ready(pod_node) == "Unknown" and ready is not None and ready.status != "False":
                raise Violation(f"{key} is ready, on {pod.spec.node_name}, which is unreachable")


def zone_of(node: Node) -> str:
    """The zone label; scenarios use no regions."""
    return node.metadata.labels.get("topology.kubernetes.io/zone", "")


def disrupted_zones(nodes: dict[str, Node], large: int) -> list[str]:
    """The zones in which no node may be tainted: small ones with at least three nodes and 55 % down, but not all, and
    every zone when no node is ready."""
    down: dict[str, int] = {}
    size: dict[str, int] = {}
    for node in nodes.values():
        if "node.kubernetes.io/exclude-disruption" not in node.metadata.labels:
            zone = zone_of(node)
            size[zone] = size.get(zone, 0) + 1
            down[zone] = down.get(zone, 0) + (_ready(node) != "True")
    if down == size:
        return sorted(size)
    return sorted(z for z, count in down.items() if 2 < count < size[z] <= large and count / size[z] >= 0.55)


def _expected_taints(node: Node) -> tuple[str, ...]:
    """The keys of the NoExecute taints that the node should have."""
    return tuple(
        sorted(t.key for t in node.spec.taints if t.effect == NO_EXECUTE and t.key in (NOT_READY, UNREACHABLE))
    )


def _ready(node: Node) -> str | None:
    condition = node_ready_condition(node)
    return None if condition is None else condition.status


def _heartbeat(node: Node) -> object:
    condition = node_ready_condition(node)
    return None if condition is None else condition.last_heartbeat_time


def _now() -> float:
    return asyncio.get_running_loop().time()
