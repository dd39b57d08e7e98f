"""Where a pod fits, and where it fits best. Pure.

Filters and their messages: kube-scheduler v1.36 ``pkg/scheduler/framework/plugins`` (nodename, nodeunschedulable,
tainttoleration, nodeaffinity, noderesources). Score: LeastAllocated over cpu and memory, as the default profile; ties
go to the node that was looked at first, and looking starts where the last pod's search ended, so that pods spread.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pilothouse.api.core import Pod, Taint
from pilothouse.scheduler.snapshot import PODS_RESOURCE, NodeInfo
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import untolerated_taint

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_MIN_FEASIBLE = 100
_SCORED = ("cpu", "memory")


class Placement(msgspec.Struct, frozen=True):
    """A decision: the node, or why there is none (reason → number of nodes), and where the next search starts."""

    node_name: str | None
    refusals: dict[str, int]
    next_start: int


def feasible_limit(nodes: int) -> int:
    """How many fitting nodes are enough (``numFeasibleNodesToFind``): all of up to 100, then 50 % falling to 5 %."""
    if nodes < _MIN_FEASIBLE:
        return nodes
    percentage = max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, _MIN_FEASIBLE)


def place(pod: Pod, demand: Mapping[str, int], nodes: Sequence[NodeInfo], start: int) -> Placement:
    """Choose the best of the first ``feasible_limit`` nodes that fit, looking from ``start`` on."""
    refusals: dict[str, int] = {}
    limit, found = feasible_limit(len(nodes)), 0
    best: NodeInfo | None = None
    best_score = -1
    count = len(nodes)
    looked = 0
    while looked < count and found < limit:
        info = nodes[(start + looked) % count]
        looked += 1
        reasons = why_not(pod, demand, info)
        if reasons:
            for reason in reasons:
                refusals[reason] = refusals.get(reason, 0) + 1
            continue
        found += 1
        score = least_allocated(demand, info)
        if score > best_score:
            best, best_score = info, score
    # Having looked at all of them, begin one further on: equal nodes take turns.
    next_start = (start + (looked if looked < count else 1)) % count if count else 0
    return Placement(best.name if best is not None else None, refusals, next_start)


def why_not(pod: Pod, demand: Mapping[str, int], info: NodeInfo) -> tuple[str, ...]:
    """The reasons against a node in upstream's words; none means that the pod fits."""
    node = info.node
    if pod.spec.node_name and pod.spec.node_name != info.name:
        return ("node(s) didn't match the requested node name",)
    if node.spec.unschedulable and untolerated_taint((UNSCHEDULABLE_TAINT,), pod.spec.tolerations) is not None:
        return ("node(s) were unschedulable",)
    if node.spec.taints:
        taint = untolerated_taint(node.spec.taints, pod.spec.tolerations)
        if taint is not None:
            return (f"node(s) had untolerated taint(s) {{{taint.key}: {taint.value}}}",)
    if not matches_node_selection(pod.spec, node):
        return ("node(s) didn't match Pod's node affinity/selector",)
    return _short_of(demand, info)


def _short_of(demand: Mapping[str, int], info: NodeInfo) -> tuple[str, ...]:
    reasons = []
    if info.pods + 1 > info.allocatable.get(PODS_RESOURCE, 0):
        reasons.append("Too many pods")
    for name, amount in demand.items():
        if amount and amount > info.allocatable.get(name, 0) - info.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
    return tuple(reasons)


def least_allocated(demand: Mapping[str, int], info: NodeInfo) -> int:
    """0 to 100: the share of cpu and memory that would be left, averaged."""
    total = 0
    for name in _SCORED:
        room, left = info.allocatable.get(name, 0), info.left_after(name, demand)
        if room > 0 and left > 0:
            total += left * 100 // room
    return total // len(_SCORED)


def explain(nodes: int, refusals: Mapping[str, int]) -> str:
    """``0/3 nodes are available:

    1 Insufficient cpu, 2 node(s) were unschedulable. ...``, the FailedScheduling message.
    """
    if not nodes:
        return "no nodes available to schedule pods"
    listed = sorted(f"{count} {reason}" for reason, count in refusals.items())
    return f"0/{nodes} nodes are available: {', '.join(listed)}."
