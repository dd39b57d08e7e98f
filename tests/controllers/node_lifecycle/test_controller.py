"""The node lifecycle controller on the embedded API server, in virtual time.

The kubelets are a task that renews Leases; a node stops renewing when its name is removed from the list.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from tests.controllers.node_world import HEALTHY, NODES, PODS, World, toleration

from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer
from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR as POD_GARBAGE_COLLECTOR
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR as TAINT_EVICTION
from pilothouse.env import TaskGroup

SILENT = ["unreachable:NoSchedule", "unreachable:NoExecute"]
ZONE_A = {"topology.kubernetes.io/zone": "a"}
ZONE_B = {"topology.kubernetes.io/zone": "b"}


@pytest.fixture
async def alive(world: World) -> AsyncIterator[dict[str, None]]:
    """The names of the kubelets that renew their Leases, every ten seconds; the controller runs."""
    alive: dict[str, None] = {}

    async def renew() -> None:
        while True:
            for name in list(alive):
                await world.renew(name)
            await asyncio.sleep(10)

    async with TaskGroup("kubelets") as group:
        group.start(renew())
        await world.start(DESCRIPTOR)
        yield alive
        group.cancel()


async def grow(world: World, alive: dict[str, None], *names: str, **metadata: object) -> None:
    for name in names:
        await world.node(name, **metadata)  # type: ignore[arg-type]  # labels and the like
        await world.renew(name)
        alive[name] = None
    await asyncio.sleep(6)


def evictions(world: World, zone: str = "") -> float:
    return world.metrics.value("node_collector_evictions_total", zone)


async def test_new_node_loses_the_not_ready_taint_and_gets_beta_labels(world: World, alive: dict[str, None]) -> None:
    """Traces 13: GET and PATCH of the taints (null), GET and PATCH of the labels, the event."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    await world.request("POST", NODES, {"metadata": {"name": "n1", "labels": labels}})
    assert await world.taints("n1") == ["not-ready:NoSchedule"], "admission gave it"
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(6)
    node = await world.must_get(f"{NODES}/n1")
    assert "taints" not in node["spec"]
    assert node["metadata"]["labels"]["beta.kubernetes.io/os"] == "linux"
    assert await world.events() == ["Node/n1 Node n1 event: Registered Node n1 in Controller"]
    taints = [body for body in world.bodies("patch", "nodes") if "spec" in body]
    assert taints[-1]["spec"] == {"taints": None}
    assert taints[-1]["metadata"]["resourceVersion"]
    assert all("resourceVersion=0" in s.request.target for s in world.seen if s.call.verb == "get")


async def test_labels_are_not_written_twice_with_a_stale_cache(world: World, alive: dict[str, None]) -> None:
    world.faults.add(Rule(delay(3.0), verb="watch", resource="nodes"))
    await world.request("POST", NODES, {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}})
    await asyncio.sleep(1)
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(20)
    assert sum("labels" in body["metadata"] for body in world.bodies("patch", "nodes")) == 1


async def test_lease_renewals_keep_a_node_ready(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1")
    await asyncio.sleep(3600)
    assert (await world.conditions(f"{NODES}/n1"))["Ready"]["status"] == "True"
    assert world.requests(reads=False) == []


async def test_node_without_heartbeats_becomes_unknown_and_its_pods_not_ready(
    world: World, alive: dict[str, None]
) -> None:
    """Traces 13, with a live read before the complete status is written."""
    await grow(world, alive, "n1", "n2")
    await world.pod("ready", node="n1", ready=True)
    await world.pod("unready", node="n1", ready=False)
    await world.pod("elsewhere", node="n2", ready=True)
    await world.merge(
        f"{PODS}/ready/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "M"}]}},
    )
    await asyncio.sleep(10)
    alive.pop("n1")
    world.seen.clear()
    await asyncio.sleep(39)
    assert world.requests() == []
    await asyncio.sleep(22)
    conditions = await world.conditions(f"{NODES}/n1")
    assert list(conditions) == list(HEALTHY)
    assert {(c["status"], c["reason"]) for c in conditions.values()} == {("Unknown", "NodeStatusUnknown")}
    assert await world.taints("n1") == SILENT
    assert world.requests()[:2] == ["get nodes n1", "update nodes/status n1"]
    assert sorted(world.requests()[2:]) == [
        "get nodes n1",
        "get nodes n1",
        "get pods ready",
        "patch nodes n1",
        "patch nodes n1",
        "update pods/status ready",
    ]
    mark = (await world.conditions(f"{PODS}/ready"))["Ready"]
    assert (mark["status"], mark["reason"], mark["message"]) == ("False", "R", "M")
    assert (await world.conditions(f"{PODS}/elsewhere"))["Ready"]["status"] == "True"
    assert await world.events("NodeNotReady") == [
        "Node/n1 Node n1 status is now: NodeNotReady",
        "Pod/ready Node is not ready",
    ]
    taints = (await world.must_get(f"{NODES}/n1"))["spec"]["taints"]
    assert all(taint["timeAdded"] for taint in taints)
    assert evictions(world) == 1
    assert world.metrics.value("node_collector_zone_size", "") == 2
    assert world.metrics.value("node_collector_unhealthy_nodes_in_zone", "") == 1
    assert world.metrics.value("node_collector_zone_health", "") == 50
    world.seen.clear()
    await asyncio.sleep(600)
    assert world.requests() == [], "what is said is said"


async def test_node_with_a_renewed_heartbeat_loses_its_taints(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    alive.pop("n1")
    await asyncio.sleep(70)
    assert await world.taints("n1") == SILENT
    alive["n1"] = None
    await world.renew("n1")
    await asyncio.sleep(30)
    assert await world.taints("n1") == SILENT, "what it said of itself was overwritten: it must say so anew"
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(6)
    assert await world.taints("n1") == []
    alive.pop("n1")
    await asyncio.sleep(75)
    assert await world.taints("n1") == SILENT, "it can be tainted again"


async def test_node_startup_grace_period(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n2")
    await world.node("n1", conditions={})
    await asyncio.sleep(58)
    assert await world.conditions(f"{NODES}/n1") == {}
    await asyncio.sleep(12)
    conditions = await world.conditions(f"{NODES}/n1")
    assert {c["reason"] for c in conditions.values()} == {"NodeStatusNeverUpdated"}
    assert list(conditions) == ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
    assert await world.taints("n1") == SILENT
    assert await world.events("NodeNotReady") == []


async def test_full_disruption_stops_evictions(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    alive.clear()
    await asyncio.sleep(300)
    for name in ("n1", "n2"):
        assert (await world.conditions(f"{NODES}/{name}"))["Ready"]["status"] == "Unknown"
        assert await world.taints(name) == ["unreachable:NoSchedule"]
    await world.report_node("n1", HEALTHY)
    alive["n1"] = None
    await asyncio.sleep(30)
    assert await world.taints("n1") == []
    assert await world.taints("n2") == SILENT, "one is ready again: it is the other that is down"


async def test_full_disruption_removes_no_execute_taints(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "a1", labels=ZONE_A)
    await grow(world, alive, "b1", labels=ZONE_B)
    alive.pop("a1")
    await asyncio.sleep(70)
    assert await world.taints("a1") == SILENT, "a zone that is down alone is left at the usual rate"
    assert evictions(world, ":\0:a") == 1
    alive.pop("b1")
    await asyncio.sleep(70)
    assert await world.taints("a1") == ["unreachable:NoSchedule"]
    assert await world.taints("b1") == ["unreachable:NoSchedule"]


async def test_recovery_from_full_disruption_resets_the_grace_period(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2", conditions={**HEALTHY, "Ready": "False"})
    alive.pop("n2")
    await asyncio.sleep(35)
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(45)
    assert (await world.conditions(f"{NODES}/n2"))["Ready"]["status"] == "False"
    await asyncio.sleep(15)
    assert (await world.conditions(f"{NODES}/n2"))["Ready"]["status"] == "Unknown"


async def test_partial_disruption_of_a_small_zone_stops_evictions(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2", "n3", "n4", "n5")
    for name in ("n1", "n2", "n3"):
        alive.pop(name)
    await asyncio.sleep(300)
    tainted = [name for name in ("n1", "n2", "n3") if await world.taints(name) == SILENT]
    assert len(tainted) <= 1, "but for the one whose token was there when they fell"
    assert evictions(world) == len(tainted)
    await world.report_node("n3", HEALTHY)
    alive["n3"] = None
    await asyncio.sleep(30)
    assert await world.taints("n1") == await world.taints("n2") == SILENT, "two are less than three: go on"


async def test_node_eviction_rate_limits_tainting_in_a_healthy_zone(world: World, alive: dict[str, None]) -> None:
    names = [f"n{number}" for number in range(10)]
    await grow(world, alive, *names)
    await asyncio.sleep(10)
    for name in names[:4]:
        alive.pop(name)
    times: dict[str, float] = {}
    for _ in range(1000):
        for name in names[:4]:
            if "unreachable:NoExecute" in await world.taints(name):
                times.setdefault(name, world.env.monotonic())
        await asyncio.sleep(0.1)
    gaps = [round(later - earlier, 1) for earlier, later in itertools.pairwise(times.values())]
    assert list(times) == names[:4]
    assert all(9.9 <= gap <= 10.3 for gap in gaps), gaps


async def test_not_ready_taint_is_swapped_for_unreachable_without_delay(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2", "n3")
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await asyncio.sleep(6)
    assert await world.taints("n1") == ["not-ready:NoSchedule", "not-ready:NoExecute"]
    alive.pop("n1")
    await asyncio.sleep(65)
    assert sorted(await world.taints("n1")) == sorted(SILENT)
    assert evictions(world) == 1, "no token was needed for that"
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await asyncio.sleep(6)
    assert sorted(await world.taints("n1")) == ["not-ready:NoExecute", "not-ready:NoSchedule"]


async def test_not_ready_node_with_a_live_kubelet_keeps_its_pods_status(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await asyncio.sleep(60)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "True"


async def test_pressure_conditions_and_cordon_set_taints_without_delay(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1")
    await world.report_node("n1", {**HEALTHY, "MemoryPressure": "True"})
    await world.merge(f"{NODES}/n1", {"spec": {"unschedulable": True}})
    await asyncio.sleep(1)
    assert sorted(await world.taints("n1")) == ["memory-pressure:NoSchedule", "unschedulable:NoSchedule"]
    await world.report_node("n1", HEALTHY)
    await world.merge(f"{NODES}/n1", {"spec": {"unschedulable": None}})
    await asyncio.sleep(1)
    assert await world.taints("n1") == []


async def test_other_taints_are_kept(world: World, alive: dict[str, None]) -> None:
    foreign_taint = {
        "key": "example.com/mine",
        "value": "v",
        "effect": "NoExecute",
        "timeAdded": "2025-01-01T00:00:00Z",
    }
    await grow(world, alive, "n1", "n2", taints=(foreign_taint,))
    alive.pop("n1")
    await asyncio.sleep(70)
    taints = (await world.must_get(f"{NODES}/n1"))["spec"]["taints"]
    assert taints[0] == foreign_taint
    assert await world.taints("n1") == ["example.com/mine:NoExecute", *SILENT]


async def test_node_with_a_heartbeat_on_the_server_is_not_marked_unknown(world: World, alive: dict[str, None]) -> None:
    """Its status is read live before it is overwritten; upstream relies on a conflict."""
    await grow(world, alive, "n1", "n2")
    alive.pop("n1")
    with world.faults.hold(resource="nodes"):
        for _ in range(20):
            await world.report_node("n1", HEALTHY)
            await asyncio.sleep(10)
        assert "update nodes/status n1" not in world.requests()
        assert (await world.conditions(f"{NODES}/n1"))["Ready"]["status"] == "True"


async def test_conflicts_are_retried_in_the_same_pass(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    world.faults.add(Rule(conflict(), verb="update", resource="nodes", nth=1))
    world.faults.add(Rule(conflict(), verb="patch", resource="nodes", nth=1))
    alive.pop("n1")
    await asyncio.sleep(70)
    assert sorted(await world.taints("n1")) == sorted(SILENT)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_lost_status_response_still_marks_pods_not_ready(world: World, alive: dict[str, None]) -> None:
    """The retry finds its own write. Upstream treats that as no change and leaves the pods ready."""
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    world.faults.add(Rule(lose_answer(), verb="update", resource="nodes", nth=1))
    alive.pop("n1")
    await asyncio.sleep(70)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_failed_marking_of_pods_is_retried_in_the_next_pass(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    rule = world.faults.add(Rule(fail(500), verb="update", resource="pods"))
    alive.pop("n1")
    await asyncio.sleep(70)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "True"
    world.faults.remove(rule)
    await asyncio.sleep(6)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_pod_bound_to_an_unreachable_node_is_marked_not_ready(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    alive.pop("n1")
    await asyncio.sleep(70)
    with world.faults.hold(resource="pods"):
        await world.pod("late", node="n1", ready=True)
    await asyncio.sleep(1)
    assert (await world.conditions(f"{PODS}/late"))["Ready"]["status"] == "False"


async def test_new_manager_continues_the_work_of_its_predecessor(world: World) -> None:
    await world.node("n1", conditions=dict.fromkeys(HEALTHY, "Unknown"))
    await world.node("n2")
    await world.renew("n2")
    await world.pod("p", node="n1", ready=True)
    await world.start(DESCRIPTOR)
    await asyncio.sleep(6)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"
    assert sorted(await world.taints("n1")) == sorted(SILENT)


async def test_excluded_node_is_tainted_and_not_counted(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", labels={"node.kubernetes.io/exclude-disruption": ""})
    await grow(world, alive, "n2")
    assert world.metrics.value("node_collector_zone_size", "") == 1
    alive.pop("n1")
    await asyncio.sleep(70)
    assert await world.taints("n1") == SILENT


async def test_deleted_node_emits_an_event_and_its_successor_is_new(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n2")
    await grow(world, alive, "n1")
    alive.pop("n1")
    await asyncio.sleep(70)
    await world.delete(f"{NODES}/n1")
    await world.node("n1")
    await world.renew("n1")
    alive["n1"] = None
    await asyncio.sleep(6)
    assert await world.events("RemovingNode") == ["Node/n1 Node n1 event: Removing Node n1 from Controller"]
    assert len(await world.events("RegisteredNode")) == 3
    await asyncio.sleep(300)
    assert await world.taints("n1") == []


async def test_pods_of_a_dead_node_are_evicted_and_garbage_collected(world: World, alive: dict[str, None]) -> None:
    """With default periods: Unknown, not ready, evicted after 300 s, garbage collected when the node is deleted."""
    await world.start(TAINT_EVICTION)
    await world.start(POD_GARBAGE_COLLECTOR)
    await grow(world, alive, "n1", "n2")
    keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
    await world.pod("p", node="n1", ready=True, tolerations=tuple(toleration(key, 300) for key in keys))
    await world.pod("daemon", node="n1", ready=True, tolerations=tuple(toleration(key) for key in keys))
    alive.pop("n1")
    await asyncio.sleep(60)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"
    await asyncio.sleep(285)
    assert await world.pods() == ["daemon", "p"]
    await asyncio.sleep(30)
    assert await world.pods() == ["daemon"]
    assert (await world.conditions(f"{PODS}/p"))["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
    await asyncio.sleep(600)
    assert await world.get(f"{PODS}/p") is not None, "nobody is there to say that it has ended"
    await world.delete(f"{NODES}/n1")
    await asyncio.sleep(70)
    assert (await world.must_get(PODS))["items"] == []
