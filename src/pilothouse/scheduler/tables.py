"""Which nodes fit, and how good they are by themselves, remembered per shape of pod.

Pods come in thousands from few templates, and each placement changes one node. A table answers from what it knew at
the pod before and looks again only at nodes that changed since; a node that nobody has asked about is not looked at.
So a decision costs one look per *changed* node, where kube-scheduler looks at every node it samples.
"""

from collections.abc import Hashable

from pilothouse.scheduler.filters import why_not
from pilothouse.scheduler.refusals import Refusal
from pilothouse.scheduler.scores import dislike, liking, resource_score
from pilothouse.scheduler.snapshot import NodeInfo, Snapshot
from pilothouse.scheduler.wish import Wish

UNKNOWN, NO = -2, -1
_TABLES_KEPT = 64


class Table:
    """Per position of ``snapshot.order``: ``scores`` has ``NO``, ``UNKNOWN`` or the resource score."""

    __slots__ = ("_likes", "_order_version", "_refusals", "_seen", "_wish", "scores")

    def __init__(self, wish: Wish) -> None:
        self._wish = wish  # any pod of the shape
        self._order_version = -1
        self._seen = 0
        self.scores: list[int] = []
        self._refusals: dict[int, Refusal] = {}
        self._likes: list[int] = []

    def refresh(self, snapshot: Snapshot) -> None:
        """Forget what is known of nodes that have changed."""
        changed = snapshot.changed_since(self._seen) if self._order_version == snapshot.order_version else None
        if changed is None:
            self.scores = [UNKNOWN] * len(snapshot.order)
            self._likes = [UNKNOWN] * len(self.scores) if self._wish.likes else []
            self._refusals.clear()
            self._order_version = snapshot.order_version
        else:
            scores = self.scores
            for index in changed:
                scores[index] = UNKNOWN
            if self._likes:
                for index in changed:
                    self._likes[index] = UNKNOWN
        self._seen = snapshot.change_count

    def look(self, info: NodeInfo) -> int:
        """Look at a node that is ``UNKNOWN``."""
        refusal = why_not(self._wish, info)
        if refusal is not None:
            self._refusals[info.index] = refusal
            score = NO
        else:
            score = resource_score(self._wish, info)
        self.scores[info.index] = score
        return score

    def refusal(self, index: int) -> Refusal:
        """Why the node at that position has ``NO``."""
        return self._refusals[index]

    def liking(self, info: NodeInfo) -> int:
        """The raw score of preferred node affinity."""
        known = self._likes[info.index]
        if known == UNKNOWN:
            known = self._likes[info.index] = liking(self._wish, info)
        return known

    def dislike(self, info: NodeInfo) -> int:
        """The raw score of taints that the pod would rather avoid."""
        return dislike(self._wish, info) if info.soft_taints else 0


class Tables:
    """The tables of the shapes used lately."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._tables: dict[Hashable, Table] = {}

    def get(self, wish: Wish) -> Table:
        """The table for such pods, up to date."""
        table = self._tables.pop(wish.shape, None)
        if table is None:
            if len(self._tables) >= _TABLES_KEPT:
                del self._tables[next(iter(self._tables))]
            table = Table(wish)
        self._tables[wish.shape] = table  # the one used last is the last to be forgotten
        table.refresh(self._snapshot)
        return table
