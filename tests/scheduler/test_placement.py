"""The decision: how many nodes are looked at, which of them it is, and what is said when there is none.
As ``pkg/scheduler/schedule_one_test.go`` of kube-scheduler v1.36, where no other file is named."""

from collections import Counter
from typing import Any

import pytest
from tests.scheduler.build import ZONE, cluster, node, place, placer, pod

from pilothouse.scheduler.placement import feasible_limit
from pilothouse.scheduler.wish import Wish


@pytest.mark.parametrize(
    ("nodes", "enough"),
    [
        pytest.param(10, 10, id="few nodes are all looked at"),
        pytest.param(100, 100, id="never fewer than a hundred"),
        pytest.param(1000, 420, id="42 percent of a thousand"),
        pytest.param(5000, 500, id="ten percent of five thousand"),
        pytest.param(6000, 300, id="never less than five percent"),
    ],
)
def test_how_many_fitting_nodes_are_enough(nodes: int, enough: int) -> None:
    """As ``TestNumFeasibleNodesToFind``."""
    assert feasible_limit(nodes) == enough


def test_a_search_goes_on_where_the_last_one_ended() -> None:
    """As ``TestFairEvaluationForNodes``."""
    snapshot = cluster([node(f"n{number}") for number in range(150)])
    judge, wish = placer(snapshot), Wish(pod())
    table = judge._tables.get(wish)
    looked = [judge._search(wish, table, judge.relations(wish)) for _ in range(3)]
    assert [(found[0], found[-1], len(found)) for found in looked] == [(0, 99, 100), (100, 49, 100), (50, 149, 100)]


def test_a_search_passes_over_nodes_that_do_not_fit() -> None:
    nodes = [node(f"n{number}", cpu="1" if number % 3 else "4") for number in range(600)]
    snapshot = cluster(nodes)
    judge, wish = placer(snapshot), Wish(pod("p", "2"))
    table = judge._tables.get(wish)
    found = judge._search(wish, table, judge.relations(wish))
    assert len(found) == 200
    assert all(index % 3 == 0 for index in found)
    assert judge._search(wish, table, judge.relations(wish)) == found


def test_zones_take_turns() -> None:
    """As pkg/scheduler/backend/cache/node_tree_test.go."""
    names = ["a1", "a2", "a3", "b1", "c1", "c2"]
    snapshot = cluster([node(name, labels={ZONE: name[0]}) for name in names])
    assert [one.name for one in snapshot.order] == ["a1", "b1", "c1", "a2", "c2", "a3"]
    snapshot.remove_node("b1")
    snapshot.set_node(node("a1", labels={ZONE: "d"}))
    assert [one.name for one in snapshot.order] == ["a1", "a2", "c1", "a3", "c2"]


def test_equal_nodes_are_decided_by_lot() -> None:
    """As ``TestSelectHost``, and the same seed decides the same."""

    def choices(seed: int) -> list[str | None]:
        judge = placer(cluster([node(name) for name in "abc"]), seed=seed)
        return [judge.place(Wish(pod())).node_name for _ in range(300)]

    counts = Counter(choices(1))
    assert set(counts) == {"a", "b", "c"}
    assert min(counts.values()) > 60
    assert choices(1) == choices(1) != choices(2)


def test_the_emptier_node_is_better() -> None:
    snapshot = cluster([node("full"), node("empty")], {"full": [pod("q", "2", "4Gi")]})
    assert place(snapshot, pod("p", "1")).node_name == "empty"


@pytest.mark.parametrize("before", [1, 300], ids=["few changes", "more changes than are remembered"])
def test_what_is_remembered_of_nodes_is_what_they_are(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.scheduler.snapshot._CHANGES_KEPT", 100)
    snapshot = cluster([node(f"n{number}") for number in range(5)])
    judge, wish = placer(snapshot), Wish(pod("p", "2"))
    assert judge.place(wish).node_name is not None
    for number in range(before):
        snapshot.assume(Wish(pod(f"q{number}", "3")), f"n{number % 5}")
        if number + 5 < before:
            snapshot.forget(f"ns/q{number}")
    table = judge._tables.get(wish)
    found = judge._search(wish, table, judge.relations(wish))
    fresh = placer(snapshot)
    assert found == fresh._search(wish, fresh._tables.get(wish), fresh.relations(wish))


def names(*wanted: str) -> dict[str, Any]:
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in wanted]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}}


@pytest.mark.parametrize(
    ("wanted", "node_name", "message"),
    [
        pytest.param(pod(affinity=names("b")), "b", "", id="one node by name"),
        pytest.param(pod("p", "3", affinity=names("a", "b")), "b", "", id="the better of two by name"),
        pytest.param(
            pod("p", "9", affinity=names("b")),
            None,
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            id="the node by name is too small",
        ),
        pytest.param(
            pod(affinity=names("x")),
            None,
            "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            id="a node that is not there",
        ),
        pytest.param(
            pod("p", "9"),
            None,
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.",
            id="reasons are counted and sorted",
        ),
        pytest.param(
            pod("p", "9", "1Ti"),
            None,
            "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient memory.",
            id="a node can have several",
        ),
    ],
)
def test_where_and_why_not(wanted: Any, node_name: str | None, message: str) -> None:
    snapshot = cluster([node("a"), node("b"), node("c", unschedulable=True)], {"a": [pod("q", "2")]})
    placement = place(snapshot, wanted)
    assert placement.node_name == node_name
    if message:
        assert placement.message() == message


def test_affinity_to_two_names_at_once_fits_nowhere() -> None:
    """As nodeaffinity/node_affinity_test.go: conflicting terms."""
    expressions = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in "ab"]
    selector = {"nodeSelectorTerms": [{"matchFields": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    placement = place(cluster([node("a"), node("b")]), pod(affinity=affinity))
    assert placement.message("x") == "0/2 nodes are available: pod affinity terms conflict. x"


def test_without_nodes_there_is_nothing_to_choose_from() -> None:
    assert place(cluster([]), pod()).message() == "no nodes available to schedule pods"


def test_a_nominated_node_comes_first() -> None:
    snapshot = cluster([node("a"), node("b")], {"b": [pod("q", "3")]})
    wish = Wish(pod("p", "1"))
    snapshot.nominate(wish, "b")
    assert placer(snapshot).place(wish).node_name == "b"
    snapshot.assume(Wish(pod("r", "1")), "b")
    assert placer(snapshot).place(wish).node_name == "a", "but only while the pod fits there"


@pytest.mark.parametrize(
    ("priority", "fits"),
    [
        pytest.param(-1, False, id="lower priority: the room is promised"),
        pytest.param(10, False, id="equal priority: the room is promised"),
        pytest.param(11, True, id="higher priority: first come"),
    ],
)
def test_room_that_is_promised_counts_as_taken(priority: int, fits: bool) -> None:
    """As ``TestFindFitSomeError`` and runtime/framework_test.go, ``TestFilterPluginsWithNominatedPods``."""
    snapshot = cluster([node("a")])
    snapshot.nominate(Wish(pod("other", "3", priority=10)), "a")
    placement = place(snapshot, pod("p", "2", priority=priority))
    assert (placement.node_name == "a") is fits
    if not fits:
        assert placement.message() == "0/1 nodes are available: 1 Insufficient cpu."
    assert not any(snapshot.nodes["a"].requested.values()), "it was only thought of"
    assert not snapshot.nodes["a"].placed
    snapshot.drop_nomination("ns/other")
    assert place(snapshot, pod("p", "2", priority=priority)).node_name == "a"
