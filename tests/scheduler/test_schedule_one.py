"""Choosing a node: how many are filtered, which one is selected, and the message when none fits.
As ``pkg/scheduler/schedule_one_test.go`` of kube-scheduler v1.36, where no other file is named."""

from collections import Counter
from typing import Any

import pytest
from tests.scheduler.build import ZONE, Algorithm, cluster, node, pod, prefers
from tests.tables import cases

from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.schedule_one import num_feasible_nodes_to_find


@cases(
    "nodes, enough",
    {
        "all nodes of a small cluster": (10, 10),
        "at least a hundred nodes": (100, 100),
        "42 percent of a thousand": (1000, 420),
        "ten percent of five thousand": (5000, 500),
        "at least five percent": (6000, 300),
    },
)
def test_number_of_feasible_nodes_to_find(nodes: int, enough: int) -> None:
    """As ``TestNumFeasibleNodesToFind``."""
    assert num_feasible_nodes_to_find(nodes) == enough


def test_a_search_starts_where_the_last_one_ended() -> None:
    """As ``TestFairEvaluationForNodes``."""
    cache = cluster([node(f"n{number}") for number in range(150)])
    algorithm = Algorithm(cache)
    searches = [algorithm.feasible(pod()) for _ in range(3)]
    assert [(searche[0], searche[-1], len(searche)) for searche in searches] == [
        (0, 99, 100),
        (100, 49, 100),
        (50, 149, 100),
    ]


def test_a_search_continues_until_enough_nodes_fit() -> None:
    nodes = [node(f"n{number}", cpu="1" if number % 3 else "4") for number in range(600)]
    algorithm = Algorithm(cluster(nodes))
    result = algorithm.feasible(pod("p", "2"))
    assert len(result) == 200
    assert all(index % 3 == 0 for index in result)
    assert algorithm.feasible(pod("p", "2")) == result


def test_nodes_are_ordered_by_taking_turns_between_zones() -> None:
    """As pkg/scheduler/backend/cache/node_tree_test.go."""
    names = ["a1", "a2", "a3", "b1", "c1", "c2"]
    cache = cluster([node(name, labels={ZONE: name[0]}) for name in names])
    assert [node_info.name for node_info in cache.node_infos] == ["a1", "b1", "c1", "a2", "c2", "a3"]
    cache.remove_node("b1")
    cache.update_node(node("a1", labels={ZONE: "d"}))
    assert [node_info.name for node_info in cache.node_infos] == ["a1", "a2", "c1", "a3", "c2"]


def test_among_nodes_of_equal_score_the_choice_is_random() -> None:
    """As ``TestSelectHost``, and the same seed decides the same."""

    def choices(seed: int) -> list[str]:
        algorithm = Algorithm(cluster([node(name) for name in "abc"]), seed=seed)
        return [algorithm.schedule(pod()) for _ in range(300)]

    counts = Counter(choices(1))
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 60
    assert choices(1) == choices(1) != choices(2)


def test_the_node_with_more_free_resources_is_chosen() -> None:
    cache = cluster([node("full"), node("empty")], {"full": [pod("q", "2", "4Gi")]})
    assert Algorithm(cache).schedule(pod("p", "1")) == "empty"


@pytest.mark.parametrize("before", [1, 300], ids=["few changes", "more changes than the cache keeps"])
def test_cached_filter_results_follow_changes_of_nodes(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.scheduler.backend.cache._MAX_CHANGES", 100)
    cache = cluster([node(f"n{number}") for number in range(5)])
    algorithm = Algorithm(cache)
    assert algorithm.schedule(pod("p", "2"))
    for number in range(before):
        cache.assume_pod(PodInfo(pod(f"q{number}", "3")), f"n{number % 5}")
        if number + 5 < before:
            cache.remove_pod(f"ns/q{number}")
    assert algorithm.feasible(pod("p", "2")) == Algorithm(cache).feasible(pod("p", "2"))


def names(*wanted: str) -> dict[str, Any]:
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in wanted]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}}


@cases(
    "wanted, node_name, message",
    {
        "one node by name": (pod(affinity=names("b")), "b", ""),
        "the better of two by name": (pod("p", "3", affinity=names("a", "b")), "b", ""),
        "the node by name is too small": (
            pod("p", "9", affinity=names("b")),
            None,
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
        ),
        "a node by name that does not exist": (
            pod(affinity=names("x")),
            None,
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
        ),
        "reasons are counted and sorted": (
            pod("p", "9"),
            None,
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.",
        ),
        "several reasons for one node": (
            pod("p", "9", "1Ti"),
            None,
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient memory.",
        ),
    },
)
def test_the_chosen_node_or_the_fit_error(wanted: Any, node_name: str | None, message: str) -> None:
    cache = cluster([node("a"), node("b"), node("c", unschedulable=True)], {"a": [pod("q", "2")]})
    algorithm = Algorithm(cache)
    if message:
        assert algorithm.fit_error(wanted).error() == message
    else:
        assert algorithm.schedule(wanted) == node_name


def test_node_affinity_to_two_names_at_once_fits_no_node() -> None:
    """As nodeaffinity/node_affinity_test.go: conflicting terms."""
    expressions = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in "ab"]
    selector = {"nodeSelectorTerms": [{"matchFields": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    fit_error = Algorithm(cluster([node("a"), node("b")])).fit_error(pod(affinity=affinity))
    assert fit_error.error("x") == "0/2 nodes are available: pod affinity terms conflict. x"


def test_the_message_without_nodes() -> None:
    assert Algorithm(cluster([])).fit_error(pod()).error() == "no nodes available to schedule pods"


def test_the_nominated_node_is_tried_first() -> None:
    cache = cluster([node("a"), node("b")], {"b": [pod("q", "3")]})
    wanted = pod("p", "1")
    cache.nominator.add_nominated_pod(PodInfo(wanted), "b")
    assert Algorithm(cache).schedule(wanted) == "b"
    cache.assume_pod(PodInfo(pod("r", "1")), "b")
    assert Algorithm(cache).schedule(wanted) == "a", "but only while the pod fits there"


@cases(
    "priority, fits",
    {
        "lower priority": (-1, False),
        "equal priority": (10, False),
        "higher priority": (11, True),
    },
)
def test_nominated_pods_count_for_pods_of_the_same_and_lower_priority(priority: int, fits: bool) -> None:
    """As ``TestFindFitSomeError`` and runtime/framework_test.go, ``TestFilterPluginsWithNominatedPods``."""
    cache = cluster([node("a")])
    cache.nominator.add_nominated_pod(PodInfo(pod("other", "3", priority=10)), "a")
    algorithm, wanted = Algorithm(cache), pod("p", "2", priority=priority)
    if fits:
        assert algorithm.schedule(wanted) == "a"
    else:
        assert algorithm.fit_error(wanted).error() == "0/1 nodes are available: 1 Insufficient cpu."
    assert not any(cache.nodes["a"].requested.values()), "the nominated pod is counted only while filters run"
    assert not cache.nodes["a"].pods
    cache.nominator.delete_nominated_pod_if_exists("ns/other")
    assert algorithm.schedule(wanted) == "a"


def test_scores_have_the_weights_of_the_default_profile() -> None:
    """TaintToleration 3, NodeAffinity 2, resources 1 each (pkg/scheduler/apis/config/v1/default_plugins.go)."""
    labels, taints = {"a": "1"}, [{"key": "x", "effect": "PreferNoSchedule"}]
    nodes = [node("preferred", taints=taints, labels=labels), node("free")]
    assert Algorithm(cluster(nodes)).schedule(prefers((1, "a", "1"))) == "free"
    nodes = [node("preferred", labels=labels), node("free")]
    cache = cluster(nodes, {"preferred": [pod("q", "2", "4Gi")]})
    assert Algorithm(cache).schedule(prefers((1, "a", "1"))) == "preferred"
    algorithm = Algorithm(cluster([node("preferred", labels=labels), node("tainted", taints=taints)]))
    assert algorithm.score_differences(prefers((1, "a", "1"))) == [2 * 100 + 3 * 100, 0]


_MANY_VALUES = [str(number) for number in range(4096)]


def _term(key: str, **selector: Any) -> Any:
    return {"topologyKey": key, "labelSelector": selector or {"matchLabels": {"a": "b"}}}


@cases(
    "spec, message",
    {
        "affinity terms": (
            {
                "affinity": {
                    "podAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 1, "podAffinityTerm": _term(f"k{number}")} for number in range(100)
                        ]
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [_term(f"k{number}") for number in range(29)]
                    },
                }
            },
            "the pod has 129 terms of inter-pod affinity, and at most 128 are supported",
        ),
        "values in the selectors of affinity terms": (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            _term("k", matchExpressions=[{"key": "a", "operator": "In", "values": _MANY_VALUES}])
                        ]
                    }
                }
            },
            "the pod has 4097 requirements in the selectors of its terms of inter-pod affinity, and at most 4096 are "
            "supported",
        ),
        "topology spread constraints": (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **_term(f"k{number}")}
                    for number in range(129)
                ]
            },
            "the pod has 129 topology spread constraints, and at most 128 are supported",
        ),
    },
)
def test_pods_with_too_many_terms_are_not_scheduled(spec: dict[str, Any], message: str) -> None:
    algorithm = Algorithm(cluster([node("a"), node("b")]))
    rejection = algorithm.fit_error(pod(**spec)).diagnosis.pre_filter_status
    assert rejection is not None
    assert rejection.reasons == (message,)
    assert rejection.unresolvable
