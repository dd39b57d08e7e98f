"""Ranking of pods for deletion.

Pairs marked "upstream" are those of v1.36 ``pkg/controller/controller_utils_test.go``, TestSortingActivePods and
TestSortingActivePodsWithRanks.
"""

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.replicaset.builders import NOW, ago, pod
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.replicaset.ranking import ActivePodsWithRanks


def first_of(*pods: Pod, neighbours: Mapping[str, int] | None = None, use_deletion_cost: bool = True) -> str:
    """The pod that is deleted first, for any order of listing."""
    names = {
        ActivePodsWithRanks(order)
        .get_pods_to_delete(1, now=NOW, neighbours=lambda: neighbours or {}, use_deletion_cost=use_deletion_cost)[0]
        .pod.metadata.name
        for order in itertools.permutations(pods)
    }
    assert len(names) == 1, f"the answer depends on the order of the question: {names}"
    return names.pop()


MONTH = ago(days=31)

PENDING = {"phase": "Pending", "ready": False}


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        pytest.param(
            pod("z", node="", phase="Pending", ready=False),
            pod("a", node="node", phase="Pending", ready=False),
            id="upstream: without a node before pending on a node",
        ),
        pytest.param(
            pod("z", node="", phase="Running", restarts=(0,)),
            pod("a", node="node", phase="Pending", ready=False),
            id="unscheduled before scheduled, even when running",
        ),
        pytest.param(
            pod("z", phase="Pending", ready=False),
            pod("a", phase="Unknown", ready=False),
            id="upstream: pending before unknown",
        ),
        pytest.param(
            pod("z", phase="Unknown", ready=False),
            pod("a", phase="Running", ready=False),
            id="upstream: unknown before running",
        ),
        pytest.param(
            pod("z", phase="Strange", ready=False),
            pod("a", phase="Unknown", ready=False),
            id="an unknown phase ranks like Pending",
        ),
        pytest.param(pod("z", ready=False), pod("a"), id="upstream: not ready before ready"),
        pytest.param(
            pod("z", cost="10", ready_since=MONTH),
            pod("a", cost="100", ready_since=NOW),
            id="upstream: the cheaper one",
        ),
        pytest.param(pod("z", cost="-1"), pod("a"), id="a missing cost is 0"),
        pytest.param(pod("z", cost="-1"), pod("a", cost="+10"), id="an invalid cost is 0"),
        pytest.param(
            pod("z"), pod("a", ready_since=NOW), id="upstream: ready without transition time counts as youngest"
        ),
        pytest.param(
            pod("z", ready_since=NOW, created=NOW),
            pod("a", ready_since=MONTH, created=MONTH),
            id="upstream: ready just now before ready for a month",
        ),
        pytest.param(
            pod("z", ready_since=ago(hours=2)),
            pod("a", ready_since=ago(hours=5)),
            id="upstream: ready for 2 h before 5 h",
        ),
        pytest.param(
            pod("a", ready_since=ago(hours=8)),
            pod("z", ready_since=ago(hours=5)),
            id="upstream: ready for 5 h and 8 h rank equal, the smaller uid is deleted",
        ),
        pytest.param(
            pod("a", ready_since=ago(hours=8), restarts=(0,)),
            pod("z", ready_since=ago(hours=5), restarts=(9,)),
            id="ready times that rank equal: restarts are not compared",
        ),
        pytest.param(
            pod("z", ready_since=NOW, created=NOW, restarts=(9001,)),
            pod("a", ready_since=NOW, created=NOW, restarts=(0,)),
            id="upstream: more restarts first",
        ),
        pytest.param(
            pod("z", ready_since=MONTH, restarts=(3, 0)),
            pod("a", ready_since=MONTH, restarts=(2, 2)),
            id="upstream: the highest restart count of a container, not the sum",
        ),
        pytest.param(
            pod("z", ready_since=MONTH, restarts=(2,), sidecar_restarts=(4,)),
            pod("a", ready_since=MONTH, restarts=(2,), sidecar_restarts=(1,)),
            id="equal container restarts: sidecar restarts are compared",
        ),
        pytest.param(
            pod("z", ready_since=NOW, created=NOW), pod("a", ready_since=NOW, created=MONTH), id="upstream: newer first"
        ),
        pytest.param(
            pod("z", **PENDING, created=ago(hours=2)),  # type: ignore[arg-type]
            pod("a", **PENDING, created=ago(hours=5)),  # type: ignore[arg-type]
            id="pods that were never ready: newer first",
        ),
        pytest.param(
            pod("a", **PENDING, created=ago(hours=8)),  # type: ignore[arg-type]
            pod("z", **PENDING, created=ago(hours=5)),  # type: ignore[arg-type]
            id="upstream: created 5 h and 8 h ago rank equal, the smaller uid is deleted",
        ),
        pytest.param(
            pod("z", **PENDING),  # type: ignore[arg-type]
            pod("a", **PENDING, created=NOW),  # type: ignore[arg-type]
            id="a missing creation time counts as newest",
        ),
        pytest.param(pod("a"), pod("z"), id="equal in all criteria: the smaller uid"),
    ],
)
def test_active_pods_ranking(goes: Pod, stays: Pod) -> None:
    assert first_of(goes, stays) == goes.metadata.name


def test_pod_rank_takes_precedence_over_ready_time() -> None:
    """Upstream: rank 2 beats every rule after it, and no rule before it."""
    crowded = pod("z", node="full", ready_since=MONTH, restarts=(0,))
    alone = pod("a", node="empty", ready_since=NOW, restarts=(9001,))
    assert first_of(crowded, alone, neighbours={"full": 2, "empty": 1}) == "z"
    assert first_of(crowded, alone) == "a"
    unready = pod("b", node="empty", ready=False)
    assert first_of(crowded, unready, neighbours={"full": 2, "empty": 1}) == "b"


def test_pod_deletion_cost_gate() -> None:
    """Upstream, gate PodDeletionCost: with it off the fuller node decides."""
    costly = pod("a", node="full", cost="100")
    cheap = pod("b", node="empty", cost="10")
    crowd = {"full": 2, "empty": 1}
    assert first_of(costly, cheap, neighbours=crowd) == "b"
    assert first_of(costly, cheap, neighbours=crowd, use_deletion_cost=False) == "a"


def test_related_pods_are_counted_only_if_earlier_rules_tie() -> None:
    requests = []

    def neighbours() -> dict[str, int]:
        requests.append(1)
        return {}

    pods = [pod("a", ready=False), pod("b"), pod("c")]
    (victim,) = ActivePodsWithRanks(pods).get_pods_to_delete(1, now=NOW, neighbours=neighbours)
    assert victim == (pods[0], "rank 1 of 3 by upstream's order: not ready")
    assert not requests
    ActivePodsWithRanks(pods).get_pods_to_delete(2, now=NOW, neighbours=neighbours)
    assert requests == [1]


@cases(
    "pods, crowd, reasons",
    {
        "the fuller node, and of the two on it the smaller uid": (
            [pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n2"), pod("d", node="n3")],
            {"n1": 1, "n2": 2, "n3": 1},
            ["b: 2 active pods of related owners on its node, then smaller uid"],
        ),
        "two pods on the node with more pods": (
            [pod("a", node="n1"), pod("b", node="n2"), pod("c", node="n2", restarts=(3,)), pod("d", node="n2")],
            {"n1": 1, "n2": 3},
            [
                "c: 3 active pods of related owners on its node, then 3 restarts",
                "b: 3 active pods of related owners on its node, then smaller uid",
            ],
        ),
        "not ready before ready, newer first": (
            [pod("a"), pod("b", ready=False, created=MONTH), pod("c", ready=False, created=NOW)],
            {},
            ["c: not ready, then created later (by powers of two)"],
        ),
        "ready for a shorter time, at two instants": (
            [pod("a", ready_since=MONTH), pod("b", ready_since=ago(hours=5)), pod("c", ready_since=ago(hours=8))],
            {},
            ["b: ready for a shorter time (by powers of two), then smaller uid"],
        ),
        "equal in all criteria": ([pod("a"), pod("b")], {}, ["a: smaller uid"]),
    },
)
def test_reason_names_the_rules_that_distinguish_candidates(
    pods: list[Pod], crowd: Mapping[str, int], reasons: list[str]
) -> None:
    victims = ActivePodsWithRanks(pods).get_pods_to_delete(len(reasons), now=NOW, neighbours=lambda: crowd)
    assert [f"{victim.pod.metadata.name}: {victim.reason.partition(': ')[2]}" for victim in victims] == reasons


def test_deleting_all_pods_needs_no_ranking() -> None:
    pods = [pod("b"), pod("a")]
    assert [victim.pod for victim in ActivePodsWithRanks(pods).get_pods_to_delete(2, now=NOW)] == pods


def test_sorting_active_pods() -> None:
    """TestSortingActivePods: each prefix of the order is the set of deleted pods."""
    order = [
        pod("unscheduled", node="", phase="Pending", ready=False),
        pod("pending", node="bar", phase="Pending", ready=False),
        pod("unknown", phase="Unknown", ready=False),
        pod("unready", ready=False),
        pod("ready-since-ever", restarts=(3, 0)),
        pod("ready-now", ready_since=NOW, restarts=(3, 0)),
        pod("ready-month", ready_since=MONTH, restarts=(3, 0)),
        pod("fewer-restarts", ready_since=MONTH, restarts=(2, 1), created=NOW),
        pod("older", ready_since=MONTH, restarts=(2, 1), created=MONTH),
    ]
    for count in range(len(order) + 1):
        assert {v.pod.metadata.name for v in ActivePodsWithRanks(order[::-1]).get_pods_to_delete(count, now=NOW)} == {
            p.metadata.name for p in order[:count]
        }


def _pairwise_before(one: Pod, other: Pod, crowd: Mapping[str, int]) -> bool:
    """The eight criteria for one pair; an oracle for ``ActivePodsWithRanks.choose``."""

    def ready(p: Pod) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in p.status.conditions)

    def scale(at: object) -> int:
        if at is None:
            return -2
        nanoseconds = int((NOW - at).total_seconds() * 10**9)  # type: ignore[operator]
        return nanoseconds.bit_length() - 1 if nanoseconds > 0 else -1

    phases = {"Unknown": 1, "Running": 2}
    for question in (
        lambda p: p.spec.node_name != "",
        lambda p: phases.get(p.status.phase, 0),
        ready,
        lambda p: int(p.metadata.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")),
        lambda p: -crowd.get(p.spec.node_name, 0),
    ):
        if question(one) != question(other):
            return bool(question(one) < question(other))
    if ready(one):
        first, second = (p.status.conditions[0].last_transition_time for p in (one, other))
        if first != second:
            if scale(first) == scale(second):
                return one.metadata.uid < other.metadata.uid
            return scale(first) < scale(second)
    first_max, second_max = (
        max((s.restart_count for s in p.status.container_statuses), default=0) for p in (one, other)
    )
    if first_max != second_max:
        return first_max > second_max
    first_born, second_born = one.metadata.creation_timestamp, other.metadata.creation_timestamp
    if scale(first_born) != scale(second_born):
        return scale(first_born) < scale(second_born)
    return one.metadata.uid < other.metadata.uid


_AGES = st.sampled_from([None, NOW, ago(seconds=20), ago(seconds=21), ago(hours=5), ago(hours=6)])
_PODS = st.lists(
    st.tuples(
        st.sampled_from(["", "n1", "n2"]),
        st.sampled_from(["Pending", "Running"]),
        st.booleans(),
        _AGES,
        _AGES,
        st.integers(0, 2),
        st.sampled_from([None, "-5", "7"]),
    ),
    min_size=2,
    max_size=7,
)


@given(_PODS, st.data())
def test_selected_pods_agree_with_pairwise_comparison(shapes: list[tuple], data: st.DataObject) -> None:  # type: ignore[type-arg]
    """Where the pairwise rules agree on a set of victims, that set is chosen."""
    pods = [
        pod(
            f"p{i}",
            node=node,
            phase=phase,
            ready=ready,
            ready_since=since,
            created=born,
            restarts=(restarts,),
            cost=cost,
        )
        for i, (node, phase, ready, since, born, restarts, cost) in enumerate(shapes)
    ]
    crowd = {"n1": 2, "n2": 1}
    count = data.draw(st.integers(0, len(pods)))
    ranked_pods = ActivePodsWithRanks(data.draw(st.permutations(pods)))
    chosen = [victim.pod for victim in ranked_pods.get_pods_to_delete(count, now=NOW, neighbours=lambda: crowd)]
    assert len({p.metadata.name for p in chosen}) == len(chosen) == count
    names = {p.metadata.name for p in chosen}
    wins = {p.metadata.name: sum(_pairwise_before(p, other, crowd) for other in pods if other is not p) for p in pods}
    if sorted(wins.values()) == list(range(len(pods))):  # no cycle: the rules make one order
        expected = sorted(wins, key=wins.__getitem__, reverse=True)[:count]
        assert names == set(expected)


@cases(
    "pods, victims, expected",
    {
        "ratio of the victim's age to the youngest pod's age": (
            [pod("old", created=ago(seconds=100)), pod("young", created=ago(seconds=40))],
            ["old"],
            [2.0],
        ),
        "unready victims are not counted": (
            [pod("unready", created=ago(seconds=100), ready=False), pod("young", created=ago(seconds=40))],
            ["unready"],
            [],
        ),
        "a youngest pod without age is no divisor": (
            [pod("old", created=ago(seconds=100)), pod("young", created=NOW)],
            ["old"],
            [],
        ),
        "no ratio without ready pods": ([pod("a", ready=False)], ["a"], []),
    },
)
def test_sorting_deletion_age_ratio(pods: list[Pod], victims: list[str], expected: list[float]) -> None:
    assert ActivePodsWithRanks(pods).age_ratios([p for p in pods if p.metadata.name in victims], NOW) == expected


@given(_PODS, st.data())
def test_cached_ranking_equals_a_new_one(shapes: list[tuple], data: st.DataObject) -> None:  # type: ignore[type-arg]
    """Pods are added, changed and deleted; then the selected pods equal those of a new ranking."""

    def one(i: int, shape: tuple) -> Pod:  # type: ignore[type-arg]
        node, phase, ready, since, born, restarts, cost = shape
        state = {"node": node, "phase": phase, "ready": ready, "ready_since": since, "created": born, "cost": cost}
        return pod(f"p{i}", restarts=(restarts,), **state)

    cached: dict[str, Pod] = {}
    kept = ActivePodsWithRanks()
    for shape in [*shapes, *data.draw(_PODS)]:
        new = one(data.draw(st.integers(0, 4)), shape)
        name = new.metadata.name
        if name in cached:
            kept.remove(cached.pop(name))
        if data.draw(st.booleans()):
            cached[name] = new
            kept.add(new)
    count = data.draw(st.integers(0, len(cached)))
    assert len(kept) == len(cached)
    chosen, expected = (
        {item.pod.metadata.name for item in ranked_pods.get_pods_to_delete(count, now=NOW)}
        for ranked_pods in (kept, ActivePodsWithRanks(cached.values()))
    )
    assert chosen == expected
