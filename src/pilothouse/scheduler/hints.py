"""Whether something that happened can help a pod that fitted nowhere. Pure.

A pod that waits is tried again only for events that touch what refused it, as upstream's queueing hints
(kube-scheduler v1.36, ``EventsToRegister`` of each plugin). What happens on one node is judged by looking at that node.
What spreading and affinity refused may be healed from far away: by any pod they count, and by labels of nodes.
"""

from collections.abc import Hashable

import msgspec

from pilothouse.api.core import Node
from pilothouse.scheduler.placement import Placer
from pilothouse.scheduler.refusals import NOT_NAMED, Refusal
from pilothouse.scheduler.relations import Namespaces
from pilothouse.scheduler.snapshot import NodeInfo, Placed
from pilothouse.scheduler.wish import Wish

SPREAD, AFFINITY = "PodTopologySpread", "InterPodAffinity"
RELATIONS = (SPREAD, AFFINITY)
"""The filters that look at pods on other nodes."""


class NodeHint:
    """Something changed on one node. Made per event: pods of one shape get one answer."""

    def __init__(self, placer: Placer, info: NodeInfo) -> None:
        self._placer = placer
        self._info = info
        self._known: dict[Hashable, Refusal | None] = {}

    def helps(self, wish: Wish, rejected: frozenset[str]) -> bool:
        """Whether the pod would fit on that node now; or whether other pods keep it away, which it does not know yet
        because the node was refused for something else before. Its next attempt lets it wait for those."""
        refusal = self._refusal(wish)
        return refusal is None or (refusal.plugin in RELATIONS and refusal.plugin not in rejected)

    def _refusal(self, wish: Wish) -> Refusal | None:
        snapshot = self._placer.snapshot
        if (
            wish.terms is not None
            or wish.hard_spread
            or wish.claims
            or snapshot.repelling
            or snapshot.nomination(wish.key)
        ):
            return self._look(wish)
        key = (wish.shape, wish.priority) if snapshot.nominated else wish.shape
        if key not in self._known:
            self._known[key] = self._look(wish)
        return self._known[key]

    def _look(self, wish: Wish) -> Refusal | None:
        if wish.names is not None and self._info.name not in wish.names:
            return NOT_NAMED
        return self._placer.refusal(wish, self._info)


class TopologyChange(msgspec.Struct, frozen=True):
    """What domains a node has come into or left. ``labels`` are those it has or had, ``moved`` those that changed."""

    labels: frozenset[str]
    moved: frozenset[str]
    taints: bool


def topology_change(old: Node | None, new: Node | None) -> TopologyChange:
    """What is different: a node came (no ``old``), went (no ``new``), or changed."""
    before = old.metadata.labels if old is not None else {}
    after = new.metadata.labels if new is not None else {}
    labels = frozenset(before) | frozenset(after)
    moved = frozenset(key for key in labels if before.get(key) != after.get(key))
    taints = old is not None and new is not None and old.spec.taints != new.spec.taints
    return TopologyChange(labels, moved, taints)


def topology_helps(wish: Wish, rejected: frozenset[str], change: TopologyChange | None) -> bool:
    """A node came, went, or has other labels or taints: whether that moves a domain in which the pod's relations
    count. Which nodes count for spreading can depend on any of their labels, and on their taints."""
    if change is None or not (change.moved or change.taints):
        return False
    if SPREAD in rejected and any(
        spread.topology_key in change.labels and (change.moved or spread.honors_taints) for spread in wish.hard_spread
    ):
        return True
    terms = wish.terms
    return (
        AFFINITY in rejected
        and terms is not None
        and any(term.topology_key in change.moved for term in (*terms.near, *terms.far))
    )


def arrival_helps(wish: Wish, rejected: frozenset[str], placed: Placed, namespaces: Namespaces) -> bool:
    """A pod came to a node, or has other labels: whether the waiting one may be near it, or lie more evenly now."""
    if SPREAD in rejected and _counts_in(wish, placed):
        return True
    if AFFINITY not in rejected or wish.terms is None or not wish.terms.near:
        return False
    other = placed.wish
    labels = namespaces.labels(other.namespace)
    return all(term.matches(other.namespace, labels, other.labels) for term in wish.terms.near)


def departure_helps(wish: Wish, rejected: frozenset[str], placed: Placed, namespaces: Namespaces) -> bool:
    """A pod left a node: whether it was in the way of the waiting one's relations, apart from the room it took."""
    if SPREAD in rejected and _counts_in(wish, placed):
        return True
    if AFFINITY not in rejected:
        return False
    other = placed.wish
    if wish.terms is not None:
        labels = namespaces.labels(other.namespace)
        if any(term.matches(other.namespace, labels, other.labels) for term in wish.terms.far):
            return True
    if other.terms is not None:
        labels = namespaces.labels(wish.namespace)
        return any(term.matches(wish.namespace, labels, wish.labels) for term in other.terms.far)
    return False


def _counts_in(wish: Wish, placed: Placed) -> bool:
    other = placed.wish
    return other.namespace == wish.namespace and any(
        spread.selector.matches(other.labels) for spread in wish.hard_spread
    )
