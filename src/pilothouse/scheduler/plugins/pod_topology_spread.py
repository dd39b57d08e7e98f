"""PodTopologySpread: hard constraints filter nodes, soft constraints and those of the system score them.

As kube-scheduler v1.36 ``plugins/podtopologyspread``: ``filtering.go``, ``scoring.go``, and ``plugin.go`` for
``systemDefaultConstraints``.
"""

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.machinery.labels import Selector
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.backend.match_counts import DomainMatchCounts, SelectorMatchCounts, Topology
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import (
    ZONE,
    NodeChange,
    NodeInfo,
    PodInfo,
    TopologySpreadConstraint,
    take,
)
from pilothouse.scheduler.plugins.normalize_score import MAX_NODE_SCORE
from pilothouse.semantics.node_affinity import matches_node_selection
from pilothouse.semantics.nodes import untolerated_taint

NAME = "PodTopologySpread"
_REASON = "node(s) didn't match pod topology spread constraints"
CONSTRAINTS_NOT_MATCH = Status(NAME, (_REASON,))
NODE_LABEL_NOT_MATCH = Status(NAME, (f"{_REASON} (missing required label)",), unresolvable=True)
HOSTNAME = "kubernetes.io/hostname"
_SYSTEM_DEFAULT_CONSTRAINTS = ((3, HOSTNAME), (5, ZONE))


class PreFilterState:
    """The state of the filter for one pod (``preFilterState``), computed again whenever pods on nodes change."""

    __slots__ = ("_constraints",)

    def __init__(self, cache: Cache, pod_info: PodInfo) -> None:
        constraints = pod_info.hard_constraints
        required = tuple(constraint.topology_key for constraint in constraints)
        self._constraints = [_max_match_num(cache, pod_info, constraint, required) for constraint in constraints]

    def filter_node(self, node_info: NodeInfo) -> Status | None:
        """Reject a node that lacks a topology key, or whose domain has too many matching pods already."""
        for key, counts, max_match_num in self._constraints:
            value = node_info.labels.get(key)
            if value is None:
                return NODE_LABEL_NOT_MATCH
            if counts.get(value, 0) > max_match_num:
                return CONSTRAINTS_NOT_MATCH
        return None

    def filter_nodes(self, cache: Cache, positions: Sequence[int]) -> Sequence[int]:
        """The positions that ``filter_node`` accepts: the same rules, each for all nodes at once."""
        for key, counts, max_match_num in self._constraints:
            values, get = cache.label_values(key), counts.get
            positions = [i for i in positions if (value := values[i]) is not None and get(value, 0) <= max_match_num]
        return positions


def _max_match_num(
    cache: Cache, pod_info: PodInfo, constraint: TopologySpreadConstraint, required: tuple[str, ...]
) -> tuple[str, Mapping[str, int], int]:
    """The topology key, the matching pods per domain, and how many a domain may have to get the pod.

    3, 1 and 2 matching pods in three zones, a pod that matches itself, maxSkew 1: 1 + 1 - 1 = 1, so only the second
    zone may get it.
    """
    counts = _domain_counts(cache, pod_info, constraint, required)
    enough_domains = len(counts.topology.nodes_by_value) >= constraint.min_domains
    min_match_num = counts.min_match_num() if enough_domains else 0
    self_match_num = constraint.selector.matches(pod_info.labels)
    return constraint.topology_key, counts.counts, constraint.max_skew + min_match_num - self_match_num


def _match_counts(cache: Cache, pod_info: PodInfo, constraint: TopologySpreadConstraint) -> SelectorMatchCounts:
    matchers = ((frozenset((pod_info.namespace,)), constraint.selector),)
    return cache.match_counts.get(matchers, include_terminating=False)


def _domain_counts(
    cache: Cache, pod_info: PodInfo, constraint: TopologySpreadConstraint, required: tuple[str, ...]
) -> DomainMatchCounts:
    key, topology = _eligible_topology(cache, pod_info, constraint, required)
    return _match_counts(cache, pod_info, constraint).by_domain(key, topology)


def _eligible_topology(
    cache: Cache, pod_info: PodInfo, constraint: TopologySpreadConstraint, required: tuple[str, ...]
) -> tuple[tuple[object, ...], Topology]:
    """The domains of the nodes that count for a constraint, and the key under which they are cached.

    Nodes count that have all ``required`` labels and, where the constraint honors these, match the node selector and
    affinity of the pod, and have no taint that it does not tolerate (``matchNodeInclusionPolicies``).
    """
    topology_key = constraint.topology_key
    node_affinity = pod_info.node_affinity if constraint.honor_node_affinity and pod_info.selects_nodes else None
    tolerations = pod_info.tolerations if constraint.honor_node_taints else None
    cache_key = (topology_key, required, node_affinity, tolerations)

    def build() -> dict[str, str]:
        domains = {}
        for node_info in cache.node_infos:
            labels = node_info.labels
            if topology_key not in labels or any(other not in labels for other in required):
                continue
            if node_affinity is not None and not matches_node_selection(pod_info.pod.spec, node_info.node):
                continue
            if tolerations is not None and untolerated_taint(node_info.do_not_schedule_taints, tolerations) is not None:
                continue
            domains[node_info.name] = labels[topology_key]
        return domains

    return cache_key, cache.topologies.get(cache_key, cache.topology_version, build)


# Scores


def build_default_constraints(selector: Selector | None) -> tuple[TopologySpreadConstraint, ...]:
    """The system default constraints for pods with this default selector; none for pods without one."""
    if selector is None or selector.empty:
        return ()
    return tuple(TopologySpreadConstraint(max_skew, key, selector) for max_skew, key in _SYSTEM_DEFAULT_CONSTRAINTS)


def score_nodes(
    cache: Cache, pod_info: PodInfo, positions: Sequence[int], default_selector: Selector | None
) -> list[int] | None:
    """0 to 100 for the nodes at ``positions``, highest where the fewest pods match; None when all are equal.

    A pod without its own constraints gets the system defaults. Counts are weighted by the logarithm of the number of
    domains, so that nodes do not outweigh zones. With its own constraints a node needs all topology keys to get a
    score; with the system defaults (``requireAllTopologies`` off) each key counts on the nodes that have it.
    """
    if pod_info.soft_constraints is None:
        constraints = build_default_constraints(default_selector)
        required: tuple[str, ...] = ()
    else:
        constraints = pod_info.soft_constraints
        required = tuple(constraint.topology_key for constraint in constraints)
    if not constraints:
        return None
    scored = positions
    for key in required:
        values = cache.label_values(key)
        scored = [i for i in scored if values[i] is not None]
    if not scored:
        return None
    # There are few different scores, however many nodes: they are computed by domain, or by count.
    groups: list[Any] = [None] * len(scored)
    score_of: dict[Any, float] = {None: 0.0}
    for constraint in constraints:
        more, score_of_more = _scores_by_group(cache, pod_info, constraint, required, scored)
        if len(score_of) == 1 and not any(score_of.values()):
            groups, score_of = more, score_of_more
        elif any(score_of_more.values()):
            groups = list(map(operator.add, map(score_of.__getitem__, groups), map(score_of_more.__getitem__, more)))
            score_of = {score: score for score in set(groups)}
    return _normalize_scores(groups, score_of, scored, positions)


def _scores_by_group(
    cache: Cache,
    pod_info: PodInfo,
    constraint: TopologySpreadConstraint,
    required: tuple[str, ...],
    scored: Sequence[int],
) -> tuple[list[Any], dict[Any, float]]:
    """A group for each of the nodes at ``scored``, and the raw score of each group for one constraint.

    Of hostnames every node is a domain, and the number of its matching pods is its group. As upstream, a node without
    the label (the group None) gets nothing, but counts as one more domain.
    """
    values = take(cache.label_values(constraint.topology_key), scored)
    skew = float(constraint.max_skew - 1)
    if constraint.topology_key == HOSTNAME:
        weight = math.log(len(scored) + 2)
        by_node = _match_counts(cache, pod_info, constraint).by_node
        counts: list[Any] = list(map(by_node.get, take(cache.node_names, scored), itertools.repeat(0)))
        if None in values:
            counts = [count if value is not None else None for count, value in zip(counts, values, strict=True)]
        return counts, {count: count * weight + skew if count is not None else 0.0 for count in set(counts)}
    different = set(values)
    weight = math.log(len(different) + 2)
    by_domain = _domain_counts(cache, pod_info, constraint, required).counts
    return values, {v: by_domain.get(v, 0) * weight + skew if v is not None else 0.0 for v in different}


def _normalize_scores(
    groups: Sequence[Any], score_of: Mapping[Any, float], scored: Sequence[int], positions: Sequence[int]
) -> list[int] | None:
    # Upstream's ``math.Round``: no score is negative.
    rounded = {group: int(score + 0.5) for group, score in score_of.items()}
    lowest, highest = min(rounded.values()), max(rounded.values())
    if lowest == highest and len(scored) == len(positions):
        return None
    final = {
        group: MAX_NODE_SCORE * (highest + lowest - whole) // highest if highest else MAX_NODE_SCORE
        for group, whole in rounded.items()
    }
    if len(scored) == len(positions):
        return list(map(final.__getitem__, groups))
    scores = {index: final[group] for index, group in zip(scored, groups, strict=True)}
    return [scores.get(index, 0) for index in positions]


# Queueing hints


def is_schedulable_after_pod_change(pod_info: PodInfo, other: PodInfo) -> bool:
    """Whether a hard constraint of the rejected pod counts a pod that was added to a node, removed or relabeled."""
    return other.namespace == pod_info.namespace and any(
        constraint.selector.matches(other.labels) for constraint in pod_info.hard_constraints
    )


def is_schedulable_after_node_change(pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether the node has or had all topology keys of the hard constraints, and was added or deleted, or has another
    value of one or other taints."""
    keys = [constraint.topology_key for constraint in pod_info.hard_constraints]
    old_labels = change.old.metadata.labels if change.old is not None else {}
    new_labels = change.new.metadata.labels if change.new is not None else {}
    matched, matches = all(key in old_labels for key in keys), all(key in new_labels for key in keys)
    if change.old is None or change.new is None:
        return matches if change.old is None else matched
    if not (change.labels or change.taints):
        return False
    if matched != matches:
        return True
    return matches and (
        any(old_labels[key] != new_labels[key] for key in keys) or change.old.spec.taints != change.new.spec.taints
    )
