"""NodeName: a pod with ``spec.nodeName`` fits on that node only. As kube-scheduler v1.36 ``plugins/nodename``."""

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo

NAME = "NodeName"
NODE_NAME_NOT_MATCH = Status(NAME, ("node(s) didn't match the requested node name",), unresolvable=True)


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject all other nodes."""
    desired = pod_info.node_name
    return NODE_NAME_NOT_MATCH if desired and desired != node_info.name else None


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added."""
    return change.added
