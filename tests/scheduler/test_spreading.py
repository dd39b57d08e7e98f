"""Even spreading. Rows mirror kube-scheduler v1.36, pkg/scheduler/framework/plugins/podtopologyspread:
``filtering_test.go`` and ``scoring_test.go``, one table each."""

import math
from typing import Any

import pytest
from tests.scheduler.build import HOSTNAME, ZONE, cluster, fitting, node, place, placer, pod, refusals, spread

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import parse_selector
from pilothouse.scheduler.refusals import NO_DOMAIN, UNEVEN
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.scheduler.spreading import default_spread, spread_scores
from pilothouse.scheduler.wish import Wish

NAMES = ("a1", "a2", "b1", "b2")
TAINT = {"key": "t", "effect": "NoSchedule"}


def webs(counts: tuple[int, ...], **parts: Any) -> dict[str, list[Pod]]:
    """So many pods with app=web on a1, a2, b1 and b2."""
    return {
        name: [pod(f"{name}-{number}", labels={"app": "web"}, **parts) for number in range(count)]
        for name, count in zip(NAMES, counts, strict=True)
    }


def zones(counts: tuple[int, ...] = (0, 0, 0, 0), **parts: Any) -> Snapshot:
    """Two nodes in each of two zones."""
    return cluster([node(name, labels={HOSTNAME: name, ZONE: name[0]}) for name in NAMES], webs(counts, **parts))


def web(*constraints: dict[str, Any], **parts: Any) -> Pod:
    return pod(
        "p", labels={"app": "web", **parts.pop("labels", {})}, topologySpreadConstraints=list(constraints), **parts
    )


def only(zone: str) -> dict[str, Any]:
    return {"nodeSelector": {ZONE: zone}}


@pytest.mark.parametrize(
    ("snapshot", "wanted", "expected"),
    [
        pytest.param(zones(), web(spread(ZONE)), "a1 a2 b1 b2", id="nobody is there yet"),
        pytest.param(zones((1, 0, 0, 0)), web(spread(ZONE)), "b1 b2", id="one zone is ahead"),
        pytest.param(zones((1, 1, 1, 0)), web(spread(ZONE)), "b1 b2", id="the zone with fewest"),
        pytest.param(zones((2, 1, 1, 0)), web(spread(ZONE, 3)), "a1 a2 b1 b2", id="a larger skew is allowed"),
        pytest.param(zones((2, 1, 0, 3)), web(spread(HOSTNAME)), "b1", id="by node"),
        pytest.param(
            zones((1, 0, 0, 0)), pod(topologySpreadConstraints=[spread(ZONE)]), "a1 a2 b1 b2", id="not counted itself"
        ),
        pytest.param(
            zones((2, 0, 0, 0)),
            pod(topologySpreadConstraints=[spread(ZONE)]),
            "b1 b2",
            id="not counted itself, too many",
        ),
        pytest.param(
            zones((1, 0, 0, 0), namespace="other"), web(spread(ZONE)), "a1 a2 b1 b2", id="other namespaces don't count"
        ),
        pytest.param(
            zones((1, 0, 0, 0), meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            web(spread(ZONE)),
            "a1 a2 b1 b2",
            id="who is being deleted does not count (kubernetes#87621)",
        ),
        pytest.param(
            zones((1, 0, 1, 0)), web(spread(ZONE), spread(HOSTNAME)), "a2 b2", id="two constraints, both hold"
        ),
        pytest.param(zones((1, 0, 2, 2)), web(spread(ZONE), spread(HOSTNAME)), "a2", id="two constraints, one place"),
        pytest.param(
            zones((1, 0, 0, 0)), web(spread(ZONE, soft=True)), "a1 a2 b1 b2", id="a soft constraint refuses nobody"
        ),
        pytest.param(
            cluster(
                [*(node(n, labels={HOSTNAME: n, ZONE: n[0]}) for n in NAMES), node("bare", labels={HOSTNAME: "bare"})],
                webs((1, 0, 1, 0)),
            ),
            web(spread(ZONE)),
            "a1 a2 b1 b2",
            id="a node without the label does not do",
        ),
        pytest.param(
            cluster(
                [*(node(n, labels={HOSTNAME: n, ZONE: n[0]}) for n in NAMES), node("bare", labels={HOSTNAME: "bare"})],
                {**webs((1, 1, 1, 1))},
            ),
            web(spread(ZONE), spread(HOSTNAME)),
            "a1 a2 b1 b2",
            id="and is no domain of any of two constraints",
        ),
        # minDomains
        pytest.param(zones((1, 0, 1, 0)), web(spread(ZONE, minDomains=3)), "", id="too few domains: the least is 0"),
        pytest.param(zones((1, 0, 1, 0)), web(spread(ZONE, minDomains=2)), "a1 a2 b1 b2", id="enough domains"),
        pytest.param(zones((1, 0, 1, 0)), web(spread(ZONE, 2, minDomains=3)), "a1 a2 b1 b2", id="too few, larger skew"),
        # nodeAffinityPolicy and nodeTaintsPolicy
        pytest.param(
            zones((1, 0, 0, 0)), web(spread(ZONE), **only("a")), "a1 a2", id="zones it cannot go to don't count"
        ),
        pytest.param(
            zones((1, 0, 0, 0)),
            web(spread(ZONE, nodeAffinityPolicy="Ignore"), **only("a")),
            "",
            id="affinity ignored: they do",
        ),
        pytest.param(
            cluster(
                [
                    node("a1", labels={HOSTNAME: "a1", ZONE: "a"}),
                    node("b1", labels={HOSTNAME: "b1", ZONE: "b"}, taints=[TAINT]),
                ],
                {"a1": [pod("q", labels={"app": "web"})]},
            ),
            web(spread(ZONE)),
            "",
            id="tainted nodes count",
        ),
        pytest.param(
            cluster(
                [
                    node("a1", labels={HOSTNAME: "a1", ZONE: "a"}),
                    node("b1", labels={HOSTNAME: "b1", ZONE: "b"}, taints=[TAINT]),
                ],
                {"a1": [pod("q", labels={"app": "web"})]},
            ),
            web(spread(ZONE, nodeTaintsPolicy="Honor")),
            "a1",
            id="taints honored: they don't",
        ),
        # matchLabelKeys
        pytest.param(
            zones((1, 0, 0, 0), namespace="ns"),
            web(spread(ZONE, matchLabelKeys=["hash"]), labels={"hash": "2"}),
            "a1 a2 b1 b2",
            id="pods of other revisions don't count",
        ),
    ],
)
def test_where_one_more_may_go(snapshot: Snapshot, wanted: Pod, expected: str) -> None:
    assert " ".join(sorted(fitting(snapshot, wanted))) == expected


def test_what_is_said() -> None:
    snapshot = cluster([node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"}), node("bare")])
    snapshot.assume(Wish(pod("q", labels={"app": "web"})), "a")
    assert refusals(snapshot, web(spread(ZONE))) == {"a": UNEVEN, "b": None, "bare": NO_DOMAIN}


def test_counts_follow_pods_and_nodes() -> None:
    snapshot = zones((1, 0, 1, 0))
    wanted = web(spread(ZONE))
    assert sorted(fitting(snapshot, wanted)) == ["a1", "a2", "b1", "b2"]
    snapshot.assume(Wish(pod("more", labels={"app": "web"})), "a2")
    assert sorted(fitting(snapshot, wanted)) == ["b1", "b2"]
    snapshot.set_node(node("c1", labels={HOSTNAME: "c1", ZONE: "c"}))
    assert fitting(snapshot, wanted) == ["c1"]
    snapshot.remove_node("c1")
    snapshot.forget("ns/more")
    assert sorted(fitting(snapshot, wanted)) == ["a1", "a2", "b1", "b2"]


def scores(snapshot: Snapshot, wanted: Pod, *, defaults: bool = False) -> dict[str, int] | None:
    wish = Wish(wanted)
    spreads = default_spread(parse_selector("app=web")) if defaults else wish.soft_spread
    assert spreads is not None
    found = spread_scores(snapshot, wish, spreads, range(len(snapshot.order)), defaults=defaults)
    names = [one.name for one in snapshot.order]
    return dict(sorted(zip(names, found, strict=True))) if found is not None else None


def four(a1: int, a2: int, b1: int, b2: int) -> dict[str, int]:
    return dict(zip(NAMES, (a1, a2, b1, b2), strict=True))


@pytest.mark.parametrize(
    ("snapshot", "wanted", "expected"),
    [
        pytest.param(zones(), web(spread(ZONE, soft=True)), None, id="all are equal"),
        pytest.param(zones((1, 1, 1, 1)), web(spread(HOSTNAME, soft=True)), None, id="all have one"),
        # 2, 1, 0, 3 times ln 6 = 1.79: 4, 2, 0, 5
        pytest.param(zones((2, 1, 0, 3)), web(spread(HOSTNAME, soft=True)), four(20, 60, 100, 0), id="by node"),
        # 3 and 1 times ln 4 = 1.39: 4 and 1
        pytest.param(zones((2, 1, 0, 1)), web(spread(ZONE, soft=True)), four(25, 25, 100, 100), id="by zone"),
        # zone: 4.16 and 1.39, node: 3.58, 1.79, 0, 1.79: 8, 6, 1, 3
        pytest.param(
            zones((2, 1, 0, 1)),
            web(spread(ZONE, soft=True), spread(HOSTNAME, soft=True)),
            four(12, 37, 100, 75),
            id="both add up",
        ),
        # maxSkew - 1 waters differences down: 2*1.79+4, 1.79+4, 4, 3*1.79+4: 8, 6, 4, 9
        pytest.param(
            zones((2, 1, 0, 3)), web(spread(HOSTNAME, 5, soft=True)), four(55, 77, 100, 44), id="a larger skew"
        ),
        pytest.param(
            cluster(
                [node("a1", labels={HOSTNAME: "a1", ZONE: "a"}), node("bare", labels={HOSTNAME: "bare"})],
                {"a1": [pod("q", labels={"app": "web"})]},
            ),
            web(spread(ZONE, soft=True)),
            {"a1": 100, "bare": 0},
            id="a node without the label comes last",
        ),
    ],
)
def test_how_even_it_would_be(snapshot: Snapshot, wanted: Pod, expected: dict[str, int] | None) -> None:
    assert scores(snapshot, wanted) == expected


def test_the_default_constraints_count_each_label_where_it_is() -> None:
    """``TestPodTopologySpreadScore`` with system defaulting: ``requireAllTopologies`` is off."""
    nodes = [node(name, labels={HOSTNAME: name, ZONE: name[0]}) for name in NAMES]
    snapshot = cluster([*nodes, node("bare", labels={HOSTNAME: "bare"})], webs((1, 0, 0, 0)))
    # Five nodes and three domains of zones, the missing one included. Skews of 3 and 5 add 2 and 4.
    by_node, by_zone = math.log(7), math.log(5)
    raw = {"a1": 2 + by_node + 4 + by_zone, "a2": 2 + 4 + by_zone, "b1": 6.0, "b2": 6.0, "bare": 2.0}
    rounded = {name: int(score + 0.5) for name, score in raw.items()}
    high, low = max(rounded.values()), min(rounded.values())
    expected = {name: 100 * (high + low - score) // high for name, score in rounded.items()}
    assert scores(snapshot, web(), defaults=True) == expected


def test_pods_that_nothing_selects_have_no_default_constraints() -> None:
    assert default_spread(None) == ()
    assert default_spread(parse_selector("")) == ()


def test_pods_of_one_application_lie_evenly_over_zones_and_nodes() -> None:
    snapshot = zones()
    judge = placer(snapshot, likes=lambda _pod: parse_selector("app=web"))
    for number in range(12):
        wish = Wish(pod(f"p{number}", "10m", "10Mi", labels={"app": "web"}))
        name = judge.place(wish).node_name
        assert name is not None
        snapshot.assume(wish, name)
    assert {one.name: len(one.placed) for one in snapshot.order} == dict.fromkeys(NAMES, 3)


def test_a_pod_with_constraints_of_its_own_has_no_default_ones() -> None:
    snapshot = zones((3, 0, 0, 0))
    wanted = web(spread(ZONE, app="nobody", soft=True))
    judge, wish = placer(snapshot, likes=lambda _pod: parse_selector("app=web")), Wish(wanted)
    table = judge._tables.get(wish)
    assert judge.totals(wish, table, []) == []
    assert place(snapshot, wanted).node_name is not None
    base = [table.look(one) for one in snapshot.order]
    assert judge.totals(wish, table, range(4)) == base
