"""NodePorts: the host ports of a pod must be free. As kube-scheduler v1.36 ``plugins/nodeports``."""

from collections.abc import Collection, Iterable

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import HostPort, NodeChange, NodeInfo, PodInfo
from pilothouse.semantics.pods import ANY_ADDRESS

NAME = "NodePorts"
PORTS_NOT_FREE = Status(NAME, ("node(s) didn't have free ports for the requested pod ports",))


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject nodes with a conflict."""
    return PORTS_NOT_FREE if _conflicts(pod_info.host_ports, node_info.used_ports) else None


def _conflicts(requested: Iterable[HostPort], used: Collection[HostPort]) -> bool:
    """A port without an address conflicts with the same number on every address."""
    if not used:
        return False
    for address, protocol, number in requested:
        if (ANY_ADDRESS, protocol, number) in used or (address, protocol, number) in used:
            return True
        if address == ANY_ADDRESS and any((p, n) == (protocol, number) for _address, p, n in used):
            return True
    return False


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added."""
    return change.added


def is_schedulable_after_pod_removed(pod_info: PodInfo, removed: PodInfo) -> bool:
    """Whether the pod that was removed from a node used a host port that the rejected pod requests."""
    return _conflicts(pod_info.host_ports, removed.host_ports)
