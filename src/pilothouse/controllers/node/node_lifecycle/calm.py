"""Nodes for which a pass has nothing to do: ready, with a heartbeat in time, without our taints, unchanged since the
last pass.

Nearly all nodes are. A pass takes half a microsecond for each of them, a few where the Lease was renewed.
"""

from collections.abc import Iterable

from pilothouse.api.coordination import Lease
from pilothouse.api.core import Node
from pilothouse.controllers.node.node_lifecycle import LEASE_NAMESPACE
from pilothouse.controllers.node.node_lifecycle.health import ClockReading, Health, observe_heartbeat
from pilothouse.runtime import Cache


class _UnchangedNode:
    __slots__ = ("lease", "node", "until", "zone")

    def __init__(self, node: Node, lease: Lease | None, until: float, zone: str | None) -> None:
        self.node = node
        self.lease = lease
        self.until = until
        self.zone = zone


class UnchangedNodes:
    """The nodes that had nothing to do when last checked. ``healths`` is the monitor's memory: Leases are recorded
    there."""

    def __init__(self, leases: Cache[Lease], healths: dict[str, Health], grace_period: float) -> None:
        self._leases = leases
        self._healths = healths
        self._grace_period = grace_period
        self._calm: dict[str, _UnchangedNode] = {}

    def add(self, node: Node, lease: Lease | None, zone: str | None) -> None:
        """The node was checked with this Lease, and there was nothing to do. ``zone`` is None for an excluded node."""
        name = node.metadata.name
        health = self._healths[name]
        # A Lease that is not remembered counts as new in the next pass; until then the node is checked.
        if health.lease is lease:
            self._calm[name] = _UnchangedNode(node, lease, health.probed + self._grace_period, zone)

    def drop(self, name: str) -> None:
        self._calm.pop(name, None)

    def clear(self) -> None:
        self._calm.clear()

    def partition(self, nodes: Iterable[Node], now: ClockReading) -> tuple[list[Node], dict[str, int]]:
        """The nodes that must be checked, and how many of the others count in each zone. All of those are ready."""
        unchanged_nodes, leases, at = self._calm, self._leases, now.loop
        changed: list[Node] = []
        ready: dict[str, int] = {}
        for node in nodes:
            name = node.metadata.name
            unchanged = unchanged_nodes.get(name)
            if unchanged is None or unchanged.node is not node:
                changed.append(node)
                continue
            lease = leases.get(f"{LEASE_NAMESPACE}/{name}")
            if lease is not unchanged.lease:
                health = self._healths[name] = observe_heartbeat(self._healths[name], node, lease, now)
                unchanged.lease = lease
                unchanged.until = health.probed + self._grace_period
            if at > unchanged.until:
                changed.append(node)
            elif unchanged.zone is not None:
                ready[unchanged.zone] = ready.get(unchanged.zone, 0) + 1
        return changed, ready
