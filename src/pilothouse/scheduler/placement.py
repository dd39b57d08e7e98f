"""Where a pod goes: the nodes that fit, as many as are enough, and the best of them.

Nothing is written here; chance comes from the stream that is passed in. As kube-scheduler v1.36
(``pkg/scheduler/schedule_one.go``): the nominated node first, then a search that begins where the last one ended and
stops when enough nodes fit; then scores; equal ones are decided by lot.
"""

import contextlib
import random
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.filters import why_not
from pilothouse.scheduler.pod_volumes import VOLUME_BINDING, PodVolumes
from pilothouse.scheduler.refusals import CONTRADICTION, NO_NODES, NOT_NAMED, Refusal, explain, tally
from pilothouse.scheduler.relations import Namespaces, Relations, relation_scores
from pilothouse.scheduler.scores import (
    AFFINITY_WEIGHT,
    RELATION_WEIGHT,
    SPREAD_WEIGHT,
    TAINT_WEIGHT,
    normalized,
)
from pilothouse.scheduler.snapshot import NodeInfo, Placed, Snapshot
from pilothouse.scheduler.spreading import default_spread, spread_scores
from pilothouse.scheduler.tables import NO, UNKNOWN, Table, Tables
from pilothouse.scheduler.volumes import Volumes
from pilothouse.scheduler.wish import Wish

NO_VOLUMES = Refusal(VOLUME_BINDING, ("pod has a claim that cannot be had",), final=True)
"""Of every node, for a pod whose claims are no good on any: never shown, as the pod is told of the claim itself."""

_MIN_FEASIBLE = 100
_STRETCH = 64

Likes = Callable[[Pod], Selector | None]
"""What selects the pods that are like this one (``Owners.selector``)."""


class Placement(msgspec.Struct, frozen=True):
    """A decision: the node; or why there is none. ``before`` is what was wrong with the pod itself.

    ``refusals`` are those of ``infos``, one each, side by side rather than in pairs: thousands of pairs per attempt are
    work for the garbage collector. Of ``nodes`` there are more when the pod names the only ones that count.
    """

    node_name: str | None
    infos: Sequence[NodeInfo] = ()
    refusals: Sequence[Refusal] = ()
    nodes: int = 0
    before: str = ""
    plugin: str = ""
    """Who says what is wrong with the pod itself."""

    def message(self, after: str = "") -> str:
        """What the user is told when there is no node; ``after`` is what came of preemption."""
        if not self.nodes:
            return NO_NODES
        counts = tally(self.refusals)
        left = self.nodes - len(self.refusals)
        if left and not self.before:
            counts[NOT_NAMED] = left
        return explain(self.nodes, counts, before=self.before, after=after)


def feasible_limit(nodes: int) -> int:
    """How many fitting nodes are enough (``numFeasibleNodesToFind``): all of up to 100, then 50 % falling to 5 %."""
    if nodes < _MIN_FEASIBLE:
        return nodes
    percentage = max(50 - nodes // 125, 5)
    return max(nodes * percentage // 100, _MIN_FEASIBLE)


class Placer:
    """Places pods on the nodes of one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        namespaces: Namespaces,
        likes: Likes,
        chance: random.Random,
        volumes: Volumes | None = None,
    ) -> None:
        self.snapshot = snapshot
        self._volumes = volumes
        self._looked: tuple[Wish, int, PodVolumes] | None = None
        self._namespaces = namespaces
        self._likes = likes
        self._chance = chance
        self._tables = Tables(snapshot)
        self._start = 0

    def place(self, wish: Wish) -> Placement:
        """Decide. The snapshot is the same afterwards."""
        order = self.snapshot.order
        if not order:
            return Placement(None)
        if wish.names is not None and not wish.names:
            return Placement(None, nodes=len(order), before=CONTRADICTION, plugin=NOT_NAMED.plugin)
        volumes = self.volumes(wish)
        if volumes is not None and volumes.problem:
            return Placement(None, nodes=len(order), before=volumes.problem, plugin=VOLUME_BINDING)
        relations = self.relations(wish)
        nominated = self.snapshot.nodes.get(self.snapshot.nomination(wish.key))
        if nominated is not None and self.refusal(wish, nominated, relations) is None:
            return Placement(nominated.name, nodes=len(order))
        if wish.names is not None:
            return self._place_by_name(wish, relations)
        table = self._tables.get(wish)
        found = self._search(wish, table, relations)
        if not found:
            return Placement(None, order, self._refusals(wish, table, relations), len(order))
        return Placement(self._best(wish, table, found).name, nodes=len(order))

    def _place_by_name(self, wish: Wish, relations: Relations) -> Placement:
        """The short way: the pod names its nodes, and nobody looks at any other."""
        assert wish.names is not None
        nodes = self.snapshot.nodes
        found: list[int] = []
        looked_at: list[NodeInfo] = []
        refusals: list[Refusal] = []
        for name in sorted(wish.names):
            info = nodes.get(name)
            if info is None:
                continue
            refusal = self.refusal(wish, info, relations)
            if refusal is None:
                found.append(info.index)
            else:
                looked_at.append(info)
                refusals.append(refusal)
        if not found:
            return Placement(None, looked_at, refusals, len(nodes))
        if len(found) == 1:
            return Placement(self.snapshot.order[found[0]].name, nodes=len(nodes))
        table = self._tables.get(wish)
        for index in found:
            if table.scores[index] == UNKNOWN:
                table.look(self.snapshot.order[index])
        return Placement(self._best(wish, table, found).name, nodes=len(nodes))

    def _search(self, wish: Wish, table: Table, relations: Relations) -> list[int]:
        """The positions of the first nodes that fit, as many as are enough.

        Nodes are judged in stretches, one rule for all nodes of a stretch, which is several times faster than one node
        after the other.
        """
        order, scores, nominated = self.snapshot.order, table.scores, self.snapshot.nominated
        volumes = self.volumes(wish)
        count = len(order)
        start = self._start % count
        limit = feasible_limit(count)
        found: list[int] = []
        looked = 0
        while looked < count and len(found) < limit:
            low = (start + looked) % count
            high = min(low + max(limit - len(found), _STRETCH), count, low + count - looked)
            _look_at_unknown(order, table, low, high)
            stretch = scores[low:high]
            fitting = list(range(low, high)) if NO not in stretch else [i for i in range(low, high) if scores[i] >= 0]
            if volumes is not None:
                fitting = [i for i in fitting if volumes.refusal(order[i].node) is None]
            if relations.active:
                fitting = relations.keep(self.snapshot, fitting)
            if nominated:
                fitting = [
                    i
                    for i in fitting
                    if order[i].name not in nominated or self._against_nominated(wish, order[i]) is None
                ]
            found += fitting
            looked += high - low
        if len(found) > limit:
            del found[limit:]
            looked = (found[-1] - start) % count + 1
        self._start = (start + looked) % count
        return found

    def _refusals(self, wish: Wish, table: Table, relations: Relations) -> list[Refusal]:
        """What spoke against each node, when none was found."""
        refusals: list[Refusal] = []
        volumes = self.volumes(wish)
        for index, info in enumerate(self.snapshot.order):
            if table.scores[index] == NO:
                refusals.append(table.refusal(index))
            else:
                refusal = volumes.refusal(info.node) if volumes is not None else None
                refusal = refusal or relations.refusal(info) or self._against_nominated(wish, info)
                assert refusal is not None, "a node that nothing speaks against would have been found"
                refusals.append(refusal)
        return refusals

    # One node

    def relations(self, wish: Wish) -> Relations:
        """What the pod has to do with others, as things are now."""
        return Relations(self.snapshot, wish, self._namespaces)

    def refusal(self, wish: Wish, info: NodeInfo, relations: Relations | None = None) -> Refusal | None:
        """What speaks against the node, by itself, for other pods' sake, or for those that were promised its room."""
        refusal = why_not(wish, info) or self._volume_refusal(wish, info)
        refusal = refusal or (relations or self.relations(wish)).refusal(info)
        return refusal or self._against_nominated(wish, info)

    def volumes(self, wish: Wish) -> PodVolumes | None:
        """What the pod's claims say, if it has any. Remembered until something is different."""
        if not wish.claims or self._volumes is None:
            return None
        looked = self._looked
        if looked is None or looked[0] is not wish or looked[1] != self._volumes.state:
            looked = self._looked = (wish, self._volumes.state, self._volumes.of(wish))
        return looked[2]

    def _volume_refusal(self, wish: Wish, info: NodeInfo) -> Refusal | None:
        volumes = self.volumes(wish)
        if volumes is None:
            return None
        return NO_VOLUMES if volumes.problem else volumes.refusal(info.node)

    def _against_nominated(self, wish: Wish, info: NodeInfo) -> Refusal | None:
        """Whether the pod fits beside those of its priority and above that wait for room on this node.

        It must fit without them too, which the caller has seen to: they may never come (upstream's
        ``RunFilterPluginsWithNominatedPods``).
        """
        waiting = [
            Placed(other, info.name, assumed=True)
            for key, other in self.snapshot.nominated.get(info.name, {}).items()
            if other.priority >= wish.priority and key != wish.key and key not in info.placed
        ]
        if not waiting:
            return None
        for placed in waiting:
            self._try(placed, info, 1)
        refusal = why_not(wish, info) or self.relations(wish).refusal(info)
        for placed in waiting:
            self._try(placed, info, -1)
        return refusal

    def _try(self, placed: Placed, info: NodeInfo, sign: int) -> None:
        """Count the pod for or against the node, to see what would be. Whoever does so takes it back."""
        info.count(placed, sign)
        self.snapshot.relate(placed, sign)

    def without(self, placed: Placed, info: NodeInfo) -> None:
        """As if the pod were not there, until ``with_again``."""
        self._try(placed, info, -1)

    def with_again(self, placed: Placed, info: NodeInfo) -> None:
        """Take ``without`` back."""
        self._try(placed, info, 1)

    # The best node

    def _best(self, wish: Wish, table: Table, found: Sequence[int]) -> NodeInfo:
        order = self.snapshot.order
        if len(found) == 1:
            return order[found[0]]
        totals = self.totals(wish, table, found)
        highest = max(totals)
        best = [index for index, total in zip(found, totals, strict=True) if total == highest]
        return order[best[0] if len(best) == 1 else best[self._chance.randrange(len(best))]]

    def totals(self, wish: Wish, table: Table, found: Sequence[int]) -> list[int]:
        """The weighted scores of nodes that fit, by position, but for what would be the same for all of them."""
        snapshot, order, scores = self.snapshot, self.snapshot.order, table.scores
        totals = [scores[index] for index in found]
        if wish.likes:
            totals = _plus(totals, normalized([table.liking(order[index]) for index in found]), AFFINITY_WEIGHT)
        if snapshot.soft_tainted:
            raw = [table.dislike(order[index]) for index in found]
            totals = _plus(totals, normalized(raw, reverse=True), TAINT_WEIGHT)
        spreads = wish.soft_spread
        defaults = spreads is None
        if spreads is None:
            spreads = default_spread(self._likes(wish.pod))
        if spreads:
            even = spread_scores(snapshot, wish, spreads, found, defaults=defaults)
            totals = _plus(totals, even, SPREAD_WEIGHT)
        if wish.terms is not None or snapshot.felt:
            felt = relation_scores(snapshot, wish, self._namespaces, found)
            totals = _plus(totals, felt, RELATION_WEIGHT)
        return totals


def _look_at_unknown(order: Sequence[NodeInfo], table: Table, low: int, high: int) -> None:
    scores, position = table.scores, low
    with contextlib.suppress(ValueError):  # until there is none
        while True:
            position = scores.index(UNKNOWN, position, high)
            table.look(order[position])


def _plus(totals: list[int], scores: Sequence[int] | None, weight: int) -> list[int]:
    if scores is None:
        return totals
    return [total + weight * score for total, score in zip(totals, scores, strict=True)]
