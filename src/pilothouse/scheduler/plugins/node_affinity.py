"""NodeAffinity: ``nodeSelector`` and required node affinity filter nodes, preferred node affinity scores them.

As kube-scheduler v1.36 ``plugins/nodeaffinity``. Its PreFilter is ``PodInfo.node_names``.
"""

from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo
from pilothouse.semantics.node_affinity import matches_node_selection, matches_node_selector_term

NAME = "NodeAffinity"
NODE_AFFINITY_NOT_MATCH = Status(NAME, ("node(s) didn't match Pod's node affinity/selector",), unresolvable=True)
CONFLICT = Status(NAME, ("pod affinity terms conflict",), unresolvable=True)
"""On all nodes, for a pod with a term that requires one node to have several names."""


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """Reject nodes that selector or required affinity do not match."""
    return None if matches_node_selection(pod_info.pod.spec, node_info.node) else NODE_AFFINITY_NOT_MATCH


def score_node(pod_info: PodInfo, node_info: NodeInfo) -> int:
    """The raw score: the sum of the weights of the preferred terms that match."""
    return sum(
        term.weight
        for term in pod_info.preferred_node_affinity_terms
        if term.weight and matches_node_selector_term(term.preference, node_info.node)
    )


def is_schedulable_after_node_change(pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether selector and required affinity match the node now, and did not before."""
    if change.new is None or not (change.added or change.labels):
        return False
    spec = pod_info.pod.spec
    return matches_node_selection(spec, change.new) and (
        change.old is None or not matches_node_selection(spec, change.old)
    )
