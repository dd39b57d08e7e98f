"""Who is pushed aside, and where. Rows mirror kube-scheduler v1.36,
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption_test.go, named per table."""

import datetime
import random
from typing import Any

import msgspec
import pytest
from tests.scheduler.build import HOSTNAME, Namespaces, cluster, far, near, node, placer, pod, spread, term

from pilothouse.api.core import Pod
from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.scheduler.preemption import Outcome, candidate_limit, preempt
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.scheduler.wish import Wish

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LOW, MIDDLE, HIGH = 0, 100, 1000


def began(minutes_ago: int) -> dict[str, Any]:
    return {"startTime": (NOW - datetime.timedelta(minutes=minutes_ago)).isoformat()}


def low(name: str, cpu: str = "1", priority: int = LOW, minutes: int = 60, **parts: Any) -> Pod:
    return pod(name, cpu, priority=priority, status=began(minutes), **parts)


def budget(
    allowed: int, *, app: str = "web", name: str = "b", namespace: str = "ns", **status: Any
) -> PodDisruptionBudget:
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}} if app else {}},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return msgspec.convert(document, PodDisruptionBudget)


def attempt(snapshot: Snapshot, wanted: Pod, *budgets: PodDisruptionBudget, nominated: str = "") -> Outcome:
    judge, wish = placer(snapshot, Namespaces(ns={})), Wish(wanted)
    if nominated:
        snapshot.nominate(wish, nominated)
    placement = judge.place(wish)
    assert placement.node_name is None
    before = _state(snapshot)
    outcome = preempt(judge, wish, placement, budgets, NOW, random.Random(0))
    assert _state(snapshot) == before, "it was only thought of"
    return outcome


def _state(snapshot: Snapshot) -> Any:
    return {name: (sorted(i.placed), i.requested, i.cpu_used, i.ports) for name, i in snapshot.nodes.items()}


def victims(outcome: Outcome) -> tuple[str, list[str], int] | None:
    found = outcome.victims
    if found is None:
        return None
    return found.info.name, [placed.wish.pod.metadata.name for placed in found.pods], found.violations


def web(name: str, *args: Any, **parts: Any) -> Pod:
    return low(name, *args, labels={"app": "web"}, **parts)


@pytest.mark.parametrize(
    ("placed", "wanted", "expected"),
    [
        # TestDryRunPreemption
        pytest.param(
            [low("a", "2"), low("b", "2", HIGH)], pod("p", "3", priority=HIGH), None, id="one cannot be enough"
        ),
        pytest.param([low("a", "4")], pod("p", "3", priority=HIGH), ["a"], id="the only one"),
        pytest.param([low("a", "4", HIGH)], pod("p", "3", priority=HIGH), None, id="equal priority is safe"),
        pytest.param(
            [low("a", "1"), low("b", "1"), low("c", "2", MIDDLE)],
            pod("p", "1", priority=HIGH),
            ["b"],
            id="only as many as needed: who matters more is put back first",
        ),
        pytest.param(
            [low("a", "1", MIDDLE), low("b", "2"), low("c", "1", LOW)],
            pod("p", "2", priority=HIGH),
            ["b"],
            id="who is put back is looked at one by one, most important first",
        ),
        pytest.param(
            [low("old", "2", minutes=60), low("young", "2", minutes=5)],
            pod("p", "2", priority=HIGH),
            ["young"],
            id="of equal ones who has run longer stays",
        ),
        pytest.param(
            [low("a", "1"), low("b", "1"), low("c", "1"), low("d", "1")],
            pod("p", "4", priority=HIGH),
            ["a", "b", "c", "d"],
            id="all of them",
        ),
        pytest.param(
            [low("a", "1", ports=[{"containerPort": 1, "hostPort": 80}]), low("b", "1")],
            pod("p", "1", priority=HIGH, ports=[{"containerPort": 1, "hostPort": 80}]),
            ["a"],
            id="who has the port",
        ),
        pytest.param(
            [low("a", "1", labels={"app": "x"}), low("b", "1", labels={"app": "web"})],
            pod("p", "1", priority=HIGH, affinity=far(term(app="web"))),
            ["b"],
            id="whom it wants to be far from",
        ),
        pytest.param(
            [low("a", "1", affinity=far(term(app="web"))), low("b", "1")],
            pod("p", "1", priority=HIGH, labels={"app": "web"}),
            ["a"],
            id="who wants to be far from it",
        ),
        pytest.param(
            [low("a", "4", labels={"app": "web"})],
            pod("p", "1", priority=HIGH, affinity=near(term(app="web"))),
            None,
            id="never whom it must be near",
        ),
        pytest.param(
            [low("a", "4", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            pod("p", "1", priority=HIGH),
            ["a"],
            id="who is leaving anyway counts as a victim",
        ),
    ],
)
def test_who_is_pushed_aside(placed: list[Pod], wanted: Pod, expected: list[str] | None) -> None:
    snapshot = cluster([node("n", labels={HOSTNAME: "n"})], {"n": placed})
    found = victims(attempt(snapshot, wanted))
    assert found == (("n", expected, 0) if expected is not None else None)


@pytest.mark.parametrize(
    ("placed", "budgets", "cpu", "expected", "violations"),
    [
        pytest.param([web("a"), low("b")], [budget(0)], "3", ["b"], 0, id="the protected one is put back first"),
        pytest.param([web("a"), web("b")], [budget(1)], "3", ["a"], 0, id="one may go, and it is the other"),
        pytest.param([web("a"), web("b")], [budget(0)], "4", ["a", "b"], 2, id="there is no other way"),
        pytest.param([web("a"), web("b")], [budget(1)], "4", ["a", "b"], 1, id="one more than may go"),
        pytest.param(
            [web("a"), low("b", priority=MIDDLE)],
            [budget(0)],
            "3",
            ["b"],
            0,
            id="protection matters more than priority",
        ),
        pytest.param([web("a")], [budget(0, namespace="other")], "4", ["a"], 0, id="budgets of other namespaces"),
        pytest.param([web("a")], [budget(0, app="")], "4", ["a"], 0, id="an empty selector protects nobody"),
        pytest.param(
            [web("a")],
            [budget(0, disruptedPods={"a": "2026-01-01T00:00:00Z"})],
            "4",
            ["a"],
            0,
            id="who is on its way out has been counted",
        ),
        pytest.param([web("a")], [budget(5), budget(0, name="c")], "4", ["a"], 1, id="one of two budgets is enough"),
    ],
)
def test_budgets(
    placed: list[Pod], budgets: list[PodDisruptionBudget], cpu: str, expected: list[str], violations: int
) -> None:
    """As the rows about PDBs of ``TestDryRunPreemption`` and ``TestFilterPodsWithPDBViolation``.

    Pods not shown fill the node; nobody may touch them.
    """
    filling = low("filling", str(4 - len(placed)) if cpu == "3" else "0", HIGH)
    room = "4" if cpu == "4" else "1"
    snapshot = cluster([node("n")], {"n": [*placed, filling] if cpu == "3" else placed})
    outcome = attempt(snapshot, pod("p", room, priority=HIGH), *budgets)
    assert victims(outcome) == ("n", expected, violations)


@pytest.mark.parametrize(
    ("placed", "budgets", "expected"),
    [
        # TestPickOneNodeForPreemption
        pytest.param(
            {"n1": [web("a", "4")], "n2": [low("b", "4", MIDDLE)]}, [budget(0)], "n2", id="fewest broken budgets"
        ),
        pytest.param({"n1": [low("a", "4", MIDDLE)], "n2": [low("b", "4")]}, [], "n2", id="lowest highest priority"),
        pytest.param(
            {
                "n1": [low("a", "2", MIDDLE), low("b", "2", MIDDLE)],
                "n2": [low("c", "2", MIDDLE), low("d", "2")],
            },
            [],
            "n2",
            id="lowest sum of priorities",
        ),
        pytest.param({"n1": [low("a", "2"), low("b", "2")], "n2": [low("c", "4")]}, [], "n2", id="fewest pods"),
        pytest.param(
            {"n1": [low("a", "2", -5), low("b", "2", -5)], "n2": [low("c", "4", -5)]},
            [],
            "n2",
            id="fewest pods also of negative priority",
        ),
        pytest.param(
            {"n1": [low("a", "4", minutes=60)], "n2": [low("b", "4", minutes=5)]}, [], "n2", id="who began last"
        ),
        pytest.param(
            {
                "n1": [low("a", "2", MIDDLE, 60), low("b", "2", LOW, 1)],
                "n2": [low("c", "2", MIDDLE, 5), low("d", "2", LOW, 90)],
            },
            [],
            "n2",
            id="among those of highest priority",
        ),
    ],
)
def test_which_node(placed: dict[str, list[Pod]], budgets: list[PodDisruptionBudget], expected: str) -> None:
    for order in (("n1", "n2"), ("n2", "n1")):
        snapshot = cluster([node(name) for name in order], placed)
        outcome = attempt(snapshot, pod("p", "4", priority=HIGH), *budgets)
        assert outcome.victims is not None
        assert outcome.victims.info.name == expected


LEAVING: dict[str, Any] = {
    "meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    },
}


@pytest.mark.parametrize(
    ("placed", "wanted", "nominated", "message", "keeps"),
    [
        # TestPodEligibleToPreemptOthers, TestPostFilter
        pytest.param(
            low("a", "4"),
            pod("p", "1", priority=HIGH, preemptionPolicy="Never"),
            "",
            "preemption: not eligible due to preemptionPolicy=Never.",
            True,
            id="a pod that never pushes",
        ),
        pytest.param(
            pod("a", "4", **LEAVING),
            pod("p", "1", priority=HIGH),
            "n",
            "preemption: not eligible due to a terminating pod on the nominated node.",
            True,
            id="somebody leaves already, for it",
        ),
        pytest.param(
            pod("a", "4", meta=LEAVING["meta"]),
            pod("p", "1", priority=HIGH),
            "n",
            "",
            False,
            id="somebody leaves for another reason",
        ),
        pytest.param(
            low("a", "4"),
            pod("p", "1"),
            "",
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            False,
            id="nobody of lower priority",
        ),
        pytest.param(
            low("a", "4"),
            pod("p", "9", priority=HIGH),
            "n",
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            False,
            id="larger than any node",
        ),
        pytest.param(
            low("a", "2", HIGH),
            pod("p", "3", priority=HIGH, affinity=near(term(app="x"))),
            "",
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            False,
            id="affinity comes after resources",
        ),
    ],
)
def test_who_may_push_and_what_is_said(placed: Pod, wanted: Pod, nominated: str, message: str, keeps: bool) -> None:
    snapshot = cluster([node("n"), node("cordoned", unschedulable=True)], {"n": [placed]})
    outcome = attempt(snapshot, wanted, nominated=nominated)
    assert (outcome.message, outcome.keeps_nomination) == (message, keeps)
    assert (outcome.victims is None) is bool(message)


def test_what_speaks_against_a_node_without_its_lesser_pods_is_said() -> None:
    snapshot = cluster([node("n")], {"n": [low("a", "1"), low("b", "3", HIGH)]})
    outcome = attempt(snapshot, pod("p", "2", priority=HIGH))
    assert outcome.message == "preemption: 0/1 nodes are available: 1 Insufficient cpu."


def test_spreading_is_judged_as_if_the_victims_were_gone() -> None:
    nodes = [node(name, labels={HOSTNAME: name}) for name in "ab"]
    placed = {"a": [web("a1", "1"), web("a2", "1")], "b": [low("b1", "4", HIGH)]}
    wanted = pod("p", "1", labels={"app": "web"}, priority=HIGH, topologySpreadConstraints=[spread(HOSTNAME)])
    outcome = attempt(cluster(nodes, placed), wanted)
    assert victims(outcome) == ("a", ["a1", "a2"], 0)


@pytest.mark.parametrize(("nodes", "expected"), [(10, 10), (100, 100), (900, 100), (5000, 500)])
def test_how_many_nodes_are_considered(nodes: int, expected: int) -> None:
    """As ``calculateNumCandidates``: a tenth, at least a hundred."""
    assert candidate_limit(nodes) == expected


def test_promised_room_counts_when_others_are_pushed_aside() -> None:
    """Otherwise two pods of one priority would each push the same victims aside and one would find no room."""
    snapshot = cluster([node("n"), node("m")], {"n": [low("a", "4")], "m": [low("b", "4")]})
    snapshot.nominate(Wish(pod("first", "4", priority=HIGH)), "n")
    assert victims(attempt(snapshot, pod("second", "4", priority=HIGH))) == ("m", ["b"], 0)
