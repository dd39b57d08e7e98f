"""What the scheduler knows of the nodes: allocatable and requested resources, kept up to date, never rebuilt.

Fed by the scheduler's event handlers; read by ``placement``. A pod that was just given a node is *assumed*: it counts
from the moment the decision is made, not when the watch brings it back.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pilothouse.api.core import Node, Taint
from pilothouse.machinery.quantities import parse_quantity

PODS_RESOURCE = "pods"
ASSUMED_CPU = 100
ASSUMED_MEMORY = 200 * 1024 * 1024
"""What a pod that requests none is taken to use when nodes are compared, so that such pods spread too (kube-scheduler
v1.36 ``pkg/scheduler/util/pod_resources.go``)."""

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


def amounts(resources: Mapping[str, str]) -> dict[str, int]:
    """Quantities as integers: thousandths for cpu, whole units for everything else."""
    return {name: _amount(name, text) for name, text in resources.items()}


def _amount(name: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value if name == "cpu" else quantity.value


class NodeInfo:
    """One node and what its pods ask for. ``cpu_used`` and ``memory_used`` assume something of pods that request
    nothing."""

    __slots__ = (
        "allocatable", "cpu", "cpu_used", "max_pods", "memory", "memory_used", "name", "node", "pods", "requested",
        "taints",
    )  # fmt: skip

    def __init__(self, node: Node) -> None:
        self.name = node.metadata.name
        self.requested: dict[str, int] = {}
        self.cpu_used = 0
        self.memory_used = 0
        self.pods = 0
        self.node = node
        self.allocatable: dict[str, int] = {}
        self.taints: tuple[Taint, ...] = ()
        self.cpu = self.memory = self.max_pods = 0
        self._take(node, resources=True)

    def update(self, node: Node) -> bool:
        """Take over a new version of the node. Whether it differs in what placement looks at."""
        old, self.node = self.node, node
        resources = old.status.allocatable != node.status.allocatable
        if not resources and old.spec == node.spec and old.metadata.labels == node.metadata.labels:
            return False
        self._take(node, resources=resources)
        return True

    def _take(self, node: Node, *, resources: bool) -> None:
        self.taints = tuple(t for t in node.spec.taints if t.effect in _KEEPS_AWAY)
        if resources:
            self.allocatable = amounts(node.status.allocatable)
            self.cpu = self.allocatable.get("cpu", 0)
            self.memory = self.allocatable.get("memory", 0)
            self.max_pods = self.allocatable.get(PODS_RESOURCE, 0)

    def add(self, demand: Mapping[str, int]) -> None:
        """Count a pod."""
        self._count(demand, 1)

    def remove(self, demand: Mapping[str, int]) -> None:
        """No longer count a pod."""
        self._count(demand, -1)

    def _count(self, demand: Mapping[str, int], sign: int) -> None:
        self.pods += sign
        requested = self.requested
        for name, amount in demand.items():
            requested[name] = requested.get(name, 0) + sign * amount
        self.cpu_used += sign * (demand.get("cpu") or ASSUMED_CPU)
        self.memory_used += sign * (demand.get("memory") or ASSUMED_MEMORY)


class _Placed(msgspec.Struct):
    uid: str
    node_name: str
    demand: dict[str, int]
    assumed: bool


class Snapshot:
    """All nodes by name, and where the pods are."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._order: tuple[NodeInfo, ...] | None = ()
        self._placed: dict[str, _Placed] = {}
        self._homeless: dict[str, dict[str, dict[str, int]]] = {}

    @property
    def order(self) -> Sequence[NodeInfo]:
        """The nodes in the order in which they were first seen."""
        if self._order is None:
            self._order = tuple(self.nodes.values())
        return self._order

    # Nodes

    def set_node(self, node: Node) -> bool:
        """A node appeared or changed. Whether pods may fit on it now that did not."""
        known = self.nodes.get(node.metadata.name)
        if known is not None:
            return known.update(node)
        info = self.nodes[node.metadata.name] = NodeInfo(node)
        self._order = None
        for demand in self._homeless.pop(info.name, {}).values():
            info.add(demand)
        return True

    def remove_node(self, name: str) -> None:
        """A node is gone. Its pods are remembered: the node may come back with them."""
        if self.nodes.pop(name, None) is None:
            return
        self._order = None
        left = {key: placed.demand for key, placed in self._placed.items() if placed.node_name == name}
        if left:
            self._homeless[name] = left

    # Pods

    def assume(self, key: str, uid: str, node_name: str, demand: dict[str, int]) -> None:
        """It was decided that the pod goes to the node."""
        self._set(key, _Placed(uid, node_name, demand, assumed=True))

    def confirm(self, key: str, uid: str, node_name: str, demand: dict[str, int]) -> str | None:
        """The pod is on the node. Returns the node on which room became free by that, if one did."""
        known = self._placed.get(key)
        if known is not None and (known.uid, known.node_name, known.demand) == (uid, node_name, demand):
            known.assumed = False
            return None
        freed = known.node_name if known is not None else None
        self._set(key, _Placed(uid, node_name, demand, assumed=False))
        return freed

    def is_assumed(self, key: str, uid: str) -> bool:
        """Whether the pod was given a node and the watch has not shown it yet."""
        known = self._placed.get(key)
        return known is not None and known.assumed and known.uid == uid

    def is_confirmed(self, key: str, uid: str, node_name: str) -> bool:
        """Whether the pod is known to be on that node."""
        known = self._placed.get(key)
        return known is not None and not known.assumed and known.uid == uid and known.node_name == node_name

    def withdraw(self, key: str, uid: str) -> str | None:
        """An assumption did not come true; what the watch has confirmed stays. Returns the node that has more room."""
        return self.forget(key) if self.is_assumed(key, uid) else None

    def forget(self, key: str) -> str | None:
        """The pod no longer takes room: it is gone or has ended. Returns the node that has more room, if any has."""
        known = self._placed.pop(key, None)
        if known is None:
            return None
        info = self.nodes.get(known.node_name)
        if info is not None:
            info.remove(known.demand)
            return known.node_name
        homeless = self._homeless.get(known.node_name)
        if homeless is not None:
            homeless.pop(key, None)
            if not homeless:
                del self._homeless[known.node_name]
        return None

    def _set(self, key: str, placed: _Placed) -> None:
        self.forget(key)
        self._placed[key] = placed
        info = self.nodes.get(placed.node_name)
        if info is not None:
            info.add(placed.demand)
        else:
            self._homeless.setdefault(placed.node_name, {})[key] = placed.demand
