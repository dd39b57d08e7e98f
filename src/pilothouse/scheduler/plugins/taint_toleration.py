"""TaintToleration: NoSchedule and NoExecute taints reject a pod, PreferNoSchedule taints lower the score of a node.

As kube-scheduler v1.36 ``plugins/tainttoleration``.
"""

from pilothouse.api.core import Node
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo
from pilothouse.semantics.nodes import tolerates, untolerated_taint

NAME = "TaintToleration"
UNTOLERATED_TAINT = Status(NAME, ("node(s) had untolerated taint(s)",), unresolvable=True)


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject nodes with a taint that the pod does not tolerate."""
    taint = untolerated_taint(node_info.do_not_schedule_taints, pod_info.tolerations)
    return UNTOLERATED_TAINT if taint is not None else None


def count_intolerable_taints_prefer_no_schedule(pod_info: PodInfo, node_info: NodeInfo) -> int:
    """The raw score, lower is better: the number of PreferNoSchedule taints that the pod does not tolerate."""
    return sum(
        not any(tolerates(toleration, taint) for toleration in pod_info.tolerations)
        for taint in node_info.prefer_no_schedule_taints
    )


def is_schedulable_after_node_change(pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether all taints of the node are tolerated now, and were not before."""
    if change.new is None or not (change.added or change.taints):
        return False
    return _is_tolerated(pod_info, change.new) and (change.old is None or not _is_tolerated(pod_info, change.old))


def _is_tolerated(pod_info: PodInfo, node: Node) -> bool:
    return untolerated_taint(node.spec.taints, pod_info.tolerations) is None
