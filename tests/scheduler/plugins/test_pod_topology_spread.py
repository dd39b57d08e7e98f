"""Topology spread constraints. Rows mirror kube-scheduler v1.36, pkg/scheduler/framework/plugins/podtopologyspread:
``filtering_test.go`` and ``scoring_test.go``, one table each."""

import math
from typing import Any

from tests.scheduler.build import HOSTNAME, ZONE, Algorithm, cluster, fitting, node, pod, spread, statuses
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.machinery.labels import parse_selector
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.pod_topology_spread import (
    CONSTRAINTS_NOT_MATCH,
    NODE_LABEL_NOT_MATCH,
    build_default_constraints,
    score_nodes,
)

NAMES = ("a1", "a2", "b1", "b2")
TAINT = {"key": "t", "effect": "NoSchedule"}


def webs(counts: tuple[int, ...], **parts: Any) -> dict[str, list[Pod]]:
    """Pods with app=web on a1, a2, b1 and b2."""
    return {
        name: [pod(f"{name}-{number}", labels={"app": "web"}, **parts) for number in range(count)]
        for name, count in zip(NAMES, counts, strict=True)
    }


def zones(counts: tuple[int, ...] = (0, 0, 0, 0), *, bare: bool = False, **parts: Any) -> Cache:
    """Two nodes in each of two zones, and one without a zone if ``bare``."""
    nodes = [node(name, labels={HOSTNAME: name, ZONE: name[0]}) for name in NAMES]
    if bare:
        nodes.append(node("bare", labels={HOSTNAME: "bare"}))
    return cluster(nodes, webs(counts, **parts))


def tainted() -> Cache:
    """A node with a matching pod, and a tainted one in another zone."""
    nodes = [
        node("a1", labels={HOSTNAME: "a1", ZONE: "a"}),
        node("b1", labels={HOSTNAME: "b1", ZONE: "b"}, taints=[TAINT]),
    ]
    return cluster(nodes, {"a1": [pod("q", labels={"app": "web"})]})


def web(*constraints: dict[str, Any], **parts: Any) -> Pod:
    return pod(
        "p", labels={"app": "web", **parts.pop("labels", {})}, topologySpreadConstraints=list(constraints), **parts
    )


def only(zone: str) -> dict[str, Any]:
    return {"nodeSelector": {ZONE: zone}}


@cases(
    "cache, wanted, expected",
    {
        "no matching pods": (zones(), web(spread(ZONE)), "a1 a2 b1 b2"),
        "one zone has more pods": (zones((1, 0, 0, 0)), web(spread(ZONE)), "b1 b2"),
        "the zone with the fewest": (zones((1, 1, 1, 0)), web(spread(ZONE)), "b1 b2"),
        "a larger skew is allowed": (zones((2, 1, 1, 0)), web(spread(ZONE, 3)), "a1 a2 b1 b2"),
        "by node": (zones((2, 1, 0, 3)), web(spread(HOSTNAME)), "b1"),
        "pod does not match its own constraint": (
            zones((1, 0, 0, 0)),
            pod(topologySpreadConstraints=[spread(ZONE)]),
            "a1 a2 b1 b2",
        ),
        "pod does not match its own constraint, maxSkew exceeded": (
            zones((2, 0, 0, 0)),
            pod(topologySpreadConstraints=[spread(ZONE)]),
            "b1 b2",
        ),
        "other namespaces are not counted": (zones((1, 0, 0, 0), namespace="other"), web(spread(ZONE)), "a1 a2 b1 b2"),
        "terminating pods are not counted (kubernetes#87621)": (
            zones((1, 0, 0, 0), meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            web(spread(ZONE)),
            "a1 a2 b1 b2",
        ),
        "two constraints": (zones((1, 0, 1, 0)), web(spread(ZONE), spread(HOSTNAME)), "a2 b2"),
        "two constraints, one node left": (zones((1, 0, 2, 2)), web(spread(ZONE), spread(HOSTNAME)), "a2"),
        "a soft constraint does not filter": (zones((1, 0, 0, 0)), web(spread(ZONE, soft=True)), "a1 a2 b1 b2"),
        "a node without the label is rejected": (
            zones((1, 0, 1, 0), bare=True),
            web(spread(ZONE)),
            "a1 a2 b1 b2",
        ),
        "a node without one of two labels is in no domain": (
            zones((1, 1, 1, 1), bare=True),
            web(spread(ZONE), spread(HOSTNAME)),
            "a1 a2 b1 b2",
        ),
        # minDomains
        "fewer domains than minDomains: the minimum is 0": (zones((1, 0, 1, 0)), web(spread(ZONE, minDomains=3)), ""),
        "enough domains": (zones((1, 0, 1, 0)), web(spread(ZONE, minDomains=2)), "a1 a2 b1 b2"),
        "fewer domains than minDomains, larger skew": (
            zones((1, 0, 1, 0)),
            web(spread(ZONE, 2, minDomains=3)),
            "a1 a2 b1 b2",
        ),
        # nodeAffinityPolicy and nodeTaintsPolicy
        "zones excluded by node affinity are not counted": (
            zones((1, 0, 0, 0)),
            web(spread(ZONE), **only("a")),
            "a1 a2",
        ),
        "nodeAffinityPolicy Ignore: all zones are counted": (
            zones((1, 0, 0, 0)),
            web(spread(ZONE, nodeAffinityPolicy="Ignore"), **only("a")),
            "",
        ),
        "tainted nodes are counted": (
            tainted(),
            web(spread(ZONE)),
            "",
        ),
        "nodeTaintsPolicy Honor: tainted nodes are not counted": (
            tainted(),
            web(spread(ZONE, nodeTaintsPolicy="Honor")),
            "a1",
        ),
        # matchLabelKeys
        "matchLabelKeys: pods of other revisions are not counted": (
            zones((1, 0, 0, 0), namespace="ns"),
            web(spread(ZONE, matchLabelKeys=["hash"]), labels={"hash": "2"}),
            "a1 a2 b1 b2",
        ),
    },
)
def test_nodes_that_pass_the_hard_constraints(cache: Cache, wanted: Pod, expected: str) -> None:
    assert " ".join(sorted(fitting(cache, wanted))) == expected


def test_statuses() -> None:
    cache = cluster([node("a", labels={ZONE: "a"}), node("b", labels={ZONE: "b"}), node("bare")])
    cache.assume_pod(PodInfo(pod("q", labels={"app": "web"})), "a")
    assert statuses(cache, web(spread(ZONE))) == {"a": CONSTRAINTS_NOT_MATCH, "b": None, "bare": NODE_LABEL_NOT_MATCH}


def test_the_filter_follows_changes_of_pods_and_nodes() -> None:
    cache = zones((1, 0, 1, 0))
    wanted = web(spread(ZONE))
    assert sorted(fitting(cache, wanted)) == ["a1", "a2", "b1", "b2"]
    cache.assume_pod(PodInfo(pod("more", labels={"app": "web"})), "a2")
    assert sorted(fitting(cache, wanted)) == ["b1", "b2"]
    cache.update_node(node("c1", labels={HOSTNAME: "c1", ZONE: "c"}))
    assert fitting(cache, wanted) == ["c1"]
    cache.remove_node("c1")
    cache.remove_pod("ns/more")
    assert sorted(fitting(cache, wanted)) == ["a1", "a2", "b1", "b2"]


def scores(cache: Cache, wanted: Pod) -> dict[str, int] | None:
    positions, selector = range(len(cache.node_infos)), parse_selector("app=web")
    result = score_nodes(cache, PodInfo(wanted), positions, selector)
    assert result == score_nodes(cache, PodInfo(wanted), list(positions), selector)
    names = [node_info.name for node_info in cache.node_infos]
    return dict(sorted(zip(names, result, strict=True))) if result is not None else None


def four(a1: int, a2: int, b1: int, b2: int) -> dict[str, int]:
    return dict(zip(NAMES, (a1, a2, b1, b2), strict=True))


@cases(
    "cache, wanted, expected",
    {
        "no matching pods": (zones(), web(spread(ZONE, soft=True)), None),
        "one matching pod on each node": (zones((1, 1, 1, 1)), web(spread(HOSTNAME, soft=True)), None),
        # 2, 1, 0, 3 times ln 6 = 1.79: 4, 2, 0, 5
        "by node": (zones((2, 1, 0, 3)), web(spread(HOSTNAME, soft=True)), four(20, 60, 100, 0)),
        # 3 and 1 times ln 4 = 1.39: 4 and 1
        "by zone": (zones((2, 1, 0, 1)), web(spread(ZONE, soft=True)), four(25, 25, 100, 100)),
        # zone: 4.16 and 1.39, node: 3.58, 1.79, 0, 1.79: 8, 6, 1, 3
        "by zone and node": (
            zones((2, 1, 0, 1)),
            web(spread(ZONE, soft=True), spread(HOSTNAME, soft=True)),
            four(12, 37, 100, 75),
        ),
        # maxSkew - 1 makes differences smaller: 2*1.79+4, 1.79+4, 4, 3*1.79+4: 8, 6, 4, 9
        "a larger skew": (zones((2, 1, 0, 3)), web(spread(HOSTNAME, 5, soft=True)), four(55, 77, 100, 44)),
        "a node without the label gets 0": (
            cluster(
                [node("a1", labels={HOSTNAME: "a1", ZONE: "a"}), node("bare", labels={HOSTNAME: "bare"})],
                {"a1": [pod("q", labels={"app": "web"})]},
            ),
            web(spread(ZONE, soft=True)),
            {"a1": 100, "bare": 0},
        ),
    },
)
def test_scores_of_soft_constraints(cache: Cache, wanted: Pod, expected: dict[str, int] | None) -> None:
    assert scores(cache, wanted) == expected


def test_a_default_constraint_counts_on_all_nodes_that_have_its_label() -> None:
    """``TestPodTopologySpreadScore`` with system defaulting: ``requireAllTopologies`` is off."""
    cache = zones((1, 0, 0, 0), bare=True)
    # Five nodes and three domains of zones, the missing one included. Skews of 3 and 5 add 2 and 4.
    by_node, by_zone = math.log(7), math.log(5)
    raw = {"a1": 2 + by_node + 4 + by_zone, "a2": 2 + 4 + by_zone, "b1": 6.0, "b2": 6.0, "bare": 2.0}
    rounded = {name: int(score + 0.5) for name, score in raw.items()}
    high, low = max(rounded.values()), min(rounded.values())
    expected = {name: 100 * (high + low - score) // high for name, score in rounded.items()}
    assert scores(cache, web()) == expected


def test_pods_without_default_selector_have_no_default_constraints() -> None:
    assert build_default_constraints(None) == ()
    assert build_default_constraints(parse_selector("")) == ()


def test_pods_with_one_default_selector_spread_over_zones_and_nodes() -> None:
    cache = zones()
    algorithm = Algorithm(cache, default_selector="app=web")
    for number in range(12):
        wanted = pod(f"p{number}", "10m", "10Mi", labels={"app": "web"})
        cache.assume_pod(PodInfo(wanted), algorithm.schedule(wanted))
    assert {node_info.name: len(node_info.pods) for node_info in cache.node_infos} == dict.fromkeys(NAMES, 3)


def test_a_pod_with_its_own_constraints_gets_no_default_ones() -> None:
    cache = zones((3, 0, 0, 0))
    wanted = web(spread(ZONE, app="nobody", soft=True))
    assert Algorithm(cache, default_selector="app=web").score_differences(wanted) == [0, 0, 0, 0]
