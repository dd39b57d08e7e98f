"""The rolling update. Rows mirror v1.36 ``pkg/controller/daemon/update_test.go``."""

import pytest
from tests.controllers.daemonset.daemons import NOW, PLAIN, SURGE, ago, node_pods, pod, rolling
from tests.tables import cases

from pilothouse.api.apps import DaemonSetUpdateStrategy
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules
from pilothouse.controllers.workloads.daemonset.rolling import (
    Bounds,
    Counts,
    Move,
    Plan,
    Step,
    allows_surge,
    bounds_of,
    plan,
    step_of,
)
from pilothouse.machinery.int_or_percent import InvalidBound


def planned(nodes: list[NodePods], rules: Rules, bounds: Bounds) -> Plan:
    """Fold the steps of all nodes, as the board does."""
    steps = {item.node: step_of(item, rules, NOW) for item in nodes}
    result = {name: step for name, step in steps.items() if step is not None}
    counts = Counts(
        desired=sum(item.should_run for item in nodes),
        unavailable=sum(step.unavailable for step in result.values()),
        surging=sum(step.surging for step in result.values()),
        available=sum(step.available for step in result.values()),
    )
    moves = {move: {name: step.pod for name, step in result.items() if step.move is move} for move in Move}
    return plan(counts, moves, bounds, surging=rules.surges)


def old(number: int, *, ready: bool = True) -> NodePods:
    """Node ``n<number>`` with an old pod."""
    return node_pods(pod(f"old-{number}", hash="old", ready=ready), at=f"n{number}")


def new(number: int, *, ready: bool = True) -> NodePods:
    """Node ``n<number>`` with a new pod."""
    return node_pods(pod(f"new-{number}", ready=ready), at=f"n{number}")


def both(number: int, *, old_ready: bool = True, new_ready: bool = False) -> NodePods:
    """Node ``n<number>`` with one of each."""
    pods = (pod(f"old-{number}", hash="old", ready=old_ready), pod(f"new-{number}", ready=new_ready))
    return node_pods(*pods, at=f"n{number}")


@cases(
    "nodes, unavailable, deleted",
    {
        "all available: up to maxUnavailable": ([old(n) for n in range(5)], 2, ("old-0", "old-1")),
        # TestDaemonSetUpdatesPods
        "maxUnavailable reached": ([node_pods(at="n0"), node_pods(at="n1"), old(2)], 2, ()),
        "new ones don't serve yet": ([new(0, ready=False), new(1, ready=False), old(2)], 2, ()),
        # TestDaemonSetUpdatesWhenNewPodIsNotReady
        "none available: all old pods": (
            [old(n, ready=False) for n in range(5)],
            3,
            tuple(f"old-{n}" for n in range(5)),
        ),
        # TestDaemonSetUpdatesAllOldPodsNotReady
        "unavailable pods count towards maxUnavailable": (
            [old(0), old(1, ready=False), old(2), new(3)],
            2,
            ("old-1", "old-0"),
        ),
        "unavailable old pods are deleted beyond maxUnavailable": (
            [
                *(old(n) for n in range(10)),
                *(old(n, ready=False) for n in (10, 11)),
                *(new(n, ready=False) for n in range(12, 100)),
            ],
            10,
            ("old-10", "old-11"),
        ),  # TestDaemonSetUpdatesAllOldNotReadyPodsAndNewNotReadyPods
        "all updated": ([new(n) for n in range(3)], 3, ()),  # TestDaemonSetUpdatesNoTemplateChanged
        "a terminating pod counts as unavailable": (
            [node_pods(pod("a", hash="old", deleted=True), at="n0"), old(1)],
            1,
            (),
        ),
        "two old pods on a node are left to manage": (
            [node_pods(pod("a", hash="old"), pod("b", hash="old"), at="n0"), old(1)],
            1,
            (),
        ),
        "an old and a new pod on a node are left to manage": ([both(0), old(1)], 1, ()),
    },
)
def test_max_unavailable_bounds_deleted_old_pods(
    nodes: list[NodePods], unavailable: int, deleted: tuple[str, ...]
) -> None:
    assert planned(nodes, PLAIN, Bounds(unavailable, 0)) == Plan(delete=deleted)


@cases(
    "nodes, surge, expected",
    {
        "up to maxSurge": ([old(n) for n in range(5)], 2, Plan(create=("n0", "n1"))),
        # TestDaemonSetUpdatesPodsWithMaxSurge
        "maxSurge reached": ([both(0), both(1), old(2)], 2, Plan()),
        "new pods available: old ones are deleted, the next are created": (
            [both(0, new_ready=True), both(1, new_ready=True), old(2), old(3), old(4)],
            2,
            Plan(create=("n2", "n3"), delete=("old-0", "old-1")),
        ),
        "none available: all are created": (
            [old(n, ready=False) for n in range(5)],
            3,
            Plan(create=tuple(f"n{n}" for n in range(5))),
        ),
        # TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge
        "unavailable old pods are replaced beyond maxSurge": (
            [both(0), both(1), both(2), old(3, ready=False), old(4)],
            3,
            Plan(create=("n3",)),
        ),
        "a node without pod is for manage": ([new(0), node_pods(at="n1")], 1, Plan()),
        "two old pods on a node count": (
            [node_pods(pod("a", hash="old"), pod("b", hash="old"), at="n0"), old(1)],
            1,
            Plan(),
        ),
    },
)
def test_max_surge_creates_new_pods_first(nodes: list[NodePods], surge: int, expected: Plan) -> None:
    assert planned(nodes, SURGE, Bounds(0, surge)) == expected


def test_surge_keeps_pods_of_nodes_that_should_not_run_until_others_are_available() -> None:
    """TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge: five nodes, the new template tolerates one of them not."""
    leaving = node_pods(pod("left", hash="old"), at="n0", run=False, stay=True)
    assert planned([leaving, *(old(n) for n in range(1, 5))], SURGE, Bounds(0, 1)) == Plan(
        create=("n1",), delete=("left",)
    ), "five serve where four are wanted"
    assert planned([leaving, old(1, ready=False), *(old(n) for n in range(2, 5))], SURGE, Bounds(0, 1)) == Plan(
        create=("n1", "n2")
    ), "four serve: it is needed"
    assert planned([leaving], SURGE, Bounds(0, 0)) == Plan(), "where no node is wanted a percentage is no surge"
    silent = node_pods(pod("left", hash="old", ready=False), at="n0", run=False, stay=True)
    assert planned([silent], SURGE, Bounds(0, 0)) == Plan(delete=("left",))
    assert planned([silent, old(1)], SURGE, Bounds(0, 1)) == Plan(create=("n1",), delete=("left",))


@cases(
    "strategy, desired, expected",
    {
        # TestGetUnavailableNumbers
        "no nodes": (rolling(0), 0, Bounds(0, 0)),
        "a number": (rolling(1), 2, Bounds(1, 0)),
        "both default to 0: maxUnavailable 1": (rolling(0), 2, Bounds(1, 0)),
        "both 0: maxUnavailable 1": (rolling(0, 0), 2, Bounds(1, 0)),
        "a percentage": (rolling("50%"), 2, Bounds(1, 0)),
        "a percentage, rounded up": (rolling("50%"), 3, Bounds(2, 0)),
        "surge in percent": (rolling(0, "50%"), 2, Bounds(0, 1)),
        "surge in percent, rounded up too": (rolling(0, "1%"), 2, Bounds(0, 1)),
        "surge everywhere": (rolling(0, "100%"), 2, Bounds(0, 2)),
        "defaults": (DaemonSetUpdateStrategy(type="RollingUpdate"), 2, Bounds(1, 0)),
        "OnDelete": (DaemonSetUpdateStrategy(type="OnDelete"), 2, Bounds(1, 0)),
    },
)
def test_percentages_are_scaled_to_the_number_of_nodes(
    strategy: DaemonSetUpdateStrategy, desired: int, expected: Bounds
) -> None:
    assert bounds_of(strategy, desired) == expected


@pytest.mark.parametrize("text", ["two", "5", "-5%", "5.5%", "%"])
def test_invalid_percentage_is_an_error(text: str) -> None:
    with pytest.raises(InvalidBound):
        bounds_of(rolling(text), 3)
    assert not allows_surge(rolling(0, text))


def test_allows_surge() -> None:
    assert allows_surge(rolling(0, "1%"))
    assert not allows_surge(rolling(0, "0%"))
    assert not allows_surge(rolling(0, 0))
    assert not allows_surge(rolling(1))
    assert not allows_surge(DaemonSetUpdateStrategy(type="OnDelete", rolling_update=rolling(0, 1).rolling_update))


def test_is_pod_updated() -> None:
    """TestIsPodUpdated in v1.36 ``pkg/controller/daemon/util``."""
    rules = Rules(revision_hash="new", generation=2)
    assert rules.is_updated(pod("a"))
    assert rules.is_updated(pod("a", hash="old", generation=2))
    assert not rules.is_updated(pod("a", hash="old", generation=1))
    assert not rules.is_updated(pod("a", hash="old"))
    assert not Rules(revision_hash="").is_updated(pod("a", hash=""))
    nameless = Rules(revision_hash="", generation=2)
    assert nameless.is_updated(pod("a", generation=2)), "there is no hash to go by"
    assert rules.is_updated(pod("a", labels={"pod-template-generation": "2"})), "made before there were hashes"
    assert rules.is_updated(pod("a", generation=3)), "the hash is enough"
    assert not rules.is_updated(pod("a", labels={}))
    assert not nameless.is_updated(pod("a", labels={}))


def test_availability_respects_min_ready_seconds() -> None:
    rules = Rules(revision_hash="new", min_ready_seconds=60)
    fresh = node_pods(pod("a", since=ago(seconds=30)))
    assert step_of(fresh, rules, NOW) == Step(unavailable=1)
    assert step_of(node_pods(pod("a", since=ago(seconds=90))), rules, NOW) == Step()
    assert step_of(node_pods(run=False), rules, NOW) is None
