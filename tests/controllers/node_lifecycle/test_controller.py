"""The node lifecycle controller against the embedded API server, in virtual time.

The kubelets are a task that renews Leases; a node falls silent when its name is taken from the list.
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


async def test_a_new_node_loses_the_taint_of_new_nodes_and_gets_the_older_labels(
    world: World, alive: dict[str, None]
) -> None:
    """Traces 13: GET and PATCH of the taints (null), GET and PATCH of the labels, the event."""
    labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    await world.request("POST", NODES, {"metadata": {"name": "n1", "labels": labels}})
    assert await world.taints("n1") == ["not-ready:NoSchedule"], "admission gave it"
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(6)
    node = await world.see(f"{NODES}/n1")
    assert "taints" not in node["spec"]
    assert node["metadata"]["labels"]["beta.kubernetes.io/os"] == "linux"
    assert await world.events() == ["Node/n1 Node n1 event: Registered Node n1 in Controller"]
    taints = [body for body in world.bodies("patch", "nodes") if "spec" in body]
    assert taints[-1]["spec"] == {"taints": None}
    assert taints[-1]["metadata"]["resourceVersion"]
    assert all("resourceVersion=0" in s.request.target for s in world.seen if s.call.verb == "get")


async def test_labels_that_the_cache_has_not_read_yet_are_not_written_again(
    world: World, alive: dict[str, None]
) -> None:
    world.faults.add(Rule(delay(3.0), verb="watch", resource="nodes"))
    await world.request("POST", NODES, {"metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux"}}})
    await asyncio.sleep(1)
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(20)
    assert sum("labels" in body["metadata"] for body in world.bodies("patch", "nodes")) == 1


async def test_a_lease_alone_keeps_a_node_ready(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1")
    await asyncio.sleep(3600)
    assert (await world.conditions(f"{NODES}/n1"))["Ready"]["status"] == "True"
    assert world.requests(reads=False) == []


async def test_a_silent_node_is_said_to_be_unknown_and_so_are_its_pods(world: World, alive: dict[str, None]) -> None:
    """Traces 13, with a live read of what is written whole."""
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
    taints = (await world.see(f"{NODES}/n1"))["spec"]["taints"]
    assert all(taint["timeAdded"] for taint in taints)
    assert evictions(world) == 1
    assert world.metrics.value("node_collector_zone_size", "") == 2
    assert world.metrics.value("node_collector_unhealthy_nodes_in_zone", "") == 1
    assert world.metrics.value("node_collector_zone_health", "") == 50
    world.seen.clear()
    await asyncio.sleep(600)
    assert world.requests() == [], "what is said is said"


async def test_a_node_that_is_heard_of_again_is_spared(world: World, alive: dict[str, None]) -> None:
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


async def test_a_node_that_never_reported_has_a_minute_from_its_creation(world: World, alive: dict[str, None]) -> None:
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


async def test_when_all_nodes_are_down_nobody_must_leave(world: World, alive: dict[str, None]) -> None:
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


async def test_when_the_last_zone_falls_taints_are_taken_off_again(world: World, alive: dict[str, None]) -> None:
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


async def test_a_node_that_comes_back_first_gives_the_others_a_new_grace_period(
    world: World, alive: dict[str, None]
) -> None:
    await grow(world, alive, "n1", "n2", conditions={**HEALTHY, "Ready": "False"})
    alive.pop("n2")
    await asyncio.sleep(35)
    await world.report_node("n1", HEALTHY)
    await asyncio.sleep(45)
    assert (await world.conditions(f"{NODES}/n2"))["Ready"]["status"] == "False"
    await asyncio.sleep(15)
    assert (await world.conditions(f"{NODES}/n2"))["Ready"]["status"] == "Unknown"


async def test_most_of_a_small_zone_down_stops_the_leaving(world: World, alive: dict[str, None]) -> None:
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


async def test_nodes_of_a_healthy_zone_are_tainted_ten_seconds_apart(world: World, alive: dict[str, None]) -> None:
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


async def test_from_not_ready_to_silent_the_taints_are_swapped_at_once(world: World, alive: dict[str, None]) -> None:
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


async def test_a_kubelet_that_says_it_is_not_ready_keeps_the_word_over_its_pods(
    world: World, alive: dict[str, None]
) -> None:
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    await world.report_node("n1", {**HEALTHY, "Ready": "False"})
    await asyncio.sleep(60)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "True"


async def test_pressure_and_cordon_are_taints_at_once(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1")
    await world.report_node("n1", {**HEALTHY, "MemoryPressure": "True"})
    await world.merge(f"{NODES}/n1", {"spec": {"unschedulable": True}})
    await asyncio.sleep(1)
    assert sorted(await world.taints("n1")) == ["memory-pressure:NoSchedule", "unschedulable:NoSchedule"]
    await world.report_node("n1", HEALTHY)
    await world.merge(f"{NODES}/n1", {"spec": {"unschedulable": None}})
    await asyncio.sleep(1)
    assert await world.taints("n1") == []


async def test_taints_of_others_are_kept_as_they_are(world: World, alive: dict[str, None]) -> None:
    mine = {"key": "example.com/mine", "value": "v", "effect": "NoExecute", "timeAdded": "2025-01-01T00:00:00Z"}
    await grow(world, alive, "n1", "n2", taints=(mine,))
    alive.pop("n1")
    await asyncio.sleep(70)
    taints = (await world.see(f"{NODES}/n1"))["spec"]["taints"]
    assert taints[0] == mine
    assert await world.taints("n1") == ["example.com/mine:NoExecute", *SILENT]


async def test_a_node_that_only_the_cache_holds_for_silent_is_left_alone(world: World, alive: dict[str, None]) -> None:
    """Its status is read live before it is overwritten; upstream finds out by a conflict."""
    await grow(world, alive, "n1", "n2")
    alive.pop("n1")
    with world.faults.hold(resource="nodes"):
        for _ in range(20):
            await world.report_node("n1", HEALTHY)
            await asyncio.sleep(10)
        assert "update nodes/status n1" not in world.requests()
        assert (await world.conditions(f"{NODES}/n1"))["Ready"]["status"] == "True"


async def test_conflicts_are_tried_again_in_the_same_pass(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    world.faults.add(Rule(conflict(), verb="update", resource="nodes", nth=1))
    world.faults.add(Rule(conflict(), verb="patch", resource="nodes", nth=1))
    alive.pop("n1")
    await asyncio.sleep(70)
    assert sorted(await world.taints("n1")) == sorted(SILENT)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_an_answer_that_is_lost_does_not_leave_the_pods_ready(world: World, alive: dict[str, None]) -> None:
    """The second try finds its own work done. Upstream takes that for an old story and leaves the pods ready."""
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    world.faults.add(Rule(lose_answer(), verb="update", resource="nodes", nth=1))
    alive.pop("n1")
    await asyncio.sleep(70)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_pods_that_could_not_be_marked_are_marked_in_the_next_pass(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    await world.pod("p", node="n1", ready=True)
    rule = world.faults.add(Rule(fail(500), verb="update", resource="pods"))
    alive.pop("n1")
    await asyncio.sleep(70)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "True"
    world.faults.remove(rule)
    await asyncio.sleep(6)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"


async def test_a_pod_that_comes_to_a_silent_node_is_not_ready(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", "n2")
    alive.pop("n1")
    await asyncio.sleep(70)
    with world.faults.hold(resource="pods"):
        await world.pod("late", node="n1", ready=True)
    await asyncio.sleep(1)
    assert (await world.conditions(f"{PODS}/late"))["Ready"]["status"] == "False"


async def test_a_new_manager_finishes_what_the_last_one_began(world: World) -> None:
    await world.node("n1", conditions=dict.fromkeys(HEALTHY, "Unknown"))
    await world.node("n2")
    await world.renew("n2")
    await world.pod("p", node="n1", ready=True)
    await world.start(DESCRIPTOR)
    await asyncio.sleep(6)
    assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "False"
    assert sorted(await world.taints("n1")) == sorted(SILENT)


async def test_a_node_outside_the_zones_does_not_count_but_is_tainted(world: World, alive: dict[str, None]) -> None:
    await grow(world, alive, "n1", labels={"node.kubernetes.io/exclude-disruption": ""})
    await grow(world, alive, "n2")
    assert world.metrics.value("node_collector_zone_size", "") == 1
    alive.pop("n1")
    await asyncio.sleep(70)
    assert await world.taints("n1") == SILENT


async def test_a_node_that_goes_is_told_and_its_successor_is_a_new_one(world: World, alive: dict[str, None]) -> None:
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


async def test_a_node_dies_and_its_pods_go_with_it(world: World, alive: dict[str, None]) -> None:
    """The golden story, with default periods: silent, not ready, evicted after 300 s, collected when the node goes."""
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
    assert (await world.see(PODS))["items"] == []
