"""What the scheduler knows of the nodes: allocatable and requested resources, kept up to date, never rebuilt.

Fed by the scheduler's event handlers; read by ``placement``. A pod that was just bound is *assumed*: it counts from the
moment the decision is made, not when the watch brings it back.
"""

from collections.abc import Mapping

from pilothouse.api.core import Node, Pod
from pilothouse.machinery.quantities import parse_quantity

PODS_RESOURCE = "pods"
_ASSUMED = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What a pod that requests none is taken to use when nodes are compared, so that such pods spread too (kube-scheduler
v1.36 ``pkg/scheduler/util/pod_resources.go``)."""


def amounts(resources: Mapping[str, str]) -> dict[str, int]:
    """Quantities as integers: thousandths for cpu, whole units for everything else."""
    return {name: _amount(name, text) for name, text in resources.items()}


def _amount(name: str, text: str) -> int:
    quantity = parse_quantity(text)
    return quantity.milli_value if name == "cpu" else quantity.value


class NodeInfo:
    """One node and what its pods ask for."""

    __slots__ = ("allocatable", "assumed", "name", "node", "pods", "requested")

    def __init__(self, node: Node) -> None:
        self.name = node.metadata.name
        self.node = node
        self.allocatable: dict[str, int] = {}
        self.requested: dict[str, int] = {}
        self.assumed = dict.fromkeys(_ASSUMED, 0)
        self.pods = 0
        self.update(node)

    def update(self, node: Node) -> None:
        """Take over a new version of the node."""
        if not self.allocatable or node.status.allocatable != self.node.status.allocatable:
            self.allocatable = amounts(node.status.allocatable)
        self.node = node

    def add(self, demand: Mapping[str, int]) -> None:
        """Count a pod."""
        self.pods += 1
        for name, amount in demand.items():
            self.requested[name] = self.requested.get(name, 0) + amount
        for name, least in _ASSUMED.items():
            self.assumed[name] += demand.get(name) or least

    def left_after(self, name: str, demand: Mapping[str, int]) -> int:
        """How much of cpu or memory would be left, by what is assumed of the pods."""
        return self.allocatable.get(name, 0) - self.assumed[name] - (demand.get(name) or _ASSUMED[name])

    def remove(self, demand: Mapping[str, int]) -> None:
        """No longer count a pod."""
        self.pods -= 1
        for name, amount in demand.items():
            self.requested[name] = self.requested.get(name, 0) - amount
        for name, least in _ASSUMED.items():
            self.assumed[name] -= demand.get(name) or least


class Snapshot:
    """All nodes by name, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._placed: dict[str, tuple[str, str, dict[str, int]]] = {}
        self._homeless: dict[str, dict[str, dict[str, int]]] = {}

    def set_node(self, node: Node) -> None:
        """A node appeared or changed."""
        known = self.nodes.get(node.metadata.name)
        if known is not None:
            known.update(node)
            return
        info = self.nodes[node.metadata.name] = NodeInfo(node)
        for demand in self._homeless.pop(info.name, {}).values():
            info.add(demand)

    def remove_node(self, name: str) -> None:
        """A node is gone. Its pods are remembered: the node may come back with them."""
        self.nodes.pop(name, None)
        left = {key: demand for key, (_uid, node, demand) in self._placed.items() if node == name}
        if left:
            self._homeless[name] = left

    def place(self, key: str, pod: Pod, node_name: str, demand: dict[str, int]) -> None:
        """The pod is, or is assumed to be, on the node. Saying so again changes nothing."""
        known = self._placed.get(key)
        if known is not None:
            if known[0] == pod.metadata.uid and known[1] == node_name:
                return
            self.forget(key)
        self._placed[key] = (pod.metadata.uid, node_name, demand)
        info = self.nodes.get(node_name)
        if info is not None:
            info.add(demand)
        else:
            self._homeless.setdefault(node_name, {})[key] = demand

    def forget(self, key: str) -> bool:
        """The pod no longer takes room: it is gone, has ended, or could not be bound. True if it had any."""
        known = self._placed.pop(key, None)
        if known is None:
            return False
        _uid, node_name, demand = known
        info = self.nodes.get(node_name)
        if info is not None:
            info.remove(demand)
        else:
            homeless = self._homeless.get(node_name)
            if homeless is not None:
                homeless.pop(key, None)
        return True
