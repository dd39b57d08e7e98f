"""Affinity and anti-affinity. Rows mirror kube-scheduler v1.36, pkg/scheduler/framework/plugins/interpodaffinity:
``filtering_test.go`` (one table) and ``scoring_test.go`` (the other)."""

from typing import Any

from tests.scheduler.build import (
    HOSTNAME,
    ZONE,
    Algorithm,
    Namespaces,
    affinity,
    anti_affinity,
    cluster,
    fitting,
    node,
    pod,
    preferred,
    statuses,
    term,
)
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.interpod_affinity import (
    AFFINITY_RULES_NOT_MATCH,
    ANTI_AFFINITY_RULES_NOT_MATCH,
    EXISTING_ANTI_AFFINITY_RULES_NOT_MATCH,
    score_nodes,
)

NAMESPACES = Namespaces(ns={"team": "a"}, other={"team": "b"}, third={"team": "b"})


def two_zones(placed: dict[str, list[Pod]]) -> Cache:
    """a1 and a2 in zone a, b1 in zone b, and one node without labels."""
    nodes = [node(name, labels={HOSTNAME: name, ZONE: name[0]}) for name in ("a1", "a2", "b1")]
    return cluster([*nodes, node("bare")], placed)


def web(name: str = "web", **spec: Any) -> Pod:
    return pod(name, labels={"app": "web"}, **spec)


ALL = {"a1", "a2", "b1", "bare"}
MATCH = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}}


@cases(
    "placed, wanted, expected",
    {
        "no affinity": ({"a1": [web()]}, pod(), ALL),
        "affinity, by node": ({"a1": [web()]}, pod(affinity=affinity(term(app="web"))), {"a1"}),
        "affinity, by zone": ({"a1": [web()]}, pod(affinity=affinity(term(ZONE, app="web"))), {"a1", "a2"}),
        "affinity without a matching pod": ({"a1": [web()]}, pod(affinity=affinity(term(app="db"))), set()),
        "only its own namespace": ({"a1": [web(namespace="other")]}, pod(affinity=affinity(term(app="web"))), set()),
        "namespaces by name": (
            {"a1": [web(namespace="other")]},
            pod(affinity=affinity(term(app="web", namespaces=["other"]))),
            {"a1"},
        ),
        "namespaces by label": (
            {"a1": [web(namespace="other")], "b1": [web("q", namespace="third")]},
            pod(affinity=affinity(term(app="web", namespaceSelector={"matchLabels": {"team": "b"}}))),
            {"a1", "b1"},
        ),
        "all namespaces": (
            {"a1": [web(namespace="other")]},
            pod(affinity=affinity(term(app="web", namespaceSelector={}))),
            {"a1"},
        ),
        "by expression": ({"a1": [web()]}, pod(affinity=affinity({"topologyKey": HOSTNAME, **MATCH})), {"a1"}),
        "two affinity terms, no pod matches both": (
            {"a1": [web()], "b1": [pod("q", labels={"app": "db"})]},
            pod(affinity=affinity(term(app="web"), term(ZONE, app="db"))),
            set(),
        ),
        "two affinity terms, one pod matches both": (
            {"a1": [pod("q", labels={"app": "web", "tier": "x"})]},
            pod(
                affinity=affinity(
                    term(app="web"), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "x"}}}
                )
            ),
            {"a1"},
        ),
        "the first pod of a group": ({}, web(affinity=affinity(term(ZONE, app="web"))), {"a1", "a2", "b1"}),
        "matching pod on a node without the topology label": (
            {"bare": [web("q")]},
            web(affinity=affinity(term(ZONE, app="web"))),
            {"a1", "a2", "b1"},
        ),
        "no selector matches no pod": ({"a1": [web()]}, pod(affinity=affinity({"topologyKey": HOSTNAME})), set()),
        "anti-affinity, by node": ({"a1": [web()]}, pod(affinity=anti_affinity(term(app="web"))), ALL - {"a1"}),
        "anti-affinity, by zone": ({"a1": [web()]}, pod(affinity=anti_affinity(term(ZONE, app="web"))), {"b1", "bare"}),
        "anti-affinity, matching pod on a node without the label": (
            {"bare": [web()]},
            pod(affinity=anti_affinity(term(ZONE, app="web"))),
            ALL,
        ),
        "two anti-affinity terms": (
            {"a1": [web()], "b1": [pod("q", labels={"app": "db"})]},
            pod(affinity=anti_affinity(term(app="web"), term(app="db"))),
            {"a2", "bare"},
        ),
        "affinity and anti-affinity": (
            {"a1": [web()], "a2": [pod("q", labels={"app": "db"})]},
            pod(affinity={**affinity(term(ZONE, app="web")), **anti_affinity(term(app="db"))}),
            {"a1"},
        ),
        "anti-affinity of an existing pod": (
            {"a1": [pod("q", affinity=anti_affinity(term(app="web")))]},
            web(),
            ALL - {"a1"},
        ),
        "anti-affinity of an existing pod, by zone": (
            {"a1": [pod("q", affinity=anti_affinity(term(ZONE, app="web")))]},
            web(),
            {"b1", "bare"},
        ),
        "anti-affinity of an existing pod in another namespace": (
            {"a1": [pod("q", namespace="other", affinity=anti_affinity(term(app="web")))]},
            web(),
            ALL,
        ),
        "anti-affinity of an existing pod to all namespaces": (
            {"a1": [pod("q", namespace="other", affinity=anti_affinity(term(app="web", namespaceSelector={})))]},
            web(),
            ALL - {"a1"},
        ),
        "affinity of an existing pod does not filter": (
            {"a1": [pod("q", affinity=affinity(term(app="db")))]},
            web(),
            ALL,
        ),
        "matchLabelKeys: only those of its own revision": (
            {
                "a1": [pod("q", labels={"app": "web", "hash": "1"})],
                "b1": [pod("r", labels={"app": "web", "hash": "2"})],
            },
            pod(labels={"hash": "2"}, affinity=affinity(term(app="web", matchLabelKeys=["hash"]))),
            {"b1"},
        ),
        "mismatchLabelKeys: only those of other revisions": (
            {
                "a1": [pod("q", labels={"app": "web", "hash": "1"})],
                "b1": [pod("r", labels={"app": "web", "hash": "2"})],
            },
            pod(labels={"hash": "2"}, affinity=anti_affinity(term(app="web", mismatchLabelKeys=["hash"]))),
            ALL - {"a1"},
        ),
        "terminating pods count": (
            {"a1": [web(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})]},
            pod(affinity=anti_affinity(term(app="web"))),
            ALL - {"a1"},
        ),
    },
)
def test_nodes_that_pass_the_required_terms(placed: dict[str, list[Pod]], wanted: Pod, expected: set[str]) -> None:
    assert set(fitting(two_zones(placed), wanted, NAMESPACES)) == expected


def test_statuses() -> None:
    cache = two_zones({"a1": [web()], "b1": [pod("q", affinity=anti_affinity(term(app="web")))]})
    wanted = web("p", affinity={**affinity(term(ZONE, app="web")), **anti_affinity(term(app="web"))})
    expected: dict[str, Status | None] = {
        "a1": ANTI_AFFINITY_RULES_NOT_MATCH,
        "a2": None,
        "b1": AFFINITY_RULES_NOT_MATCH,
        "bare": AFFINITY_RULES_NOT_MATCH,
    }
    assert statuses(cache, wanted) == expected
    assert statuses(cache, web("p"))["b1"] == EXISTING_ANTI_AFFINITY_RULES_NOT_MATCH


def test_the_filter_follows_changes_of_pods() -> None:
    """AddPod and RemovePod of ``filtering_test.go``: the pre-filter state is updated."""
    cache = two_zones({"a1": [web()]})
    wanted = pod(affinity=affinity(term(ZONE, app="web")))
    assert fitting(cache, wanted) == ["a1", "a2"]
    cache.assume_pod(PodInfo(web("w2")), "b1")
    assert fitting(cache, wanted) == ["a1", "a2", "b1"]
    cache.remove_pod("ns/web")
    assert fitting(cache, wanted) == ["b1"]
    cache.update_node(node("b1", labels={HOSTNAME: "b1", ZONE: "a"}))
    assert fitting(cache, wanted) == ["a1", "a2", "b1"]
    cache.remove_node("b1")
    assert fitting(cache, wanted) == []
    cache.update_node(node("b1", labels={HOSTNAME: "b1", ZONE: "b"}))
    assert fitting(cache, wanted) == ["b1"]


TO, AWAY = "podAffinity", "podAntiAffinity"


@cases(
    "placed, wanted, expected",
    {
        "no preferred terms": ({"a1": [web()]}, pod(), None),
        "affinity, by zone": ({"a1": [web()]}, pod(affinity=preferred(TO, 5, term(ZONE, app="web"))), [100, 100, 0, 0]),
        "score is proportional to matching pods": (
            {"a1": [web("w1"), web("w2")], "b1": [web("w3")]},
            pod(affinity=preferred(TO, 5, term(ZONE, app="web"))),
            [100, 100, 50, 0],
        ),
        "anti-affinity, by node": (
            {"a1": [web()]},
            pod(affinity=preferred(AWAY, 5, term(app="web"))),
            [0, 100, 100, 100],
        ),
        "affinity and anti-affinity": (
            {"a1": [web()], "b1": [pod("q", labels={"app": "db"})]},
            pod(affinity={**preferred(TO, 8, term(app="web")), **preferred(AWAY, 8, term(app="db"))}),
            [100, 50, 0, 50],
        ),
        "affinity of an existing pod": (
            {"a1": [pod("q", affinity=preferred(TO, 5, term(ZONE, app="web")))]},
            web(),
            [100, 100, 0, 0],
        ),
        "anti-affinity of an existing pod": (
            {"a1": [pod("q", affinity=preferred(AWAY, 5, term(ZONE, app="web")))]},
            web(),
            [0, 0, 100, 100],
        ),
        "required affinity of an existing pod: hardPodAffinityWeight 1": (
            {"a1": [pod("q", labels={"x": "y"}, affinity=affinity(term(ZONE, app="web")))]},
            web(),
            [100, 100, 0, 0],
        ),
        "affinity of an existing pod to another namespace": (
            {"a1": [pod("q", namespace="other", affinity=preferred(TO, 5, term(app="web")))]},
            web(),
            None,
        ),
        "weights that add up to zero": (
            {"a1": [web(), pod("q", affinity=preferred(AWAY, 5, term(app="web")))]},
            web("p", affinity=preferred(TO, 5, term(app="web"))),
            None,
        ),
    },
)
def test_scores_of_preferred_terms(placed: dict[str, list[Pod]], wanted: Pod, expected: list[int] | None) -> None:
    cache = two_zones(placed)
    assert [node_info.name for node_info in cache.node_infos] == ["a1", "b1", "bare", "a2"]
    scores = score_nodes(cache, PodInfo(wanted), NAMESPACES, range(4))
    by_name = dict(zip(["a1", "b1", "bare", "a2"], scores, strict=True)) if scores is not None else None
    assert by_name == (dict(zip(["a1", "a2", "b1", "bare"], expected, strict=True)) if expected is not None else None)


def test_the_weight_of_the_score_is_2() -> None:
    algorithm = Algorithm(two_zones({"a1": [web("w")]}))
    assert algorithm.score_differences(pod(affinity=preferred(TO, 1, term(app="web")))) == [200, 0, 0, 0]
