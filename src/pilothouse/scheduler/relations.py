"""What a pod's place has to do with other pods: affinity, anti-affinity, and how evenly they lie.

A ``Relations`` is what one decision asks, for one pod and the snapshot as it is at that moment; it is made anew when
pods move. Nothing here looks through pods: every question is a look-up in counts that the snapshot keeps.
Facts: kube-scheduler v1.36 ``pkg/scheduler/framework/plugins/interpodaffinity`` and ``podtopologyspread``.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Protocol

from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.refusals import NO_DOMAIN, NOT_FAR, NOT_NEAR, REPELLED, UNEVEN, Refusal
from pilothouse.scheduler.scores import MAX_SCORE
from pilothouse.scheduler.snapshot import NodeInfo, Snapshot
from pilothouse.scheduler.tallies import Clause
from pilothouse.scheduler.terms import Term
from pilothouse.scheduler.wish import Spread, Wish


class Namespaces(Protocol):
    """What is known of namespaces."""

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of one; none if it is not known."""
        ...

    def matching(self, selector: Selector) -> frozenset[str]:
        """The names of those that match."""
        ...


Values = tuple[str, Mapping[str, int]]
"""A node label, and pods per value of it."""


class Relations:
    """See the module. ``refusal`` judges a node; without ``active`` there is nothing to judge."""

    __slots__ = ("_even", "_far", "_near", "_near_to_itself", "_repelled", "active")

    def __init__(self, snapshot: Snapshot, wish: Wish, namespaces: Namespaces) -> None:
        self._even = [_evenness(snapshot, wish, spread) for spread in wish.hard_spread]
        self._near: list[Values] = []
        self._near_to_itself = False
        self._far: list[Values] = []
        self._repelled: list[Values] = []
        terms = wish.terms
        if terms is not None:
            if terms.near:
                # A pod counts as near if all terms mean it, each by its own topology (``podMatchesAllAffinityTerms``).
                together = tuple(clause(term, namespaces) for term in terms.near)
                self._near = [_values(snapshot, term.topology_key, together) for term in terms.near]
                own_labels = namespaces.labels(wish.namespace)
                # The first of a group that wants to be together has nobody to go to.
                self._near_to_itself = not any(counts for _key, counts in self._near) and all(
                    term.matches(wish.namespace, own_labels, wish.labels) for term in terms.near
                )
            self._far = [_values(snapshot, term.topology_key, (clause(term, namespaces),)) for term in terms.far]
        if snapshot.repelling:
            own_labels = namespaces.labels(wish.namespace)
            for term, counts in snapshot.repelling.items():
                if term.matches(wish.namespace, own_labels, wish.labels):
                    key = term.topology_key
                    self._repelled.append((key, counts.per_value(key, snapshot.topology(key)).counts))
        self.active = bool(self._even or self._near or self._far or self._repelled)

    def refusal(self, info: NodeInfo) -> Refusal | None:
        """What speaks against the node, or None."""
        labels = info.labels
        for key, counts, room in self._even:
            value = labels.get(key)
            if value is None:
                return NO_DOMAIN
            if counts.get(value, 0) > room:
                return UNEVEN
        if self._near and not self._is_near(labels):
            return NOT_NEAR
        for key, counts in self._far:
            if labels.get(key) in counts:
                return NOT_FAR
        for key, counts in self._repelled:
            if labels.get(key) in counts:
                return REPELLED
        return None

    def keep(self, snapshot: Snapshot, found: list[int]) -> list[int]:
        """Of nodes by position those that have no ``refusal``: the same rules, one after the other for all of them."""
        for key, counts, room in self._even:
            column, get = snapshot.column(key), counts.get
            found = [i for i in found if (value := column[i]) is not None and get(value, 0) <= room]
        for key, counts in self._near:
            column = snapshot.column(key)
            if self._near_to_itself:
                found = [i for i in found if column[i] is not None]
            else:
                found = [i for i in found if column[i] in counts]
        for key, counts in (*self._far, *self._repelled):
            if counts:
                column = snapshot.column(key)
                found = [i for i in found if column[i] not in counts]
        return found

    def _is_near(self, labels: Mapping[str, str]) -> bool:
        near = True
        for key, counts in self._near:
            value = labels.get(key)
            if value is None:
                return False
            near = near and value in counts
        return near or self._near_to_itself


_Evenness = tuple[str, Mapping[str, int], int]
"""A node label, pods per value, and how many there may be already where one more may go."""


def _evenness(snapshot: Snapshot, wish: Wish, spread: Spread) -> _Evenness:
    """``maxSkew`` more than where there are fewest, the pod itself included if it counts.

    3, 1 and 2 pods in three zones, one more of the same kind, maxSkew 1: 1 + 1 - 1 = 1, so only the second zone does.
    """
    required = tuple(one.topology_key for one in wish.hard_spread)
    name, topology = snapshot.spread_topology(
        spread.topology_key, required, wish, affinity=spread.honors_affinity, taints=spread.honors_taints
    )
    tally = snapshot.tallies.get(((frozenset((wish.namespace,)), spread.selector),), leaving=False)
    domains = tally.per_value(name, topology)
    least = domains.least() if len(topology.sizes) >= spread.min_domains else 0
    return spread.topology_key, domains.counts, spread.max_skew + least - spread.selector.matches(wish.labels)


def clause(term: Term, namespaces: Namespaces) -> Clause:
    """The pods that a term means, with its namespaces resolved."""
    selector = term.namespace_selector
    if selector.selects_nothing:
        return term.namespaces, term.selector
    if selector.empty:
        return None, term.selector
    return term.namespaces | namespaces.matching(selector), term.selector


def _values(snapshot: Snapshot, key: str, clauses: tuple[Clause, ...]) -> Values:
    tally = snapshot.tallies.get(clauses, leaving=True)
    return key, tally.per_value(key, snapshot.topology(key)).counts


def relation_scores(snapshot: Snapshot, wish: Wish, namespaces: Namespaces, found: Sequence[int]) -> list[int] | None:
    """0 to 100 for nodes by position, by what the pod and the pods there feel for each other; None when all are equal.

    The pod's own preferences, those of placed pods towards it, and what placed pods need: each counts with its weight
    for every pod, on every node that is near by the term's topology.
    """
    pulls: list[tuple[str, Mapping[str, int], int]] = []
    if wish.terms is not None:
        for term, weight in wish.terms.scored:
            key, counts = _values(snapshot, term.topology_key, (clause(term, namespaces),))
            pulls.append((key, counts, weight))
    if snapshot.felt:
        own_labels = namespaces.labels(wish.namespace)
        for (term, weight), felt in snapshot.felt.items():
            if term.matches(wish.namespace, own_labels, wish.labels):
                key = term.topology_key
                pulls.append((key, felt.per_value(key, snapshot.topology(key)).counts, weight))
    raw: list[int] | None = None
    for key, counts, weight in pulls:
        if counts:
            column = snapshot.column(key)
            pull: dict[str | None, int] = {value: weight * count for value, count in counts.items()}
            part = [pull.get(column[i], 0) for i in found]
            raw = part if raw is None else list(map(operator.add, raw, part))
    if raw is None:
        return None
    lowest, highest = min(raw), max(raw)
    if lowest == highest:
        return None
    return [int(MAX_SCORE * ((score - lowest) / (highest - lowest))) for score in raw]
