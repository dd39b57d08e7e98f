"""How good a node is by itself. Rows mirror the score tests of kube-scheduler v1.36, named per table."""

from typing import Any

import pytest
from tests.scheduler.build import cluster, info, node, place, placer, pod

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.scores import balanced_allocation, dislike, least_allocated, liking, normalized
from pilothouse.scheduler.wish import Wish


@pytest.mark.parametrize(
    ("wanted", "there", "placed", "expected"),
    [
        # noderesources/least_allocated_test.go
        pytest.param(pod("p", "0", "0"), node(cpu="4", memory="10000"), [], 100, id="nothing asked for, nothing used"),
        pytest.param(
            pod("p", "3", "5000"), node(cpu="4", memory="10000"), [], (25 + 50) // 2, id="a quarter and a half left"
        ),
        pytest.param(pod("p", "3", "5000"), node(cpu="6", memory="10000"), [], (50 + 50) // 2, id="half and half left"),
        pytest.param(
            pod("p", "0", "0"),
            node(cpu="10", memory="20000"),
            [pod("q", "3", "0"), pod("r", "3", "5000")],
            (40 + 75) // 2,
            id="what is used counts",
        ),
        pytest.param(
            pod("p", "3", "5000"),
            node(cpu="10", memory="20000"),
            [pod("q", "3", "0"), pod("r", "3", "5000")],
            (10 + 50) // 2,
            id="what is used and what is asked for",
        ),
        pytest.param(pod("p", "5", "0"), node(cpu="4", memory="10000"), [], (0 + 100) // 2, id="more than there is"),
        pytest.param(
            pod("p", "1", "0"), node(cpu="4", memory="0"), [], 75, id="a resource that the node lacks is left out"
        ),
        # noderesources/resource_allocation_test.go: what is not asked for counts as 100m and 200Mi
        pytest.param(pod(), node(cpu="1", memory="2000Mi"), [], (90 + 90) // 2, id="assumed for who asks for nothing"),
        pytest.param(
            pod(containers=[{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "400m"}}}]),
            node(cpu="1", memory="2000Mi"),
            [],
            (50 + 80) // 2,
            id="assumed container by container",
        ),
    ],
)
def test_least_allocated(wanted: Pod, there: Node, placed: list[Pod], expected: int) -> None:
    assert least_allocated(Wish(wanted), info(there, *placed)) == expected


@pytest.mark.parametrize(
    ("wanted", "there", "placed", "expected"),
    [
        # noderesources/balanced_allocation_test.go as of kubernetes#135573: 75 stands for no change
        pytest.param(pod("p", "2", "5000"), node(cpu="4", memory="10000"), [], 75, id="balanced before and after"),
        pytest.param(
            # 3/4 cpu, 5000/10000 memory: 1 - 0.125 = 87, before 100: 50 + (50 + 87 - 100) // 2
            pod("p", "3", "5000"),
            node(cpu="4", memory="10000"),
            [],
            68,
            id="less even than before",
        ),
        pytest.param(
            # before: 3/6 and 0: 75; after: 3/6 and 5000/10000: 100
            pod("p", "", "5000"),
            node(cpu="6", memory="10000"),
            [pod("q", "3")],
            87,
            id="more even than before",
        ),
        pytest.param(pod("p", "4", ""), node(cpu="4", memory="10000"), [], 50, id="from even to wholly uneven"),
        pytest.param(
            pod("p", "", "10000"), node(cpu="4", memory="10000"), [pod("q", "4")], 100, id="from wholly uneven to even"
        ),
        pytest.param(pod("p", "9", "5000"), node(cpu="4", memory="5000"), [], 75, id="more than all counts as all"),
    ],
)
def test_balanced_allocation(wanted: Pod, there: Node, placed: list[Pod], expected: int) -> None:
    assert balanced_allocation(Wish(wanted), info(there, *placed)) == expected


def test_balance_is_not_compared_for_pods_that_ask_for_nothing() -> None:
    """kubernetes#129138: they would pile up on the node that is least even."""
    snapshot = cluster([node("uneven"), node("even")], {"uneven": [pod("q", "2")], "even": [pod("r", "1", "2Gi")]})
    judge, wish = placer(snapshot), Wish(pod())
    table = judge._tables.get(wish)
    for one in snapshot.order:
        table.look(one)
    assert table.scores == [least_allocated(wish, one) for one in snapshot.order]


def prefers(*terms: tuple[int, str, str]) -> Pod:
    document = [
        {"weight": w, "preference": {"matchExpressions": [{"key": k, "operator": "In", "values": [v]}]}}
        for w, k, v in terms
    ]
    return pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": document}})


@pytest.mark.parametrize(
    ("wanted", "labels", "raw", "expected"),
    [
        # nodeaffinity/node_affinity_test.go: TestNodeAffinityPriority
        pytest.param(pod(), [{"a": "1"}, {}], [0, 0], [0, 0], id="no preference"),
        pytest.param(prefers((2, "a", "1")), [{"b": "1"}, {"a": "2"}], [0, 0], [0, 0], id="no node has it"),
        pytest.param(prefers((2, "a", "1")), [{"a": "1"}, {}], [2, 0], [100, 0], id="one node has it"),
        pytest.param(
            prefers((2, "a", "1"), (4, "b", "1"), (5, "c", "1")),
            [{"a": "1"}, {"a": "1", "b": "1", "c": "1"}, {"b": "1"}],
            [2, 11, 4],
            [18, 100, 36],
            id="weights add up, the best node gets all",
        ),
    ],
)
def test_preferred_nodes(wanted: Pod, labels: list[dict[str, str]], raw: list[int], expected: list[int]) -> None:
    found = [liking(Wish(wanted), info(node(labels=one))) for one in labels]
    assert (found, normalized(found)) == (raw, expected)


SOFT = "PreferNoSchedule"


def taint(key: str, value: str = "", effect: str = SOFT) -> dict[str, Any]:
    return {"key": key, "value": value, "effect": effect}


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected"),
    [
        # tainttoleration/taint_toleration_test.go: TestTaintTolerationScore
        pytest.param([], [[taint("a")], []], [0, 100], id="a node without taints is better"),
        pytest.param(
            [{"key": "a", "value": "1", "effect": SOFT}],
            [[taint("a", "1")], [taint("a", "2")]],
            [100, 0],
            id="tolerated",
        ),
        pytest.param(
            [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}],
            [[], [taint("a")], [taint("a"), taint("b")]],
            [100, 100, 100],
            id="all tolerated, however many",
        ),
        pytest.param(
            [{"key": "a", "operator": "Exists"}],
            [[], [taint("a")], [taint("a"), taint("b"), taint("c")]],
            [100, 100, 0],
            id="the more that is not tolerated the worse",
        ),
        pytest.param(
            [{"key": "a", "effect": "NoSchedule", "operator": "Exists"}],
            [[], [taint("a")]],
            [100, 0],
            id="a toleration of another effect",
        ),
    ],
)
def test_soft_taints(tolerations: list[Any], taints: list[list[Any]], expected: list[int]) -> None:
    wish = Wish(pod(tolerations=tolerations))
    assert normalized([dislike(wish, info(node(taints=one))) for one in taints], reverse=True) == expected


def test_the_scores_are_weighed_as_in_the_default_profile() -> None:
    """TaintToleration 3, NodeAffinity 2, resources 1 each (pkg/scheduler/apis/config/v1/default_plugins.go)."""
    labels = {"a": "1"}
    nodes = [node("liked", cpu="4", taints=[taint("x")], labels=labels), node("free", cpu="4")]
    assert place(cluster(nodes), prefers((1, "a", "1"))).node_name == "free"
    nodes = [node("liked", labels=labels), node("free")]
    snapshot = cluster(nodes, {"liked": [pod("q", "2", "4Gi")]})
    assert place(snapshot, prefers((1, "a", "1"))).node_name == "liked"
    judge, wish = placer(cluster([node("liked", labels=labels), node("tainted", taints=[taint("x")])])), None
    wish = Wish(prefers((1, "a", "1")))
    table = judge._tables.get(wish)
    base = [table.look(one) for one in judge.snapshot.order]
    assert judge.totals(wish, table, [0, 1]) == [base[0] + 2 * 100 + 3 * 100, base[1]]
