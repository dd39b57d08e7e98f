"""How good a node is for a pod, by its resources, labels and taints. Pure.

kube-scheduler v1.36, default profile: NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation weigh 1,
NodeAffinity 2, TaintToleration 3; PodTopologySpread and InterPodAffinity (2 each) are in ``spreading`` and
``relations``. ImageLocality is left out: nobody here knows which images a node has.
"""

from collections.abc import Sequence

from pilothouse.scheduler.snapshot import NodeInfo
from pilothouse.scheduler.wish import Wish
from pilothouse.semantics.node_affinity import matches_node_selector_term
from pilothouse.semantics.nodes import tolerates

MAX_SCORE = 100
AFFINITY_WEIGHT = 2
TAINT_WEIGHT = 3
RELATION_WEIGHT = 2
SPREAD_WEIGHT = 2


def resource_score(wish: Wish, info: NodeInfo) -> int:
    """LeastAllocated plus BalancedAllocation, 0 to 200."""
    least = least_allocated(wish, info)
    return least if wish.best_effort else least + balanced_allocation(wish, info)


def least_allocated(wish: Wish, info: NodeInfo) -> int:
    """0 to 100: the share of cpu and memory that would be left, averaged over what the node has.

    4 of 32 cpus and 64 of 256 GiB used, one cpu and no memory asked for: (32-5)/32 = 84, (256-64.2)/256 = 74, so 79.
    """
    total = weights = 0
    if info.cpu:
        weights = 1
        left = info.cpu - info.cpu_used - wish.cpu
        if left > 0:
            total = left * MAX_SCORE // info.cpu
    if info.memory:
        weights += 1
        left = info.memory - info.memory_used - wish.memory
        if left > 0:
            total += left * MAX_SCORE // info.memory
    return total // weights if weights else 0


def balanced_allocation(wish: Wish, info: NodeInfo) -> int:
    """50 to 100: whether cpu and memory would be used more evenly than before; 75 when nothing changes.

    Since v1.36 the change counts, not the result (kubernetes#135573).
    """
    requested = info.requested
    cpu, memory = requested.get("cpu", 0), requested.get("memory", 0)
    before = _balance(cpu, memory, info)
    after = _balance(cpu + wish.demand.get("cpu", 0), memory + wish.demand.get("memory", 0), info)
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2


def _balance(cpu: int, memory: int, info: NodeInfo) -> int:
    if not info.cpu or not info.memory:
        return MAX_SCORE
    return int((1 - abs(min(cpu / info.cpu, 1.0) - min(memory / info.memory, 1.0)) / 2) * MAX_SCORE)


def liking(wish: Wish, info: NodeInfo) -> int:
    """The weights of the preferred node affinity terms that hold, added up."""
    return sum(
        term.weight for term in wish.likes if term.weight and matches_node_selector_term(term.preference, info.node)
    )


def dislike(wish: Wish, info: NodeInfo) -> int:
    """How many PreferNoSchedule taints the pod does not tolerate."""
    return sum(not any(tolerates(toleration, taint) for toleration in wish.tolerations) for taint in info.soft_taints)


def normalized(raw: Sequence[int], *, reverse: bool = False) -> list[int]:
    """0 to 100 in proportion to the highest (``DefaultNormalizeScore``); ``reverse`` for what is better when lower."""
    highest = max(raw, default=0)
    if not highest:
        return [MAX_SCORE if reverse else score for score in raw]
    if reverse:
        return [MAX_SCORE - MAX_SCORE * score // highest for score in raw]
    return [MAX_SCORE * score // highest for score in raw]
