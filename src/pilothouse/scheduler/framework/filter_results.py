"""The results of filters and scores that depend on one node only, cached per signature of pods.

Thousands of pods come from few templates, and each decision changes one node. The cache answers from earlier pods of
the same signature and runs the plugins again only for nodes that changed, where kube-scheduler runs them for every node
that it samples. (Upstream's ``pkg/scheduler/framework/runtime/batch.go`` reuses results by signature too.)
"""

from collections.abc import Hashable

from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.runtime import filter_node
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo
from pilothouse.scheduler.plugins import node_affinity
from pilothouse.scheduler.plugins.node_resources_balanced_allocation import balanced_allocation
from pilothouse.scheduler.plugins.node_resources_fit import least_allocated

UNKNOWN, REJECTED = -2, -1
_MAX_SIGNATURES = 64


class FilterResults:
    """The results for one signature. ``scores`` has the resource score by position of the node, or ``REJECTED``, or
    ``UNKNOWN``."""

    __slots__ = ("_change_count", "_node_affinity_scores", "_node_order_version", "_pod_info", "_statuses", "scores")

    def __init__(self, pod_info: PodInfo) -> None:
        self._pod_info = pod_info  # any pod with the signature
        self._node_order_version = -1
        self._change_count = 0
        self.scores: list[int] = []
        self._statuses: dict[int, Status] = {}
        self._node_affinity_scores: list[int] = []

    def refresh(self, cache: Cache) -> None:
        """Drop the results of nodes that have changed."""
        same_order = self._node_order_version == cache.node_order_version
        changed = cache.changed_since(self._change_count) if same_order else None
        if changed is None:
            self.scores = [UNKNOWN] * len(cache.node_infos)
            self._node_affinity_scores = (
                [UNKNOWN] * len(self.scores) if self._pod_info.preferred_node_affinity_terms else []
            )
            self._statuses.clear()
            self._node_order_version = cache.node_order_version
        else:
            scores = self.scores
            for index in changed:
                scores[index] = UNKNOWN
            if self._node_affinity_scores:
                for index in changed:
                    self._node_affinity_scores[index] = UNKNOWN
        self._change_count = cache.change_count

    def filter_and_score(self, node_info: NodeInfo) -> int:
        """Compute the result for a node that is ``UNKNOWN``."""
        status = filter_node(self._pod_info, node_info)
        if status is not None:
            self._statuses[node_info.index] = status
            score = REJECTED
        else:
            score = least_allocated(self._pod_info, node_info)
            if not self._pod_info.is_best_effort:
                score += balanced_allocation(self._pod_info, node_info)
        self.scores[node_info.index] = score
        return score

    def status(self, index: int) -> Status:
        """Why the node at that position is ``REJECTED``."""
        return self._statuses[index]

    def node_affinity_score(self, node_info: NodeInfo) -> int:
        """The raw score of NodeAffinity."""
        score = self._node_affinity_scores[node_info.index]
        if score == UNKNOWN:
            score = self._node_affinity_scores[node_info.index] = node_affinity.score_node(self._pod_info, node_info)
        return score


class FilterResultsCache:
    """The results of the signatures that were used last."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._results: dict[Hashable, FilterResults] = {}

    def get(self, pod_info: PodInfo) -> FilterResults:
        """The results for pods like this one, without those that are out of date."""
        if pod_info.delegated_resources:
            # The results also depend on DeviceClasses.
            uncached = FilterResults(pod_info)
            uncached.refresh(self._cache)
            return uncached
        results = self._results.pop(pod_info.signature, None)
        if results is None:
            if len(self._results) >= _MAX_SIGNATURES:
                del self._results[next(iter(self._results))]
            results = FilterResults(pod_info)
        self._results[pod_info.signature] = results  # at the end: the signature used longest ago is dropped first
        results.refresh(self._cache)
        return results
