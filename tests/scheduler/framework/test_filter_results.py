"""Cached results, and how scores add up."""

from tests.scheduler.build import cluster, node, pod

from pilothouse.scheduler.framework.filter_results import FilterResults
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.node_resources_fit import least_allocated


def test_best_effort_pods_get_no_score_for_balance() -> None:
    """kubernetes#129138: they would pile up on the least balanced node."""
    cache = cluster([node("uneven"), node("even")], {"uneven": [pod("q", "2")], "even": [pod("r", "1", "2Gi")]})
    pod_info, results = PodInfo(pod()), FilterResults(PodInfo(pod()))
    results.refresh(cache)
    assert [results.filter_and_score(node_info) for node_info in cache.node_infos] == [
        least_allocated(pod_info, node_info) for node_info in cache.node_infos
    ]
