"""InterPodAffinity: affinity and anti-affinity of the pod, and of the pods that are on nodes already.

Nothing here iterates over pods: match counts are read from the cache. As kube-scheduler v1.36
``plugins/interpodaffinity``.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Protocol

from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.backend.match_counts import PodMatcher
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import AffinityTerm, NodeChange, NodeInfo, PodInfo
from pilothouse.scheduler.plugins.normalize_score import MAX_NODE_SCORE

NAME = "InterPodAffinity"
AFFINITY_RULES_NOT_MATCH = Status(NAME, ("node(s) didn't match pod affinity rules",), unresolvable=True)
ANTI_AFFINITY_RULES_NOT_MATCH = Status(NAME, ("node(s) didn't match pod anti-affinity rules",))
EXISTING_ANTI_AFFINITY_RULES_NOT_MATCH = Status(NAME, ("node(s) didn't satisfy existing pods anti-affinity rules",))

_TopologyCounts = tuple[str, Mapping[str, int]]
"""A topology key, and the number of matching pods per domain."""


class NamespaceLister(Protocol):
    """The namespaces, for ``namespaceSelector`` of terms."""

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it does not exist."""
        ...

    def select(self, selector: Selector) -> frozenset[str]:
        """The names of the namespaces that match."""
        ...


class PreFilterState:
    """The state of the filter for one pod (``preFilterState``), computed again whenever pods on nodes change."""

    __slots__ = ("_affinity", "_anti_affinity", "_existing_anti_affinity", "_is_first_of_group")

    def __init__(self, cache: Cache, pod_info: PodInfo, namespaces: NamespaceLister) -> None:
        self._affinity: list[_TopologyCounts] = []
        self._is_first_of_group = False
        self._anti_affinity: list[_TopologyCounts] = []
        self._existing_anti_affinity: list[_TopologyCounts] = []
        terms = pod_info.affinity_terms
        if terms is not None:
            if terms.required_affinity:
                # A pod counts only if all terms match it, each in its own topology (``podMatchesAllAffinityTerms``).
                matchers = tuple(_pod_matcher(term, namespaces) for term in terms.required_affinity)
                keys = dict.fromkeys(term.topology_key for term in terms.required_affinity)
                self._affinity = [_topology_counts(cache, key, matchers) for key in keys]
                # The first pod of a group with affinity to itself may go anywhere.
                self._is_first_of_group = not any(counts for _key, counts in self._affinity) and all(
                    _matches(term, pod_info, namespaces) for term in terms.required_affinity
                )
            self._anti_affinity = [
                _topology_counts(cache, term.topology_key, (_pod_matcher(term, namespaces),))
                for term in terms.required_anti_affinity
            ]
        namespace_labels = namespaces.labels(pod_info.namespace)
        for term, counts in cache.existing_anti_affinity.items():
            if term.matches(pod_info.namespace, namespace_labels, pod_info.labels):
                key = term.topology_key
                self._existing_anti_affinity.append((key, counts.by_domain(key, cache.topology(key)).counts))

    def __bool__(self) -> bool:
        return bool(self._affinity or self._anti_affinity or self._existing_anti_affinity)

    def filter_node(self, node_info: NodeInfo) -> Status | None:
        """Reject a node by one of the rules."""
        labels = node_info.labels
        if self._affinity and not self._satisfies_affinity(labels):
            return AFFINITY_RULES_NOT_MATCH
        for key, counts in self._anti_affinity:
            if labels.get(key) in counts:
                return ANTI_AFFINITY_RULES_NOT_MATCH
        for key, counts in self._existing_anti_affinity:
            if labels.get(key) in counts:
                return EXISTING_ANTI_AFFINITY_RULES_NOT_MATCH
        return None

    def _satisfies_affinity(self, labels: Mapping[str, str]) -> bool:
        satisfied = True
        for key, counts in self._affinity:
            value = labels.get(key)
            if value is None:
                return False
            satisfied = satisfied and value in counts
        return satisfied or self._is_first_of_group

    def filter_nodes(self, cache: Cache, positions: Sequence[int]) -> Sequence[int]:
        """The positions that ``filter_node`` accepts: the same rules, each for all nodes at once."""
        for key, counts in self._affinity:
            values = cache.label_values(key)
            if self._is_first_of_group:
                positions = [i for i in positions if values[i] is not None]
            else:
                positions = [i for i in positions if values[i] in counts]
        for key, counts in (*self._anti_affinity, *self._existing_anti_affinity):
            if counts:
                values = cache.label_values(key)
                positions = [i for i in positions if values[i] not in counts]
        return positions


def _matches(term: AffinityTerm, pod_info: PodInfo, namespaces: NamespaceLister) -> bool:
    return term.matches(pod_info.namespace, namespaces.labels(pod_info.namespace), pod_info.labels)


def _pod_matcher(term: AffinityTerm, namespaces: NamespaceLister) -> PodMatcher:
    """The pods that a term selects, with ``namespaceSelector`` resolved to names."""
    selector = term.namespace_selector
    if selector.selects_nothing:
        return term.namespaces, term.selector
    if selector.empty:
        return None, term.selector
    return term.namespaces | namespaces.select(selector), term.selector


def _topology_counts(cache: Cache, key: str, matchers: tuple[PodMatcher, ...]) -> _TopologyCounts:
    match_counts = cache.match_counts.get(matchers, include_terminating=True)
    return key, match_counts.by_domain(key, cache.topology(key)).counts


def score_nodes(
    cache: Cache, pod_info: PodInfo, namespaces: NamespaceLister, positions: Sequence[int]
) -> list[int] | None:
    """0 to 100 for the nodes at ``positions``; None when all are equal.

    The preferred terms of the pod count, and the preferred and required terms of pods on nodes that match it: each with
    its weight, for every matching pod, on every node of the same topology domain.
    """
    weighted: list[tuple[str, Mapping[str, int], int]] = []
    if pod_info.affinity_terms is not None:
        for term, weight in pod_info.affinity_terms.preferred:
            key, counts = _topology_counts(cache, term.topology_key, (_pod_matcher(term, namespaces),))
            weighted.append((key, counts, weight))
    namespace_labels = namespaces.labels(pod_info.namespace)
    for (term, weight), match_counts in cache.existing_score_terms.items():
        if term.matches(pod_info.namespace, namespace_labels, pod_info.labels):
            key = term.topology_key
            weighted.append((key, match_counts.by_domain(key, cache.topology(key)).counts, weight))
    raw: list[int] | None = None
    for key, counts, weight in weighted:
        if counts:
            values = cache.label_values(key)
            score_of: dict[str | None, int] = {value: weight * count for value, count in counts.items()}
            part = [score_of.get(values[i], 0) for i in positions]
            raw = part if raw is None else list(map(operator.add, raw, part))
    if raw is None:
        return None
    lowest, highest = min(raw), max(raw)
    if lowest == highest:
        return None
    return [int(MAX_NODE_SCORE * ((score - lowest) / (highest - lowest))) for score in raw]


# Queueing hints


def is_schedulable_after_pod_added(pod_info: PodInfo, added: PodInfo, namespaces: NamespaceLister) -> bool:
    """Whether all affinity terms of the rejected pod match the pod that was added to a node."""
    terms = pod_info.affinity_terms
    if terms is None or not terms.required_affinity:
        return False
    return all(_matches(term, added, namespaces) for term in terms.required_affinity)


def is_schedulable_after_pod_removed(pod_info: PodInfo, removed: PodInfo, namespaces: NamespaceLister) -> bool:
    """Whether anti-affinity of one of the two pods matched the other one."""
    terms, other_terms = pod_info.affinity_terms, removed.affinity_terms
    return (
        terms is not None and any(_matches(term, removed, namespaces) for term in terms.required_anti_affinity)
    ) or (
        other_terms is not None
        and any(_matches(term, pod_info, namespaces) for term in other_terms.required_anti_affinity)
    )


def is_schedulable_after_node_change(pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether the node joins another domain of an affinity term, or leaves one of an anti-affinity term."""
    terms = pod_info.affinity_terms
    if terms is None or change.new is None or not (change.added or change.labels):
        return False
    new_labels = change.new.metadata.labels
    if change.old is None:
        return bool(terms.required_anti_affinity) or any(t.topology_key in new_labels for t in terms.required_affinity)
    old_labels = change.old.metadata.labels
    return any(
        term.topology_key in new_labels and old_labels.get(term.topology_key) != new_labels[term.topology_key]
        for term in terms.required_affinity
    ) or any(
        term.topology_key in old_labels and old_labels[term.topology_key] != new_labels.get(term.topology_key)
        for term in terms.required_anti_affinity
    )
