"""TaintToleration: NoSchedule and NoExecute taints reject a pod, PreferNoSchedule taints lower the score of a node.

As kube-scheduler v1.36 ``plugins/tainttoleration``.
"""

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.semantics.nodes import tolerates, untolerated_taint

UNTOLERATED_TAINT = Status("TaintToleration", ("node(s) had untolerated taint(s)",), unresolvable=True)


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
