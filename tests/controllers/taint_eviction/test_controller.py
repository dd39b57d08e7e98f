"""Taint eviction on the embedded API server, in virtual time.

There is no kubelet: a deleted pod remains terminating, so that its deletion time can be read.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import NODES, PODS, Doc, World, no_execute, started, toleration
from tests.tables import cases

from pilothouse.client.interceptor import Rule, fail, lose_answer
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR, TaintEvictionOptions
from pilothouse.env import Env

DELETED = "taint_eviction_controller_pod_deletions_total"

A, B = no_execute("a"), no_execute("b")

Step = tuple[float, Callable[[World], Awaitable[Any]]]


world = started(DESCRIPTOR, seconds=1.0)


def tainted(*taints: Doc) -> Callable[[World], Awaitable[Any]]:
    return lambda world: world.taint("n1", *taints)


def creating(name: str = "p", *tolerations: Doc, node: str = "n1") -> Callable[[World], Awaitable[Any]]:
    return lambda world: world.pod(name, node=node, tolerations=tolerations)


def tolerating(*tolerations: Doc) -> Callable[[World], Awaitable[Any]]:
    return lambda world: world.merge(f"{PODS}/p", {"spec": {"tolerations": list(tolerations)}})


def bound(world: World) -> Awaitable[Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    return world.request("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target})


async def deletion_times(world: World, steps: Sequence[Step], end: float) -> dict[str, float]:
    """Run the steps at their times, and return when the deletion of each pod was requested."""
    start = world.env.monotonic()
    times: dict[str, float] = {}
    steps = [*steps]
    while (now := round(world.env.monotonic() - start, 1)) < end:
        for name in [text.split()[-1] for text in world.requests(reads=False) if text.startswith("delete pods")]:
            times.setdefault(name, now)
        while steps and steps[0][0] <= now:
            await steps.pop(0)[1](world)
        await asyncio.sleep(start + now + 0.5 - world.env.monotonic())
    return times


def _as_is(value: bytes, _revision: int) -> bytes:
    return value


@pytest.mark.parametrize(("enabled", "evicted"), [(True, ["low"]), (False, ["high", "low"])])
async def test_taint_toleration_comparison_operators_gate(env: Env, enabled: bool, evicted: list[str]) -> None:
    """``TaintTolerationComparisonOperators``: stored bypassing the API server, which rejects such tolerations."""
    async with node_world.world(env) as world:
        await world.node("n1")
        for name, value in (("high", "950"), ("low", "990")):
            await world.pod(name, node="n1", tolerations=({"key": "sla", "operator": "Equal", "value": value},))
            key = f"/pods/default/{name}"
            record = world.store.get(key)
            assert record is not None
            stored = record.value.replace(b'"Equal"', b'"Gt"')
            assert stored != record.value
            await world.store.commit(world.store.stage(key, functools.partial(_as_is, stored)))
        await world.start(DESCRIPTOR, TaintEvictionOptions(comparison_operators=enabled))
        taint = {"key": "sla", "value": "970", "effect": "NoExecute"}
        assert sorted(await deletion_times(world, [(0, tainted(taint))], 5)) == evicted


@cases(
    "steps, expected",
    {
        "no taint (TestCreatePod, TestCreateNode)": ([(0, creating())], None),
        "a pod on a tainted node is evicted immediately (TestCreatePod)": ([(0, tainted(A)), (5, creating())], 5),
        "existing pod on a tainted node (TestUpdateNode, TestCreateNode)": ([(0, creating()), (5, tainted(A))], 5),
        "after its time (TestUpdateNode)": ([(0, creating("p", toleration("a", 100))), (5, tainted(A))], 105),
        "infinite toleration (TestUpdateNode)": ([(0, creating("p", toleration("a"))), (5, tainted(A))], None),
        "the taint is removed in time (TestUpdateNode 'Taint removed')": (
            [(0, creating("p", toleration("a", 100))), (5, tainted(A)), (60, tainted())],
            None,
        ),
        "the taint is re-added: tolerationSeconds restart": (
            [(0, creating("p", toleration("a", 300))), (0, tainted(A)), (100, tainted()), (150, tainted(A))],
            450,
        ),
        "kubernetes#90794: one of two taints removed (…WithMultipleTaints)": (
            [
                (0, creating("p", toleration("a"), toleration("b", 60))),
                (0, tainted(A)),
                (10, tainted(A, B)),
                (40, tainted(A)),
            ],
            None,
        ),
        "second taint with a shorter toleration does not reschedule": (
            [(0, creating("p", toleration("a", 100), toleration("b", 5))), (0, tainted(A)), (10, tainted(A, B))],
            100,
        ),
        "second taint without toleration: immediately": (
            [(0, creating("p", toleration("a", 100))), (0, tainted(A)), (10, tainted(A, B))],
            10,
        ),
        "lengthening the toleration changes nothing (TestUpdatePod)": (
            [
                (0, creating("p", toleration("a", 100))),
                (0, tainted(A)),
                (30, tolerating(toleration("a", 100), toleration("a", 500))),
            ],
            100,
        ),
        "bound to a tainted node (TestUpdatePod 'scheduling onto tainted Node', TestEventualConsistency)": (
            [(0, creating("p", node="")), (0, tainted(A)), (7, bound)],
            7,
        ),
        "bound to a tainted node, tolerating (TestUpdatePod)": (
            [(0, creating("p", toleration("a"), node="")), (0, tainted(A)), (7, bound)],
            None,
        ),
        "node deleted: eviction stays scheduled (TestDeleteNode)": (
            [(0, creating("p", toleration("a", 50))), (0, tainted(A)), (20, lambda world: world.delete(f"{NODES}/n1"))],
            50,
        ),
    },
)
async def test_eviction_time(world: World, steps: list[Step], expected: float | None) -> None:
    await world.node("n1")
    times = await deletion_times(world, steps, 600)
    if expected is None:
        assert times == {}
        assert world.metrics.value(DELETED) == 0
    else:
        assert expected <= times["p"] <= expected + 0.6
        assert world.metrics.value(DELETED) == 1


async def test_pods_of_one_node_are_evicted_by_their_tolerations(world: World) -> None:
    """TestUpdateNodeWithMultiplePods."""
    await world.node("n1")
    steps: list[Step] = [
        (0, creating("now")),
        (0, creating("later", toleration("a", 20))),
        (0, creating("never", toleration("a"))),
        (5, tainted(A)),
        (50, tainted(A, B)),
    ]
    times = await deletion_times(world, steps, 100)
    assert {name: int(at) for name, at in times.items()} == {"now": 5, "later": 25, "never": 50}


async def test_eviction_requests_events_and_condition_are_upstreams(world: World) -> None:
    """Traces 13 (v1.36.2), with one live read of the node between that of the pod and the event."""
    await world.node("n1")
    await world.pod("p", node="n1", ready=True)
    await world.taint("n1", A)
    await asyncio.sleep(5)
    assert world.requests() == ["get pods p", "get nodes n1", "patch pods/status p", "delete pods p"]
    [marked] = world.bodies("patch", "pods/status")
    assert marked["metadata"] == {"uid": (await world.must_get(f"{PODS}/p"))["metadata"]["uid"]}
    [condition] = marked["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "observedGeneration": 1,
        "lastProbeTime": None,
    }
    assert [entry["type"] for entry in marked["status"]["$setElementOrder/conditions"]] == [
        "Ready",
        "DisruptionTarget",
    ]
    [deletion] = world.bodies("delete", "pods")
    assert "gracePeriodSeconds" not in deletion, "it gets its own grace period"
    [event] = (await world.must_get("/api/v1/events"))["items"]
    assert (event["reason"], event["type"]) == ("TaintManagerEviction", "Normal")
    assert event["message"] == "Marking for deletion Pod default/p"
    assert event["source"] == {"component": "taint-eviction-controller"}
    assert "uid" not in event["involvedObject"]


async def test_cancellation_event_only_for_a_pending_eviction(world: World) -> None:
    await world.node("n1")
    await world.pod("waits", node="n1", tolerations=(toleration("a", 100),))
    await world.pod("stays", node="n1", tolerations=(toleration("a"),))
    await world.taint("n1", A)
    await asyncio.sleep(10)
    await world.taint("n1")
    await asyncio.sleep(10)
    assert await world.events() == ["Pod/waits Cancelling deletion of Pod default/waits"]


async def test_kubernetes_107543_recreated_pod_is_evicted(world: World) -> None:
    """A StatefulSet's pod is recreated under its name; its node was tainted again within a minute."""
    await world.node("n1")
    for _ in range(3):
        await world.pod("web-0", node="n1", tolerations=(toleration("a", 10),))
        await world.taint("n1", A)
        await asyncio.sleep(11)
        assert await world.pods() == [], "its time is over"
        await world.delete(f"{PODS}/web-0", grace=0)
        await world.taint("n1")
        await asyncio.sleep(5)
    assert world.metrics.value(DELETED) == 3


async def test_kubernetes_107543_recreated_pod_has_its_full_toleration_seconds(world: World) -> None:
    """The cache replaces one pod by another in one update; upstream would delete the new one at the old one's time."""
    await world.node("n1", taints=(A,))
    await world.pod("web-0", node="n1", tolerations=(toleration("a", 60),))
    await asyncio.sleep(50)
    with world.faults.hold(resource="pods"):
        await world.delete(f"{PODS}/web-0", grace=0)
        await world.pod("web-0", node="n1", tolerations=(toleration("a", 60),))
        await asyncio.sleep(15)
        assert await world.pods() == ["web-0"], "the live pod has another uid"
    world.faults.end_watches(resource="pods")
    await asyncio.sleep(40)
    assert await world.pods() == ["web-0"]
    await asyncio.sleep(30)
    assert await world.pods() == []


async def test_kubernetes_119862_stale_taint_evicts_no_pods(world: World) -> None:
    """A node starts with a taint, its agent removes it, the scheduler binds; the node's event is late."""
    await world.node("n1", taints=(A,))
    await asyncio.sleep(1)
    with world.faults.hold(resource="nodes"):
        await world.taint("n1")
        await world.pod("p", node="n1")
        await asyncio.sleep(30)
        assert await world.pods() == ["p"]
        assert "delete pods p" not in world.requests()
    await asyncio.sleep(30)
    assert await world.pods() == ["p"]
    assert await world.events() == []
    await world.taint("n1", A)
    await asyncio.sleep(1)
    assert await world.pods() == [], "and it is evicted when the taint is really there"


async def test_kubernetes_119862_readded_taint_evicts_pods(world: World) -> None:
    await world.node("n1", taints=(A,))
    await asyncio.sleep(1)
    with world.faults.hold(resource="nodes"):
        await world.taint("n1")
        await world.pod("p", node="n1")
        await asyncio.sleep(1)
        await world.taint("n1", A)
        await asyncio.sleep(10)
        assert await world.pods() == []


@pytest.mark.parametrize("removed", ["before its time", "at its time"])
async def test_readded_taint_restarts_toleration_seconds(world: World, removed: str) -> None:
    """A list after a broken watch has the same taint with another timeAdded. Upstream evicts at the old time."""

    def since(seconds: int) -> Doc:
        return {**A, "timeAdded": f"2026-01-01T00:00:{seconds:02}Z"}

    await world.node("n1", taints=(since(0),))
    await world.pod("p", node="n1", tolerations=(toleration("a", 60),))
    await asyncio.sleep(30)
    with world.faults.hold(resource="nodes"):
        await world.taint("n1")
        await world.taint("n1", since(30))
        if removed == "at its time":
            await asyncio.sleep(35)
            assert await world.pods() == ["p"], "the live node shows it"
    await asyncio.sleep(20 if removed == "at its time" else 55)
    assert await world.pods() == ["p"]
    await asyncio.sleep(41 if removed == "at its time" else 6)
    assert await world.pods() == []


async def test_stale_cache_does_not_shorten_toleration_seconds(world: World) -> None:
    await world.node("n1", taints=(A, B))
    await asyncio.sleep(1)
    with world.faults.hold(resource="nodes"):
        await world.taint("n1", A)
        await world.pod("p", node="n1", tolerations=(toleration("a", 60),))
        await asyncio.sleep(50)
        assert await world.pods() == ["p"]
        await asyncio.sleep(15)
        assert await world.pods() == []


async def test_failed_deletion_is_retried_until_success_with_one_event(world: World) -> None:
    """Upstream stops after five attempts (kubernetes#140639)."""
    await world.node("n1")
    await world.pod("p", node="n1")
    rule = world.faults.add(Rule(fail(500), verb="delete", resource="pods"))
    await world.taint("n1", A)
    await asyncio.sleep(120)
    assert world.requests().count("delete pods p") > 5
    assert world.requests().count("patch pods/status p") == 1, "what is written is written"
    world.faults.remove(rule)
    await asyncio.sleep(61)
    assert await world.pods() == []
    assert await world.events() == ["Pod/p Marking for deletion Pod default/p"]
    assert world.metrics.value(DELETED) == 1


async def test_cancelled_deletion_is_not_retried(world: World) -> None:
    await world.node("n1")
    await world.pod("p", node="n1")
    rule = world.faults.add(Rule(fail(500), verb="delete", resource="pods"))
    await world.taint("n1", A)
    await asyncio.sleep(5)
    await world.taint("n1")
    world.faults.remove(rule)
    await asyncio.sleep(300)
    assert await world.pods() == ["p"]


async def test_lost_response_causes_one_more_request(world: World) -> None:
    await world.node("n1")
    await world.pod("p", node="n1")
    world.faults.add(Rule(lose_answer(), verb="delete", resource="pods", nth=1))
    await world.taint("n1", A)
    await asyncio.sleep(30)
    assert await world.pods() == []
    assert world.requests().count("delete pods p") == 2


async def test_new_taint_deletes_terminating_pods_again(world: World) -> None:
    """Traces 13: terminating pods are not skipped."""
    await world.node("n1")
    await world.pod("p", node="n1", tolerations=(toleration("a", 5),))
    await world.taint("n1", A)
    await asyncio.sleep(10)
    await world.taint("n1", A, B)
    await asyncio.sleep(10)
    assert world.requests().count("delete pods p") == 2
    assert world.requests().count("patch pods/status p") == 1


async def test_evictions_continue_after_a_restart(env: Env) -> None:
    async with node_world.world(env) as world:
        await world.node("n1", taints=(A,))
        await world.pod("p", node="n1")
        await world.pod("q", node="n1", tolerations=(toleration("a", 20),))
        await world.start(DESCRIPTOR)
        await asyncio.sleep(5)
        assert await world.pods() == ["q"]
        await asyncio.sleep(20)
        assert await world.pods() == []
