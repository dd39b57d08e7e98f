"""Near to and far from other pods. Rows mirror kube-scheduler v1.36, pkg/scheduler/framework/plugins/interpodaffinity:
``filtering_test.go`` (one table) and ``scoring_test.go`` (the other)."""

from typing import Any

import pytest
from tests.scheduler.build import (
    HOSTNAME,
    ZONE,
    Namespaces,
    cluster,
    far,
    fitting,
    near,
    node,
    placer,
    pod,
    preferred,
    refusals,
    term,
)

from pilothouse.api.core import Pod
from pilothouse.scheduler.refusals import NOT_FAR, NOT_NEAR, REPELLED, Refusal
from pilothouse.scheduler.relations import relation_scores
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.scheduler.wish import Wish

NAMESPACES = Namespaces(ns={"team": "a"}, other={"team": "b"}, third={"team": "b"})


def two_zones(placed: dict[str, list[Pod]]) -> Snapshot:
    """a1 and a2 in zone a, b1 in zone b, and one node without labels."""
    nodes = [node(name, labels={HOSTNAME: name, ZONE: name[0]}) for name in ("a1", "a2", "b1")]
    return cluster([*nodes, node("bare")], placed)


def web(name: str = "web", **spec: Any) -> Pod:
    return pod(name, labels={"app": "web"}, **spec)


ALL = {"a1", "a2", "b1", "bare"}
MATCH = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}}


@pytest.mark.parametrize(
    ("placed", "wanted", "expected"),
    [
        pytest.param({"a1": [web()]}, pod(), ALL, id="no affinity"),
        pytest.param({"a1": [web()]}, pod(affinity=near(term(app="web"))), {"a1"}, id="near, by node"),
        pytest.param({"a1": [web()]}, pod(affinity=near(term(ZONE, app="web"))), {"a1", "a2"}, id="near, by zone"),
        pytest.param({"a1": [web()]}, pod(affinity=near(term(app="db"))), set(), id="near to nobody who is there"),
        pytest.param(
            {"a1": [web(namespace="other")]}, pod(affinity=near(term(app="web"))), set(), id="only its own namespace"
        ),
        pytest.param(
            {"a1": [web(namespace="other")]},
            pod(affinity=near(term(app="web", namespaces=["other"]))),
            {"a1"},
            id="namespaces by name",
        ),
        pytest.param(
            {"a1": [web(namespace="other")], "b1": [web("q", namespace="third")]},
            pod(affinity=near(term(app="web", namespaceSelector={"matchLabels": {"team": "b"}}))),
            {"a1", "b1"},
            id="namespaces by label",
        ),
        pytest.param(
            {"a1": [web(namespace="other")]},
            pod(affinity=near(term(app="web", namespaceSelector={}))),
            {"a1"},
            id="all namespaces",
        ),
        pytest.param(
            {"a1": [web()]}, pod(affinity=near({"topologyKey": HOSTNAME, **MATCH})), {"a1"}, id="by expression"
        ),
        pytest.param(
            {"a1": [web()], "b1": [pod("q", labels={"app": "db"})]},
            pod(affinity=near(term(app="web"), term(ZONE, app="db"))),
            set(),
            id="near to two kinds: one pod must be both",
        ),
        pytest.param(
            {"a1": [pod("q", labels={"app": "web", "tier": "x"})]},
            pod(affinity=near(term(app="web"), {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"tier": "x"}}})),
            {"a1"},
            id="near to one pod that is both, by node and by zone",
        ),
        pytest.param({}, web(affinity=near(term(ZONE, app="web"))), {"a1", "a2", "b1"}, id="the first of its kind"),
        pytest.param(
            {"bare": [web("q")]},
            web(affinity=near(term(ZONE, app="web"))),
            {"a1", "a2", "b1"},
            id="one on a node without the label does not count",
        ),
        pytest.param({"a1": [web()]}, pod(affinity=near({"topologyKey": HOSTNAME})), set(), id="no selector, nobody"),
        pytest.param({"a1": [web()]}, pod(affinity=far(term(app="web"))), ALL - {"a1"}, id="far, by node"),
        pytest.param({"a1": [web()]}, pod(affinity=far(term(ZONE, app="web"))), {"b1", "bare"}, id="far, by zone"),
        pytest.param({"bare": [web()]}, pod(affinity=far(term(ZONE, app="web"))), ALL, id="far, where no label is"),
        pytest.param(
            {"a1": [web()], "b1": [pod("q", labels={"app": "db"})]},
            pod(affinity=far(term(app="web"), term(app="db"))),
            {"a2", "bare"},
            id="far from either of two kinds",
        ),
        pytest.param(
            {"a1": [web()], "a2": [pod("q", labels={"app": "db"})]},
            pod(affinity={**near(term(ZONE, app="web")), **far(term(app="db"))}),
            {"a1"},
            id="near to one and far from another",
        ),
        pytest.param(
            {"a1": [pod("q", affinity=far(term(app="web")))]}, web(), ALL - {"a1"}, id="others want to be far from it"
        ),
        pytest.param(
            {"a1": [pod("q", affinity=far(term(ZONE, app="web")))]},
            web(),
            {"b1", "bare"},
            id="others want it out of their zone",
        ),
        pytest.param(
            {"a1": [pod("q", namespace="other", affinity=far(term(app="web")))]},
            web(),
            ALL,
            id="others elsewhere do not",
        ),
        pytest.param(
            {"a1": [pod("q", namespace="other", affinity=far(term(app="web", namespaceSelector={})))]},
            web(),
            ALL - {"a1"},
            id="others elsewhere that mean all namespaces",
        ),
        pytest.param(
            {"a1": [pod("q", affinity=near(term(app="db")))]}, web(), ALL, id="whom others want to be near is free"
        ),
        pytest.param(
            {
                "a1": [pod("q", labels={"app": "web", "hash": "1"})],
                "b1": [pod("r", labels={"app": "web", "hash": "2"})],
            },
            pod(labels={"hash": "2"}, affinity=near(term(app="web", matchLabelKeys=["hash"]))),
            {"b1"},
            id="matchLabelKeys: only those of its own revision",
        ),
        pytest.param(
            {
                "a1": [pod("q", labels={"app": "web", "hash": "1"})],
                "b1": [pod("r", labels={"app": "web", "hash": "2"})],
            },
            pod(labels={"hash": "2"}, affinity=far(term(app="web", mismatchLabelKeys=["hash"]))),
            ALL - {"a1"},
            id="mismatchLabelKeys: only those of other revisions",
        ),
        pytest.param(
            {"a1": [web(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})]},
            pod(affinity=far(term(app="web"))),
            ALL - {"a1"},
            id="who is being deleted is still there",
        ),
    ],
)
def test_who_must_be_near_or_far(placed: dict[str, list[Pod]], wanted: Pod, expected: set[str]) -> None:
    assert set(fitting(two_zones(placed), wanted, NAMESPACES)) == expected


def test_what_is_said() -> None:
    snapshot = two_zones({"a1": [web()], "b1": [pod("q", affinity=far(term(app="web")))]})
    wanted = web("p", affinity={**near(term(ZONE, app="web")), **far(term(app="web"))})
    said: dict[str, Refusal | None] = {"a1": NOT_FAR, "a2": None, "b1": NOT_NEAR, "bare": NOT_NEAR}
    assert refusals(snapshot, wanted) == said
    assert refusals(snapshot, web("p"))["b1"] == REPELLED


def test_counts_follow_the_pods() -> None:
    """AddPod and RemovePod of ``filtering_test.go``: what was counted once is kept up to date."""
    snapshot = two_zones({"a1": [web()]})
    wanted = pod(affinity=near(term(ZONE, app="web")))
    assert fitting(snapshot, wanted) == ["a1", "a2"]
    snapshot.assume(Wish(web("w2")), "b1")
    assert fitting(snapshot, wanted) == ["a1", "a2", "b1"]
    snapshot.forget("ns/web")
    assert fitting(snapshot, wanted) == ["b1"]
    snapshot.set_node(node("b1", labels={HOSTNAME: "b1", ZONE: "a"}))
    assert fitting(snapshot, wanted) == ["a1", "a2", "b1"]
    snapshot.remove_node("b1")
    assert fitting(snapshot, wanted) == []
    snapshot.set_node(node("b1", labels={HOSTNAME: "b1", ZONE: "b"}))
    assert fitting(snapshot, wanted) == ["b1"]


TO, AWAY = "podAffinity", "podAntiAffinity"


@pytest.mark.parametrize(
    ("placed", "wanted", "expected"),
    [
        pytest.param({"a1": [web()]}, pod(), None, id="nobody feels anything"),
        pytest.param(
            {"a1": [web()]}, pod(affinity=preferred(TO, 5, term(ZONE, app="web"))), [100, 100, 0, 0], id="likes a zone"
        ),
        pytest.param(
            {"a1": [web("w1"), web("w2")], "b1": [web("w3")]},
            pod(affinity=preferred(TO, 5, term(ZONE, app="web"))),
            [100, 100, 50, 0],
            id="twice as many, twice as good",
        ),
        pytest.param(
            {"a1": [web()]}, pod(affinity=preferred(AWAY, 5, term(app="web"))), [0, 100, 100, 100], id="dislikes a node"
        ),
        pytest.param(
            {"a1": [web()], "b1": [pod("q", labels={"app": "db"})]},
            pod(
                affinity={**preferred(TO, 8, term(app="web")), **preferred(AWAY, 8, term(app="db"))},
            ),
            [100, 50, 0, 50],
            id="likes one and dislikes another",
        ),
        pytest.param(
            {"a1": [pod("q", affinity=preferred(TO, 5, term(ZONE, app="web")))]}, web(), [100, 100, 0, 0], id="is liked"
        ),
        pytest.param(
            {"a1": [pod("q", affinity=preferred(AWAY, 5, term(ZONE, app="web")))]},
            web(),
            [0, 0, 100, 100],
            id="is disliked",
        ),
        pytest.param(
            {"a1": [pod("q", labels={"x": "y"}, affinity=near(term(ZONE, app="web")))]},
            web(),
            [100, 100, 0, 0],
            id="is needed: hardPodAffinityWeight 1",
        ),
        pytest.param(
            {"a1": [pod("q", namespace="other", affinity=preferred(TO, 5, term(app="web")))]},
            web(),
            None,
            id="is liked by somebody who means another namespace",
        ),
        pytest.param(
            {"a1": [web(), pod("q", affinity=preferred(AWAY, 5, term(app="web")))]},
            web("p", affinity=preferred(TO, 5, term(app="web"))),
            None,
            id="feelings that cancel each other out",
        ),
    ],
)
def test_who_would_rather_be_near_or_far(placed: dict[str, list[Pod]], wanted: Pod, expected: list[int] | None) -> None:
    snapshot = two_zones(placed)
    assert [one.name for one in snapshot.order] == ["a1", "b1", "bare", "a2"]
    scores = relation_scores(snapshot, Wish(wanted), NAMESPACES, range(4))
    by_name = dict(zip(["a1", "b1", "bare", "a2"], scores, strict=True)) if scores is not None else None
    assert by_name == (dict(zip(["a1", "a2", "b1", "bare"], expected, strict=True)) if expected is not None else None)


def test_feelings_weigh_two() -> None:
    snapshot = two_zones({"a1": [web("w")]})
    judge, wish = placer(snapshot), Wish(pod(affinity=preferred(TO, 1, term(app="web"))))
    table = judge._tables.get(wish)
    base = [table.look(one) for one in snapshot.order]
    assert judge.totals(wish, table, range(4)) == [base[0] + 200, *base[1:]]
