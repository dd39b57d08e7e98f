"""Victims and their node. Rows mirror kube-scheduler v1.36,
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption_test.go, named per table."""

import datetime
import random
from typing import Any

import msgspec
import pytest
from tests.scheduler.build import HOSTNAME, Algorithm, affinity, anti_affinity, cluster, node, pod, spread, term
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.api.policy import PodDisruptionBudget
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.default_preemption import PostFilterResult, calculate_num_candidates, post_filter

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


def attempt(cache: Cache, wanted: Pod, *pdbs: PodDisruptionBudget, nominated: str = "") -> PostFilterResult:
    algorithm, pod_info = Algorithm(cache), PodInfo(wanted)
    if nominated:
        cache.nominator.add_nominated_pod(pod_info, nominated)
    fit_error = algorithm.fit_error(wanted)
    before = _state(cache)
    result = post_filter(algorithm.framework, pod_info, fit_error, pdbs, NOW, random.Random(0))
    assert _state(cache) == before, "the dry run is undone"
    return result


def _state(cache: Cache) -> Any:
    return {
        name: (sorted(i.pods), i.requested, i.non_zero_requested_cpu, i.used_ports) for name, i in cache.nodes.items()
    }


def victims(result: PostFilterResult) -> tuple[str, list[str], int] | None:
    candidate = result.candidate
    if candidate is None:
        return None
    return (
        candidate.node_info.name,
        [placed.pod_info.pod.metadata.name for placed in candidate.victims],
        candidate.num_pdb_violations,
    )


def web(name: str, *args: Any, **parts: Any) -> Pod:
    return low(name, *args, labels={"app": "web"}, **parts)


@cases(
    "placed, wanted, expected",
    {
        # TestDryRunPreemption
        "the pods of lower priority are not enough": (
            [low("a", "2"), low("b", "2", HIGH)],
            pod("p", "3", priority=HIGH),
            None,
        ),
        "the only pod": ([low("a", "4")], pod("p", "3", priority=HIGH), ["a"]),
        "a pod of equal priority is no victim": ([low("a", "4", HIGH)], pod("p", "3", priority=HIGH), None),
        "fewest victims: the most important pods are reprieved first": (
            [low("a", "1"), low("b", "1"), low("c", "2", MIDDLE)],
            pod("p", "1", priority=HIGH),
            ["b"],
        ),
        "reprieved one by one, the most important first": (
            [low("a", "1", MIDDLE), low("b", "2"), low("c", "1", LOW)],
            pod("p", "2", priority=HIGH),
            ["b"],
        ),
        "equal priority: the pod started first is reprieved": (
            [low("old", "2", minutes=60), low("young", "2", minutes=5)],
            pod("p", "2", priority=HIGH),
            ["young"],
        ),
        "all pods": (
            [low("a", "1"), low("b", "1"), low("c", "1"), low("d", "1")],
            pod("p", "4", priority=HIGH),
            ["a", "b", "c", "d"],
        ),
        "the pod with the host port": (
            [low("a", "1", ports=[{"containerPort": 1, "hostPort": 80}]), low("b", "1")],
            pod("p", "1", priority=HIGH, ports=[{"containerPort": 1, "hostPort": 80}]),
            ["a"],
        ),
        "the pod that its anti-affinity matches": (
            [low("a", "1", labels={"app": "x"}), low("b", "1", labels={"app": "web"})],
            pod("p", "1", priority=HIGH, affinity=anti_affinity(term(app="web"))),
            ["b"],
        ),
        "the pod with anti-affinity to it": (
            [low("a", "1", affinity=anti_affinity(term(app="web"))), low("b", "1")],
            pod("p", "1", priority=HIGH, labels={"app": "web"}),
            ["a"],
        ),
        "not the pod that its affinity matches": (
            [low("a", "4", labels={"app": "web"})],
            pod("p", "1", priority=HIGH, affinity=affinity(term(app="web"))),
            None,
        ),
        "a terminating pod is a victim too": (
            [low("a", "4", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            pod("p", "1", priority=HIGH),
            ["a"],
        ),
    },
)
def test_victims_on_a_node(placed: list[Pod], wanted: Pod, expected: list[str] | None) -> None:
    cache = cluster([node("n", labels={HOSTNAME: "n"})], {"n": placed})
    result = victims(attempt(cache, wanted))
    assert result == (("n", expected, 0) if expected is not None else None)


@cases(
    "placed, budgets, cpu, expected, violations",
    {
        "protected pod is reprieved first": ([web("a"), low("b")], [budget(0)], "3", ["b"], 0),
        "disruptionsAllowed 1": ([web("a"), web("b")], [budget(1)], "3", ["a"], 0),
        "violations cannot be avoided": ([web("a"), web("b")], [budget(0)], "4", ["a", "b"], 2),
        "one PDB violation": ([web("a"), web("b")], [budget(1)], "4", ["a", "b"], 1),
        "PDB violations precede priority": ([web("a"), low("b", priority=MIDDLE)], [budget(0)], "3", ["b"], 0),
        "budgets of other namespaces": ([web("a")], [budget(0, namespace="other")], "4", ["a"], 0),
        "an empty selector protects no pod": ([web("a")], [budget(0, app="")], "4", ["a"], 0),
        "pods in disruptedPods are not counted again": (
            [web("a")],
            [budget(0, disruptedPods={"a": "2026-01-01T00:00:00Z"})],
            "4",
            ["a"],
            0,
        ),
        "one of two budgets violated": ([web("a")], [budget(5), budget(0, name="c")], "4", ["a"], 1),
    },
)
def test_pdb_violations(
    placed: list[Pod], budgets: list[PodDisruptionBudget], cpu: str, expected: list[str], violations: int
) -> None:
    """As the rows about PDBs of ``TestDryRunPreemption`` and ``TestFilterPodsWithPDBViolation``.

    Pods not shown fill the node and have a high priority.
    """
    filling = low("filling", str(4 - len(placed)) if cpu == "3" else "0", HIGH)
    room = "4" if cpu == "4" else "1"
    cache = cluster([node("n")], {"n": [*placed, filling] if cpu == "3" else placed})
    result = attempt(cache, pod("p", room, priority=HIGH), *budgets)
    assert victims(result) == ("n", expected, violations)


@cases(
    "placed, budgets, expected",
    {
        # TestPickOneNodeForPreemption
        "fewest PDB violations": ({"n1": [web("a", "4")], "n2": [low("b", "4", MIDDLE)]}, [budget(0)], "n2"),
        "lowest highest priority": ({"n1": [low("a", "4", MIDDLE)], "n2": [low("b", "4")]}, [], "n2"),
        "lowest sum of priorities": (
            {"n1": [low("a", "2", MIDDLE), low("b", "2", MIDDLE)], "n2": [low("c", "2", MIDDLE), low("d", "2")]},
            [],
            "n2",
        ),
        "fewest pods": ({"n1": [low("a", "2"), low("b", "2")], "n2": [low("c", "4")]}, [], "n2"),
        "fewest pods also of negative priority": (
            {"n1": [low("a", "2", -5), low("b", "2", -5)], "n2": [low("c", "4", -5)]},
            [],
            "n2",
        ),
        "latest start time": ({"n1": [low("a", "4", minutes=60)], "n2": [low("b", "4", minutes=5)]}, [], "n2"),
        "latest start time among victims of highest priority": (
            {
                "n1": [low("a", "2", MIDDLE, 60), low("b", "2", LOW, 1)],
                "n2": [low("c", "2", MIDDLE, 5), low("d", "2", LOW, 90)],
            },
            [],
            "n2",
        ),
    },
)
def test_pick_one_node_for_preemption(
    placed: dict[str, list[Pod]], budgets: list[PodDisruptionBudget], expected: str
) -> None:
    for order in (("n1", "n2"), ("n2", "n1")):
        cache = cluster([node(name) for name in order], placed)
        result = attempt(cache, pod("p", "4", priority=HIGH), *budgets)
        assert result.candidate is not None
        assert result.candidate.node_info.name == expected


LEAVING: dict[str, Any] = {
    "meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
}


@cases(
    "placed, wanted, nominated, message, keeps",
    {
        # TestPodEligibleToPreemptOthers, TestPostFilter
        "preemptionPolicy Never": (
            low("a", "4"),
            pod("p", "1", priority=HIGH, preemptionPolicy="Never"),
            "",
            "preemption: not eligible due to preemptionPolicy=Never.",
            True,
        ),
        "a victim is terminating on the nominated node": (
            pod("a", "4", **LEAVING),
            pod("p", "1", priority=HIGH),
            "n",
            "preemption: not eligible due to a terminating pod on the nominated node.",
            True,
        ),
        "a pod is terminating for another reason": (
            pod("a", "4", meta=LEAVING["meta"]),
            pod("p", "1", priority=HIGH),
            "n",
            "",
            False,
        ),
        "no pod of lower priority": (
            low("a", "4"),
            pod("p", "1"),
            "",
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            False,
        ),
        "larger than any node": (
            low("a", "4"),
            pod("p", "9", priority=HIGH),
            "n",
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            False,
        ),
        "affinity is checked after resources": (
            low("a", "2", HIGH),
            pod("p", "3", priority=HIGH, affinity=affinity(term(app="x"))),
            "",
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            False,
        ),
    },
)
def test_eligibility_and_message(placed: Pod, wanted: Pod, nominated: str, message: str, keeps: bool) -> None:
    cache = cluster([node("n"), node("cordoned", unschedulable=True)], {"n": [placed]})
    result = attempt(cache, wanted, nominated=nominated)
    assert (result.message, result.keep_nomination) == (message, keeps)
    assert (result.candidate is None) is bool(message)


def test_the_message_has_the_status_without_pods_of_lower_priority() -> None:
    cache = cluster([node("n")], {"n": [low("a", "1"), low("b", "3", HIGH)]})
    result = attempt(cache, pod("p", "2", priority=HIGH))
    assert result.message == "preemption: 0/1 nodes are available: 1 Insufficient cpu."


def test_topology_spread_does_not_count_victims() -> None:
    nodes = [node(name, labels={HOSTNAME: name}) for name in "ab"]
    placed = {"a": [web("a1", "1"), web("a2", "1")], "b": [low("b1", "4", HIGH)]}
    wanted = pod("p", "1", labels={"app": "web"}, priority=HIGH, topologySpreadConstraints=[spread(HOSTNAME)])
    result = attempt(cluster(nodes, placed), wanted)
    assert victims(result) == ("a", ["a1", "a2"], 0)


@pytest.mark.parametrize(("nodes", "expected"), [(10, 10), (100, 100), (900, 100), (5000, 500)])
def test_calculate_num_candidates(nodes: int, expected: int) -> None:
    """As ``calculateNumCandidates``: a tenth, at least a hundred."""
    assert calculate_num_candidates(nodes) == expected


def test_nominated_pods_count_in_the_dry_run() -> None:
    """Otherwise two pods of one priority would preempt the same victims."""
    cache = cluster([node("n"), node("m")], {"n": [low("a", "4")], "m": [low("b", "4")]})
    cache.nominator.add_nominated_pod(PodInfo(pod("first", "4", priority=HIGH)), "n")
    assert victims(attempt(cache, pod("second", "4", priority=HIGH))) == ("m", ["b"], 0)
