"""What one node says to a pod by itself: name, cordon, taints, labels, ports, resources. Pure.

``tables`` remembers the answers, ``relations`` adds what depends on pods elsewhere. Filters and their order:
kube-scheduler v1.36 ``pkg/scheduler/framework/plugins`` (nodeunschedulable, nodename, tainttoleration, nodeaffinity,
nodeports, noderesources).
"""

from pilothouse.scheduler.refusals import (
    CORDONED,
    NOT_SELECTED,
    OTHER_NAME,
    PORTS_TAKEN,
    TAINTED,
    Refusal,
    too_little,
)
from pilothouse.scheduler.snapshot import NodeInfo
from pilothouse.scheduler.wish import Wish
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import untolerated_taint


def why_not(wish: Wish, info: NodeInfo) -> Refusal | None:
    """The first refusal, or None when nothing on the node itself is against the pod."""
    node = info.node
    if node.spec.unschedulable and not wish.may_be_cordoned:
        return CORDONED
    if wish.selects and wish.pod.spec.node_name and wish.pod.spec.node_name != info.name:
        return OTHER_NAME
    if info.taints and untolerated_taint(info.taints, wish.tolerations) is not None:
        return TAINTED
    if wish.selects and not matches_node_selection(wish.pod.spec, node):
        return NOT_SELECTED
    if wish.ports and not info.has_ports(wish.ports):
        return PORTS_TAKEN
    if len(info.placed) >= info.max_pods:
        return _short_of(wish, info)
    allocatable, requested = info.allocatable, info.requested
    for name, amount in wish.positive:
        if amount > allocatable.get(name, 0) - requested.get(name, 0):
            return _short_of(wish, info)
    return None


def _short_of(wish: Wish, info: NodeInfo) -> Refusal:
    """All that is short, in upstream's order: pods, cpu, memory, ephemeral storage, then the rest by name."""
    reasons = ["Too many pods"] if len(info.placed) >= info.max_pods else []
    final = False
    for name, amount in sorted(wish.positive, key=_resource_rank):
        there = info.allocatable.get(name, 0)
        if amount > there - info.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            # No pod that could be removed makes the node larger.
            final = final or amount > there
    return too_little(tuple(reasons), final)


_RANKS = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


def _resource_rank(item: tuple[str, int]) -> tuple[int, str]:
    return _RANKS.get(item[0], 3), item[0]
