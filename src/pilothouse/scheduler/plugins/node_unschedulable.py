"""NodeUnschedulable: cordoned nodes take only pods that tolerate ``node.kubernetes.io/unschedulable``.

As kube-scheduler v1.36 ``plugins/nodeunschedulable``. ``PodInfo.tolerates_unschedulable`` is computed once per pod.
"""

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo

NAME = "NodeUnschedulable"
UNSCHEDULABLE = Status(NAME, ("node(s) were unschedulable",), unresolvable=True)


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject cordoned nodes."""
    return UNSCHEDULABLE if node_info.node.spec.unschedulable and not pod_info.tolerates_unschedulable else None


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a schedulable node was added, or a node was uncordoned."""
    return (
        change.new is not None
        and not change.new.spec.unschedulable
        and (change.old is None or change.old.spec.unschedulable)
    )
