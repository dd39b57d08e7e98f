"""Where a pod fits, and where it fits best. Pure.

Filters and their messages: kube-scheduler v1.36 ``pkg/scheduler/framework/plugins`` (nodename, nodeunschedulable,
tainttoleration, nodeaffinity, noderesources). Score: LeastAllocated over cpu and memory, as the default profile; ties
go to the node that was looked at first, and looking starts where the last pod's search ended, so that pods spread.
Every filter looks at one node alone, which ``scheduler`` relies on: what happens to a node can help a pod only there.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pilothouse.api.core import Pod, Taint
from pilothouse.scheduler.snapshot import ASSUMED_CPU, ASSUMED_MEMORY, NodeInfo
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import untolerated_taint
from pilothouse.semantics.pods import effective_requests

UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_MIN_FEASIBLE = 100


class Wish(msgspec.Struct, frozen=True):
    """A pod and what placement needs to know of it, computed once for all nodes."""

    pod: Pod
    demand: dict[str, int]
    positive: tuple[tuple[str, int], ...]
    """The resources it asks more than nothing of."""
    cpu: int
    memory: int
    selects: bool
    """It names nodes, by labels, affinity or name."""
    may_be_cordoned: bool


class Placement(msgspec.Struct, frozen=True):
    """A decision: the node, or why there is none (reason → number of nodes), and where the next search starts."""

    node_name: str | None
    refusals: dict[str, int]
    next_start: int


def wish_of(pod: Pod) -> Wish:
    """What a pod asks of its node."""
    spec, demand = pod.spec, effective_requests(pod)
    return Wish(
        pod=pod,
        demand=demand,
        positive=tuple((name, amount) for name, amount in demand.items() if amount > 0),
        cpu=demand.get("cpu") or ASSUMED_CPU,
        memory=demand.get("memory") or ASSUMED_MEMORY,
        selects=bool(spec.node_selector or spec.node_name or spec.affinity is not None),
        may_be_cordoned=untolerated_taint((UNSCHEDULABLE_TAINT,), spec.tolerations) is None,
    )


def feasible_limit(nodes: int) -> int:
    """How many fitting nodes are enough (``numFeasibleNodesToFind``): all of up to 100, then 50 % falling to 5 %."""
    if nodes < _MIN_FEASIBLE:
        return nodes
    percentage = max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, _MIN_FEASIBLE)


def place(wish: Wish, nodes: Sequence[NodeInfo], start: int) -> Placement:
    """Choose the best of the first ``feasible_limit`` nodes that fit, looking from ``start`` on."""
    refusals: dict[str, int] = {}
    count = len(nodes)
    if not count:
        return Placement(None, refusals, 0)
    limit = feasible_limit(count)
    start %= count
    best, best_score, looked = None, -1, 0
    for info in (*nodes[start:], *nodes[:start]) if start else nodes:
        looked += 1
        reasons = why_not(wish, info)
        if reasons:
            for reason in reasons:
                refusals[reason] = refusals.get(reason, 0) + 1
            continue
        score = least_allocated(wish, info)
        if score > best_score:
            best, best_score = info, score
        limit -= 1
        if not limit:
            break
    # Having looked at all of them, begin one further on: equal nodes take turns.
    next_start = (start + (looked if looked < count else 1)) % count
    return Placement(best.name if best is not None else None, refusals, next_start)


def why_not(wish: Wish, info: NodeInfo) -> tuple[str, ...]:
    """The reasons against a node in upstream's words; none means that the pod fits."""
    node = info.node
    if wish.selects and wish.pod.spec.node_name and wish.pod.spec.node_name != info.name:
        return ("node(s) didn't match the requested node name",)
    if node.spec.unschedulable and not wish.may_be_cordoned:
        return ("node(s) were unschedulable",)
    if info.taints and untolerated_taint(info.taints, wish.pod.spec.tolerations) is not None:
        return ("node(s) had untolerated taint(s)",)
    if wish.selects and not matches_node_selection(wish.pod.spec, node):
        return ("node(s) didn't match Pod's node affinity/selector",)
    if info.pods >= info.max_pods:
        return _short_of(wish, info)
    allocatable, requested = info.allocatable, info.requested
    for name, amount in wish.positive:
        if amount > allocatable.get(name, 0) - requested.get(name, 0):
            return _short_of(wish, info)
    return ()


def _short_of(wish: Wish, info: NodeInfo) -> tuple[str, ...]:
    reasons = []
    if info.pods >= info.max_pods:
        reasons.append("Too many pods")
    for name, amount in wish.positive:
        if amount > info.allocatable.get(name, 0) - info.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
    return tuple(reasons)


def least_allocated(wish: Wish, info: NodeInfo) -> int:
    """0 to 100: the share of cpu and memory that would be left, averaged.

    4 of 32 cpus and 64 of 256 GiB used, one cpu and no memory asked for: (32-5)/32 = 84, (256-64.2)/256 = 74, so 79.
    """
    total = 0
    left = info.cpu - info.cpu_used - wish.cpu
    if left > 0:
        total = left * 100 // info.cpu
    left = info.memory - info.memory_used - wish.memory
    if left > 0:
        total += left * 100 // info.memory
    return total // 2


def explain(nodes: int, refusals: Mapping[str, int]) -> str:
    """The message of FailedScheduling.

    ``0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.``
    """
    if not nodes:
        return "no nodes available to schedule pods"
    listed = sorted(f"{count} {reason}" for reason, count in refusals.items())
    return f"0/{nodes} nodes are available: {', '.join(listed)}."
