"""NodePorts: the host ports of a pod must be free. As kube-scheduler v1.36 ``plugins/nodeports``."""

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.semantics.pods import ANY_ADDRESS

PORTS_NOT_FREE = Status("NodePorts", ("node(s) didn't have free ports for the requested pod ports",))


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject nodes with a conflict. A port without an address conflicts with the same number on every address."""
    used = node_info.used_ports
    if not used:
        return None
    for address, protocol, number in pod_info.host_ports:
        if (ANY_ADDRESS, protocol, number) in used or (address, protocol, number) in used:
            return PORTS_NOT_FREE
        if address == ANY_ADDRESS and any((p, n) == (protocol, number) for _address, p, n in used):
            return PORTS_NOT_FREE
    return None
