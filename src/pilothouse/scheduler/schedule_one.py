"""Chooses the node for a pod: finds the nodes that fit, as many as are enough, and selects the best of them.

Nothing is written here; random choices come from the stream that is passed in. As kube-scheduler v1.36
``pkg/scheduler/schedule_one.go``: the nominated node first, then a search that starts where the last one ended and
stops when enough nodes fit; then the scores; among equal scores a random choice. ``scheduler`` runs the cycles.
"""

import contextlib
import operator
import random  # noqa: TID251  # the type of a stream
from collections.abc import Callable, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.metrics import Registry
from pilothouse.scheduler.framework.filter_results import REJECTED, UNKNOWN, FilterResults, FilterResultsCache
from pilothouse.scheduler.framework.fit_error import Diagnosis, FitError
from pilothouse.scheduler.framework.runtime import CycleState, Framework
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo, take
from pilothouse.scheduler.metrics import SchedulerMetrics
from pilothouse.scheduler.plugins import image_locality, interpod_affinity, node_affinity, pod_topology_spread
from pilothouse.scheduler.plugins.normalize_score import default_normalize_score
from pilothouse.scheduler.plugins.taint_toleration import count_intolerable_taints_prefer_no_schedule

TAINT_TOLERATION_WEIGHT = 3
NODE_AFFINITY_WEIGHT = 2
POD_TOPOLOGY_SPREAD_WEIGHT = 2
INTERPOD_AFFINITY_WEIGHT = 2
DYNAMIC_RESOURCES_WEIGHT = 2
"""The weights of the default profile (``apis/config/v1/default_plugins.go``). The resource scores weigh 1 each."""

_MIN_FEASIBLE_NODES_TO_FIND = 100
_MIN_STRETCH = 64

_RESOURCES = "NodeResourcesFit + NodeResourcesBalancedAllocation"

ScorePart = tuple[str, int, Sequence[int]]
"""A plugin, its weight, and its normalized scores of the feasible nodes."""

DefaultSelector = Callable[[Pod], Selector | None]
"""The selector of the Services and of the controller of a pod (``DefaultSelectors.default_selector``)."""


class ScheduleResult(msgspec.Struct, frozen=True):
    """The node that was chosen, why in a sentence, and of how many that fit."""

    suggested_host: str
    reason: str = ""
    feasible_nodes: int = 1


def num_feasible_nodes_to_find(num_all_nodes: int) -> int:
    """How many nodes that fit are enough: all of up to 100, then 50 % falling to 5 %."""
    if num_all_nodes < _MIN_FEASIBLE_NODES_TO_FIND:
        return num_all_nodes
    percentage = max(50 - num_all_nodes // 125, 5)
    return max(num_all_nodes * percentage // 100, _MIN_FEASIBLE_NODES_TO_FIND)


class SchedulingAlgorithm:
    """Chooses nodes from one cache."""

    def __init__(
        self,
        framework: Framework,
        default_selector: DefaultSelector,
        rng: random.Random,
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._metrics = metrics or SchedulerMetrics(Registry(), "")
        self._framework = framework
        self._cache = framework.cache
        self._default_selector = default_selector
        self._random = rng
        self._filter_results = FilterResultsCache(framework.cache)
        self.next_start_node_index = 0

    def schedule_pod(self, pod_info: PodInfo) -> ScheduleResult | FitError:
        """Choose a node, or return why there is none. The cache is not changed."""
        framework, node_infos = self._framework, self._cache.node_infos
        if not node_infos:
            return FitError(0)
        volumes = framework.pod_volume_claims(pod_info)
        rejection = volumes.rejection if volumes is not None else None
        if pod_info.node_names is not None and not pod_info.node_names:
            rejection = node_affinity.CONFLICT
        rejection = pod_info.too_many_terms or rejection
        if rejection is None and framework.pod_claims is not None:
            rejection = framework.pod_claims.rejection
        if rejection is not None:
            return FitError(len(node_infos), Diagnosis(pre_filter_status=rejection))
        state = framework.pre_filter(pod_info)
        nominated = self._cache.nodes.get(self._cache.nominator.nominated_node_name(pod_info.key))
        if nominated is not None and framework.filter_node(pod_info, nominated, state) is None:
            return ScheduleResult(nominated.name, f"{nominated.name} chosen: the pod is nominated for it, and fits")
        if pod_info.node_names is not None:
            return self._schedule_on_named_nodes(pod_info, state)
        metrics = self._metrics
        began = metrics.clock()
        results = self._filter_results.get(pod_info)
        feasible = self.find_nodes_that_pass_filters(pod_info, results, state)
        filtered = metrics.clock()
        if not feasible:
            metrics.filter_rejected.observe(filtered - began)
            return FitError(len(node_infos), Diagnosis(node_infos, self._statuses(pod_info, results, state)))
        metrics.filter_accepted.observe(filtered - began)
        result = self._select_host(pod_info, results, feasible)
        if len(feasible) > 1:
            metrics.score.observe(metrics.clock() - filtered)
        return result

    def _schedule_on_named_nodes(self, pod_info: PodInfo, state: CycleState) -> ScheduleResult | FitError:
        """Choose among the nodes that the pod's node affinity names. No other node is filtered."""
        assert pod_info.node_names is not None
        nodes = self._cache.nodes
        feasible: list[int] = []
        rejected: list[NodeInfo] = []
        statuses: list[Status] = []
        for name in sorted(pod_info.node_names):
            node_info = nodes.get(name)
            if node_info is None:
                continue
            status = self._framework.filter_node(pod_info, node_info, state)
            if status is None:
                feasible.append(node_info.index)
            else:
                rejected.append(node_info)
                statuses.append(status)
        if not feasible:
            return FitError(len(nodes), Diagnosis(rejected, statuses))
        results = self._filter_results.get(pod_info)
        for index in feasible if len(feasible) > 1 else ():
            if results.scores[index] == UNKNOWN:
                results.filter_and_score(self._cache.node_infos[index])
        return self._select_host(pod_info, results, feasible)

    def find_nodes_that_pass_filters(
        self, pod_info: PodInfo, results: FilterResults, state: CycleState
    ) -> Sequence[int]:
        """The positions of the first nodes that fit, as many as are enough.

        Filters run over stretches of nodes, one filter for all nodes of a stretch, which is several times faster than
        node by node. If all nodes of a stretch fit, which is the usual case, the result is a range, and their cached
        data is a slice (``take``).
        """
        node_infos, scores = self._cache.node_infos, results.scores
        num_all_nodes = len(node_infos)
        start = self.next_start_node_index % num_all_nodes
        enough = num_feasible_nodes_to_find(num_all_nodes)
        feasible: Sequence[int] = ()
        processed = 0
        while processed < num_all_nodes and len(feasible) < enough:
            low = (start + processed) % num_all_nodes
            high = min(low + max(enough - len(feasible), _MIN_STRETCH), num_all_nodes, low + num_all_nodes - processed)
            _filter_unknown(node_infos, results, low, high)
            positions: Sequence[int] = range(low, high)
            if REJECTED in scores[low:high]:
                positions = [i for i in positions if scores[i] >= 0]
            accepted = self._framework.filter_nodes_in_cluster(pod_info, positions, state)
            feasible = [*feasible, *accepted] if feasible else accepted
            processed += high - low
        if len(feasible) > enough:
            feasible = feasible[:enough]
            processed = (feasible[-1] - start) % num_all_nodes + 1
        self.next_start_node_index = (start + processed) % num_all_nodes
        return feasible

    def _statuses(self, pod_info: PodInfo, results: FilterResults, state: CycleState) -> list[Status]:
        """The status of every node, if none fits."""
        statuses: list[Status] = []
        for index, node_info in enumerate(self._cache.node_infos):
            if results.scores[index] == REJECTED:
                statuses.append(results.status(index))
            else:
                status = self._framework.filter_node_in_cluster(pod_info, node_info, state)
                assert status is not None, "a node that no plugin rejects would have been feasible"
                statuses.append(status)
        return statuses

    def _select_host(self, pod_info: PodInfo, results: FilterResults, feasible: Sequence[int]) -> ScheduleResult:
        node_infos = self._cache.node_infos
        if len(feasible) == 1:
            name = node_infos[feasible[0]].name
            return ScheduleResult(name, f"{name} chosen, the only feasible node of {len(node_infos)}")
        parts: list[ScorePart] = []
        totals = self.prioritize_nodes(pod_info, results, feasible, parts)
        highest = max(totals)
        best = [index for index, total in zip(feasible, totals, strict=True) if total == highest]
        index = best[0] if len(best) == 1 else best[self._random.randrange(len(best))]
        name, place = node_infos[index].name, feasible.index(index)
        ties = f", at random of {len(best)} with this score" if len(best) > 1 else ""
        scores = ", ".join([f"{plugin} {weight * scores[place]}" for plugin, weight, scores in parts])
        nodes = f"{len(feasible)} feasible nodes ({len(node_infos)} in all)"
        return ScheduleResult(name, f"{name} chosen of {nodes}, score {highest}{ties}: {scores}", len(feasible))

    def prioritize_nodes(
        self, pod_info: PodInfo, results: FilterResults, feasible: Sequence[int], parts: list[ScorePart]
    ) -> list[int]:
        """The weighted sums of the scores of feasible nodes. Scores that are equal for all nodes are left out. The
        components are appended to ``parts``."""
        cache, node_infos = self._cache, self._cache.node_infos
        scores = results.scores
        totals = take(scores, feasible)
        parts.append((_RESOURCES, 1, totals))

        def add(plugin: str, weight: int, normalized: Sequence[int] | None) -> None:
            nonlocal totals
            if normalized is not None:
                parts.append((plugin, weight, normalized))
                totals = _add_scores(totals, normalized, weight)

        if pod_info.preferred_node_affinity_terms:
            raw = [results.node_affinity_score(node_infos[index]) for index in feasible]
            add("NodeAffinity", NODE_AFFINITY_WEIGHT, default_normalize_score(raw))
        if cache.prefer_no_schedule_nodes:
            raw = [count_intolerable_taints_prefer_no_schedule(pod_info, node_infos[index]) for index in feasible]
            add("TaintToleration", TAINT_TOLERATION_WEIGHT, default_normalize_score(raw, reverse=True))
        selector = self._default_selector(pod_info.pod) if pod_info.soft_constraints is None else None
        spread = pod_topology_spread.score_nodes(cache, pod_info, feasible, selector)
        add("PodTopologySpread", POD_TOPOLOGY_SPREAD_WEIGHT, spread)
        if pod_info.affinity_terms is not None or cache.existing_score_terms:
            affinity = interpod_affinity.score_nodes(cache, pod_info, self._framework.namespaces, feasible)
            add("InterPodAffinity", INTERPOD_AFFINITY_WEIGHT, affinity)
        pod_claims = self._framework.pod_claims
        if pod_claims is not None and pod_claims.has_alternatives:
            raw = [pod_claims.score_node(node_infos[index].name) for index in feasible]
            add("DynamicResources", DYNAMIC_RESOURCES_WEIGHT, default_normalize_score(raw))
        if cache.image_states:
            add("ImageLocality", 1, image_locality.score_nodes(cache, pod_info, feasible))
        return totals


def _filter_unknown(node_infos: Sequence[NodeInfo], results: FilterResults, low: int, high: int) -> None:
    scores, position = results.scores, low
    with contextlib.suppress(ValueError):  # raised by ``index`` when there is no further one
        while True:
            position = scores.index(UNKNOWN, position, high)
            results.filter_and_score(node_infos[position])


def _add_scores(totals: list[int], scores: Sequence[int], weight: int) -> list[int]:
    # There are few different scores, however many nodes.
    weighted = {score: weight * score for score in set(scores)}
    return list(map(operator.add, totals, map(weighted.__getitem__, scores)))
