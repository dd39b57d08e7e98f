"""Admission of pods by a node. Pure.

A kubelet checks pods that are bound to its node, since the scheduler may have used an old cache: resources, node
selector and affinity, host ports, NoExecute taints, and pressure. Order, reasons and messages: kubelet v1.36
``pkg/kubelet/lifecycle/predicate.go``, ``pkg/kubelet/eviction/eviction_manager.go`` (``Admit``).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pilothouse.api.core import Node, Taint
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.nodes.pod_status import PodFailure
from pilothouse.nodes.views import NodePod
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import tolerates, untolerated_taint
from pilothouse.semantics.pods import effective_requests

SYSTEM_CRITICAL = 2_000_000_000
_ORDER = ("cpu", "memory", "ephemeral-storage")

Port = tuple[str, str, int]
"""Protocol, address, number."""


class PodInfo(msgspec.Struct, frozen=True):
    """The resources and ports that one pod uses."""

    requests: Mapping[str, int]
    ports: tuple[Port, ...]


def new_pod_info(pod: NodePod) -> PodInfo:
    """The resources and ports that a pod uses."""
    spec = pod.spec
    ports = tuple(
        (port.protocol or "TCP", port.host_ip or "0.0.0.0", port.host_port)  # noqa: S104  # compared, not listened on
        for container in (*spec.containers, *(c for c in spec.init_containers if c.restart_policy == "Always"))
        for port in container.ports
        if port.host_port
    )
    return PodInfo(effective_requests(pod), ports)


class NodeInfo:
    """The admitted pods of a node, by key, and the sum of their requests."""

    __slots__ = ("pods", "requests")

    def __init__(self) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.requests: dict[str, int] = {}

    def add(self, key: str, pod_info: PodInfo) -> None:
        """Add or replace a pod."""
        self.drop(key)
        self.pods[key] = pod_info
        for name, amount in pod_info.requests.items():
            self.requests[name] = self.requests.get(name, 0) + amount

    def drop(self, key: str) -> None:
        """Remove a pod."""
        pod_info = self.pods.pop(key, None)
        if pod_info is not None:
            for name, amount in pod_info.requests.items():
                self.requests[name] -= amount


def admit(
    pod: NodePod, key: str, pod_info: PodInfo, node_info: NodeInfo, node: Node, pressures: Sequence[str]
) -> PodFailure | None:
    """Why the node rejects the pod, None if it admits it. ``pressures``: the pressure conditions of the node."""
    if pressures and not is_critical(pod) and not _tolerates_pressure(pod, pressures):
        return PodFailure("Evicted", f"The node had condition: [{' '.join(pressures)}]. ")
    if failure := _insufficient_resource(key, pod_info, node_info, node):
        return failure
    if not matches_node_selection(pod.spec, node):
        reason = "node(s) didn't match Pod's node affinity/selector"
        return PodFailure("NodeAffinity", f"Predicate NodeAffinity failed: {reason}")
    used_ports = (port for other, others in node_info.pods.items() if other != key for port in others.ports)
    if pod_info.ports and _ports_conflict(pod_info.ports, used_ports):
        reason = "node(s) didn't have free ports for the requested pod ports"
        return PodFailure("NodePorts", f"Predicate NodePorts failed: {reason}")
    if node.spec.taints and untolerated_taint(node.spec.taints, pod.spec.tolerations, ("NoExecute",)) is not None:
        reason = "node(s) had taints that the pod didn't tolerate"
        return PodFailure("TaintToleration", f"Predicate TaintToleration failed: {reason}")
    return None


def is_critical(pod: NodePod) -> bool:
    """Pods that are never evicted (``pkg/kubelet/types/pod_update.go``)."""
    return (pod.spec.priority or 0) >= SYSTEM_CRITICAL


def _tolerates_pressure(pod: NodePod, pressures: Sequence[str]) -> bool:
    if list(pressures) != ["MemoryPressure"]:
        return False
    taint = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")
    return pod.status.qos_class != "BestEffort" or any(tolerates(t, taint) for t in pod.spec.tolerations)


def _insufficient_resource(key: str, pod_info: PodInfo, node_info: NodeInfo, node: Node) -> PodFailure | None:
    room = node.status.allocatable
    count = len(node_info.pods) - (key in node_info.pods)
    capacity = parse_quantity(room.get("pods", "0")).value
    if count + 1 > capacity:
        return _insufficient("pods", 1, count, capacity)
    own = node_info.pods[key].requests if key in node_info.pods else {}
    names = [name for name in _ORDER if name in pod_info.requests]
    names += sorted(name for name in pod_info.requests if name not in _ORDER)
    for name in names:
        wanted = pod_info.requests[name]
        if not wanted or (name not in room and "/" in name):
            continue  # an extended resource that the node does not report is managed cluster-wide
        quantity = parse_quantity(room.get(name, "0"))
        capacity = quantity.milli_value if name == "cpu" else quantity.value
        used = node_info.requests.get(name, 0) - own.get(name, 0)
        if used + wanted > capacity:
            return _insufficient(name, wanted, used, capacity)
    return None


def _insufficient(name: str, wanted: int, used: int, capacity: int) -> PodFailure:
    message = f"Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {capacity}"
    return PodFailure(f"OutOf{name}", message)


def _ports_conflict(wanted: Sequence[Port], used_ports: Iterable[Port]) -> bool:
    """Two ports conflict on the same address, or if one is for all addresses."""
    everywhere = "0.0.0.0"  # noqa: S104  # compared, not listened on
    return any(
        (protocol, number) == (other_protocol, other_number) and (ip == other_ip or everywhere in (ip, other_ip))
        for other_protocol, other_ip, other_number in used_ports
        for protocol, ip, number in wanted
    )
