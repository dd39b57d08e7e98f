"""Changes while a simulated node writes, or while its watch lags or is lost; no state remains afterwards."""

import asyncio
from collections.abc import Callable

import pytest
from tests.nodes.stages.test_stage_controller import ON_CREATION, stage
from tests.nodes.world import World, world
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.core import EVENTS, NODES, PODS
from pilothouse.client import merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Action, Rule, delay, gone, lose_answer
from pilothouse.env import Env
from pilothouse.nodes import Profile

pytestmark = pytest.mark.world("n0", "n1")


async def conditions(w: World, name: str) -> dict[str, str]:
    return {c.type: c.status for c in (await w.node(name)).status.conditions}


async def restarts(w: World, name: str = "p") -> int:
    (container,) = (await w.existing(name)).status.container_statuses
    return container.restart_count


async def test_pressure_that_starts_during_a_status_write_is_reported_immediately(w: World) -> None:
    w.node_faults.add(Rule(delay(1.0), verb="patch", resource="nodes", subresource="status"))
    w.node_faults.add(Rule(delay(60.0), verb="watch", resource="nodes"))
    w.nodes.press("n0", "memory")
    await asyncio.sleep(0.5)
    w.nodes.press("n0", "disk")
    await asyncio.sleep(2)
    assert (await conditions(w, "n0"))["DiskPressure"] == "True"


async def test_conditions_changed_by_others_before_the_response_are_corrected_within_seconds(w: World) -> None:
    send = w.node_faults.transport.request

    async def answer_late(request: wire.Request) -> wire.Response:
        response = await send(request)
        await asyncio.sleep(1.0)
        return response

    w.node_faults.transport.request = answer_late  # type: ignore[method-assign]  # no rule does that
    w.nodes.press("n0", "pids")
    await asyncio.sleep(0.5)
    await w.set_node_condition("n0", "Ready", "Unknown")
    await asyncio.sleep(15)
    assert (await conditions(w, "n0"))["Ready"] == "True"


@pytest.mark.parametrize("blocked", [False, True], ids=["the watch lags", "finalizer on the Node"])
async def test_a_deleted_node_stays_deleted_whatever_events_arrive(w: World, blocked: bool) -> None:
    if blocked:
        await w.client.patch(NODES.raw, "n0", merge_patch({"metadata": {"finalizers": ["example.com/hold"]}}))
    else:
        w.node_faults.add(Rule(delay(2.0), verb="watch", resource="nodes"))
    await w.label_node("n0", "a", "b")
    w.nodes.vanish("n0")
    await w.create_pod(node="n0")
    await asyncio.sleep(1)
    if blocked:
        await w.label_node("n0", "c", "d")
    await asyncio.sleep(30)
    assert (await w.existing()).status.start_time is None, "nobody is there to take it"
    w.nodes.revive("n0")
    await asyncio.sleep(5)
    assert (await w.existing()).status.phase == "Running"
    if not blocked:
        assert (await w.node("n0")).metadata.deletion_timestamp is None


@pytest.mark.parametrize(
    "trouble", [lambda: delay(2.0), lose_answer], ids=["write in flight", "write with lost response"]
)
async def test_a_node_revived_before_its_deletion_is_observed_registers_again(
    w: World, trouble: Callable[[], Action]
) -> None:
    w.node_faults.add(Rule(trouble(), verb="delete", resource="nodes"))
    w.node_faults.add(Rule(delay(1.0), verb="watch", resource="nodes"))
    w.nodes.vanish("n0")
    await asyncio.sleep(0.05)
    w.nodes.revive("n0")
    await asyncio.sleep(30)
    assert (await conditions(w, "n0"))["Ready"] == "True"
    await w.client.delete(NODES, "n0")
    await asyncio.sleep(30)
    with pytest.raises(NotFound):
        await w.node("n0")


@pytest.mark.world("other")
async def test_a_boot_that_an_earlier_simulator_obeyed_is_not_repeated(w: World) -> None:
    first = await w.start_nodes("a")
    await w.create_pod(node="a")
    await asyncio.sleep(2)
    await w.annotate_node("a", boot="1")
    await asyncio.sleep(20)
    assert await restarts(w) == 1
    first.cancel()
    await w.start_nodes("a")
    await asyncio.sleep(30)
    assert await restarts(w) == 1
    await w.annotate_node("a", boot=None)
    await asyncio.sleep(30)
    assert await restarts(w) == 1, "only a new text boots"
    await w.annotate_node("a", boot="1")
    await asyncio.sleep(30)
    assert await restarts(w) == 2


@pytest.mark.world("other")
@pytest.mark.parametrize("fault", ["silent", "out-of-service"])
async def test_a_node_stays_silent_when_the_simulator_restarts(w: World, fault: str) -> None:
    first = await w.start_nodes("a")
    await w.annotate_node("a", fault=fault)
    await asyncio.sleep(1)
    first.cancel()
    await w.set_node_condition("a", "Ready", "Unknown")
    taint = {"key": "example.com/kept", "effect": "NoSchedule"}
    await w.client.patch(NODES.raw, "a", merge_patch({"spec": {"taints": [taint]}}))
    await w.create_pod(node="a", tolerations=[{"operator": "Exists"}])
    leases = w.count_writes("leases/kube-node-lease/a")
    await w.start_nodes("a")
    await asyncio.sleep(30)
    assert (await conditions(w, "a"))["Ready"] == "Unknown"
    assert w.count_writes("leases/kube-node-lease/a") == leases
    assert (await w.existing()).status.start_time is None
    await w.annotate_node("a", fault=None)
    await asyncio.sleep(30)
    assert (await conditions(w, "a"))["Ready"] == "True"
    assert (await w.existing()).status.phase == "Running"
    assert [found.key for found in (await w.node("a")).spec.taints] == ["example.com/kept"]


async def test_a_fault_that_is_exchanged_for_another_ends(w: World) -> None:
    await w.annotate_node("n0", fault="out-of-service")
    await asyncio.sleep(1)
    assert (await w.node("n0")).spec.taints != ()
    await w.annotate_node("n0", fault="silent")
    await asyncio.sleep(1)
    assert (await w.node("n0")).spec.taints == ()
    writes = w.count_writes("leases/kube-node-lease/n0")
    await asyncio.sleep(60)
    assert w.count_writes("leases/kube-node-lease/n0") == writes, "it is silent still"


@pytest.mark.world(profile=Profile(events=True))
async def test_a_silent_node_sends_no_events(w: World) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(5)
    w.nodes.silence("n0")
    await w.client.patch(NODES.raw, "n0", merge_patch({"spec": {"unschedulable": True}}))
    w.nodes.press("n0", "memory")
    await asyncio.sleep(30)
    reported = {event.reason for event in (await w.client.list(EVENTS)).items}
    assert reported.isdisjoint({"NodeNotSchedulable", "EvictionThresholdMet", "Evicted"})


async def test_second_pressure_does_not_speed_up_evictions_and_ends_independently(w: World) -> None:
    names = [f"p{number}" for number in range(3)]
    for name in names:
        await w.create_pod(name, node="n0")
    await asyncio.sleep(2)
    w.nodes.press("n0", "memory")
    await asyncio.sleep(2)
    w.nodes.press("n0", "disk")
    await asyncio.sleep(7)
    assert [(await w.existing(name)).status.reason for name in names].count("Evicted") == 1
    await asyncio.sleep(2)
    assert [(await w.existing(name)).status.reason for name in names].count("Evicted") == 2
    w.nodes.relieve("n0", "memory")
    await asyncio.sleep(320)
    result = await conditions(w, "n0")
    assert (result["MemoryPressure"], result["DiskPressure"]) == ("False", "True")


async def test_pod_replaced_on_another_node_during_lost_watch_frees_resources(w: World) -> None:
    await w.create_pod(node="n0", cpu="30")
    await asyncio.sleep(2)
    with w.node_faults.hold(resource="pods"):
        await w.delete(grace=0)
        await w.create_pod(node="n1", cpu="30")
        w.node_faults.end_watches(resource="pods", with_=gone())
    await asyncio.sleep(30)
    await w.create_pod("q", node="n0", cpu="30")
    await asyncio.sleep(5)
    assert ((await w.existing()).status.phase, (await w.existing("q")).status.phase) == ("Running", "Running")


@cases("node", {"unbound": "", "bound to a node that is not simulated": "elsewhere"})
async def test_a_pod_of_another_node_with_the_same_name_is_ignored(w: World, node: str) -> None:
    await w.create_pod(node="n0")
    await asyncio.sleep(2)
    with w.node_faults.hold(resource="pods"):
        await w.delete(grace=0)
        other = await w.create_pod(node=node)
        w.node_faults.end_watches(resource="pods", with_=gone())
    await asyncio.sleep(30)
    assert (await w.existing()).metadata.resource_version == other.metadata.resource_version
    lives = w.nodes._pod_workers
    assert lives is not None
    assert lives._sync_statuses == {}


async def test_pod_started_during_lost_watch_uses_resources(w: World) -> None:
    await w.create_pod(cpu="30")
    await asyncio.sleep(1)
    with w.node_faults.hold(resource="pods"):
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n0"}}
        await w.client.create(PODS.raw, target, "default", name="p", subresource="binding")
        started = merge_patch({"status": {"startTime": "2026-01-01T00:00:00Z", "phase": "Running"}})
        await w.client.patch(PODS, "p", started, "default", subresource="status")
        w.node_faults.end_watches(resource="pods", with_=gone())
    await asyncio.sleep(30)
    await w.create_pod("q", node="n0", cpu="30")
    await asyncio.sleep(5)
    assert (await w.existing("q")).status.reason == "OutOfcpu"


async def test_addresses_and_delays_of_finished_pods_are_dropped(w: World) -> None:
    lives = w.nodes._pod_workers
    assert lives is not None
    await w.create_pod(node="n0")
    await asyncio.sleep(2)
    for _ in range(3):
        w.nodes.revive("n0", pods=False)
        await asyncio.sleep(700)
    assert list(lives._addresses._holders) == [(await w.existing()).status.pod_ip]
    rule = w.node_faults.add(Rule(delay(2.0), verb="patch", resource="pods"))
    await w.create_pod("r", node="n0")
    await asyncio.sleep(3)
    w.nodes.revive("n0", pods=False)
    await w.delete("r", grace=0)
    await asyncio.sleep(20)
    w.node_faults.remove(rule)
    await asyncio.sleep(700)
    assert list(lives._addresses._holders) == [(await w.existing()).status.pod_ip]
    w.nodes.slow("n0", 5)
    await w.create_pod("q", node="n0")
    await asyncio.sleep(1)
    await w.delete("q", grace=0)
    await asyncio.sleep(1)
    assert "default/q" not in w.nodes._outages._late["n0"]
    w.nodes.slow("n0", 0)
    assert w.nodes._outages._late == {}


async def test_an_immediate_stage_is_played_once_though_the_watch_lags(env: Env) -> None:
    first = f"{ON_CREATION}next: {{event: {{type: Normal, reason: Once, message: x}}, "
    first += "statusTemplate: '{podIP: 1.2.3.4, phase: Running}'}\nimmediateNextStage: true"
    second = "selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Running]}]}\n"
    second += "delay: {durationMilliseconds: 500}\nnext: {statusTemplate: '{phase: Succeeded}'}"
    async with world(env) as w:
        w.node_faults.add(Rule(delay(1.0), verb="watch", resource="pods"))
        await w.start_nodes("n0", stages=(stage(first, "first"), stage(second, "second")))
        await w.create_pod(node="n0")
        await asyncio.sleep(10)
        assert (await w.existing()).status.phase == "Succeeded"
        assert [e.count for e in await w.events() if e.reason == "Once"] == [1]
