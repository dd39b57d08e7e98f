"""NodeName: a pod with ``spec.nodeName`` fits on that node only. As kube-scheduler v1.36 ``plugins/nodename``."""

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo

NODE_NAME_NOT_MATCH = Status("NodeName", ("node(s) didn't match the requested node name",), unresolvable=True)


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject all other nodes."""
    desired = pod_info.pod.spec.node_name
    return NODE_NAME_NOT_MATCH if desired and desired != node_info.name else None
