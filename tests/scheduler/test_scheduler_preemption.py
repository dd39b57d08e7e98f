"""Preemption, spreading and affinity against the embedded API server, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from tests.nodes.world import World
from tests.scheduler.build import HOSTNAME, ZONE, affinity, anti_affinity, spread, term
from tests.scheduler.conftest import assigned_nodes, create_priority_classes
from tests.tables import cases

from pilothouse.api.core import NODES, PODS
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS
from pilothouse.client import Patch, merge_patch
from pilothouse.client.interceptor import Rule, conflict, delay, fail
from pilothouse.scheduler.plugins.default_selector import SERVICES


@pytest.fixture
async def world(world: World) -> World:
    """An API server with a scheduler and the priority classes."""
    await create_priority_classes(world)
    return world


async def high(w: World, name: str = "p", cpu: str = "3", **parts: Any) -> None:
    await w.create_pod(name, cpu=cpu, priorityClassName=parts.pop("priority_class", "high"), **parts)


async def events(w: World, reason: str) -> list[tuple[str, str]]:
    return [(e.involved_object.name, e.message) for e in await w.events() if e.reason == reason]


HOLD = {"finalizers": ["example.com/hold"]}


async def release(w: World, name: str) -> None:
    """Complete the deletion of a pod, as its kubelet would."""
    await w.client.patch(PODS.raw, name, merge_patch({"metadata": {"finalizers": None}}), "default")
    await w.delete(name, grace=0)


async def test_a_pod_of_high_priority_preempts_one_of_lower_priority(world: World) -> None:
    await world.create_node("a")
    await world.create_pod("low", cpu="3", metadata=HOLD)
    await asyncio.sleep(1)
    await high(world)
    await asyncio.sleep(1)
    victim, preemptor = await world.existing("low"), await world.existing()
    assert victim.metadata.deletion_timestamp is not None
    condition = next(c for c in victim.status.conditions if c.type == "DisruptionTarget")
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    assert await events(world, "Preempted") == [("low", f"Preempted by pod {preemptor.metadata.uid} on node a")]
    assert (preemptor.spec.node_name, preemptor.status.nominated_node_name) == ("", "a")
    assert await events(world, "FailedScheduling") == [("p", "0/1 nodes are available: 1 Insufficient cpu.")]
    await asyncio.sleep(100)
    assert await events(world, "Preempted") == [("low", f"Preempted by pod {preemptor.metadata.uid} on node a")]
    await release(world, "low")
    await asyncio.sleep(1)
    preemptor = await world.existing()
    assert (preemptor.spec.node_name, preemptor.status.nominated_node_name) == ("a", "")


async def test_the_room_of_a_nominated_pod_is_kept(world: World) -> None:
    """From pods of the same or lower priority, while its victims terminate."""
    await world.create_node("a")
    await world.create_pod("low", cpu="3", metadata=HOLD)
    await asyncio.sleep(1)
    await high(world, priority_class="middle", cpu="2")
    await asyncio.sleep(1)
    await world.create_pod("late", cpu="2")
    await release(world, "low")
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "a", "late": "a"}
    await world.create_pod("later", cpu="1")
    await asyncio.sleep(1)
    assert (await world.existing("later")).spec.node_name == ""


async def test_nominations_survive_a_restart_of_the_scheduler(world_without_scheduler: World) -> None:
    world = world_without_scheduler
    await create_priority_classes(world)
    task = world.start_scheduler()
    await world.create_node("a")
    await world.create_pod("low", cpu="3", metadata=HOLD)
    await asyncio.sleep(1)
    await high(world, cpu="4")
    await asyncio.sleep(1)
    assert (await world.existing()).status.nominated_node_name == "a"
    task.cancel()
    await asyncio.sleep(1)
    await world.create_pod("late", cpu="4")
    world.start_scheduler()
    await asyncio.sleep(1)
    assert len(await events(world, "Preempted")) == 1, "no pod is preempted twice"
    await release(world, "low")
    await asyncio.sleep(5)
    assert await assigned_nodes(world) == {"p": "a", "late": ""}


async def test_a_pod_with_preemption_policy_never_waits(world: World) -> None:
    await world.create_node("a")
    await world.create_pod("low", cpu="3")
    await asyncio.sleep(1)
    await high(world, priority_class="polite")
    await asyncio.sleep(30)
    (message,) = await events(world, "FailedScheduling")
    assert message[1] == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to "
        "preemptionPolicy=Never."
    )
    assert (await world.existing("low")).metadata.deletion_timestamp is None


async def a_budget(w: World, allowed: int) -> None:
    body = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }  # fmt: skip
    await w.client.create(POD_DISRUPTION_BUDGETS.raw, body, "default")
    status = merge_patch({"status": {"disruptionsAllowed": allowed}})
    await w.client.patch(POD_DISRUPTION_BUDGETS.raw, "b", status, "default", subresource="status")


@cases(
    "allowed, victim",
    {
        "no disruption allowed: the protected pod is kept despite lower priority": (0, "free"),
        "one disruption allowed: the pod of lower priority is evicted": (1, "protected"),
    },
)
async def test_preemption_reads_disruptions_allowed(world: World, allowed: int, victim: str) -> None:
    for name in "ab":
        await world.create_node(name)
    await world.create_pod("protected", node="a", cpu="3", metadata={"labels": {"app": "web"}})
    await world.create_pod("free", node="b", cpu="3", priorityClassName="middle")
    await a_budget(world, allowed)
    await asyncio.sleep(1)
    await high(world)
    await asyncio.sleep(0.5)
    assert [name for name, _message in await events(world, "Preempted")] == [victim]


async def test_a_nomination_of_lower_priority_for_the_same_node_is_cleared(world: World) -> None:
    await world.create_node("a")
    await world.create_pod("low", cpu="4", metadata=HOLD)
    await asyncio.sleep(1)
    await high(world, "first", cpu="4", priority_class="middle")
    await asyncio.sleep(1)
    assert (await world.existing("first")).status.nominated_node_name == "a"
    await high(world, "second", cpu="4")
    await asyncio.sleep(5)
    assert (await world.existing("second")).status.nominated_node_name == "a"
    assert (await world.existing("first")).status.nominated_node_name == ""
    await release(world, "low")
    await asyncio.sleep(5)
    assert await assigned_nodes(world) == {"first": "", "second": "a"}


@pytest.mark.parametrize("fault", [lambda: fail(500, "InternalError"), conflict], ids=["an error", "a conflict"])
async def test_a_failed_deletion_of_a_victim_is_repeated(world: World, fault: Callable[[], Any]) -> None:
    world.scheduler_faults.add(Rule(fault(), verb="delete", resource="pods", nth=1))
    await world.create_node("a")
    await world.create_pod("low", node="a", cpu="3")
    await asyncio.sleep(1)
    await high(world)
    await asyncio.sleep(10)
    assert (await world.existing("low")).metadata.deletion_timestamp is not None


async def test_the_room_of_a_deleted_preemptor_is_given_to_others(world: World) -> None:
    await world.create_node("a")
    await world.create_pod("low", cpu="3", metadata=HOLD)
    await asyncio.sleep(1)
    await high(world)
    await asyncio.sleep(1)
    await world.delete("p")
    await release(world, "low")
    await world.create_pod("next", cpu="3")
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"next": "a"}


async def test_requests_are_right_after_a_node_is_deleted_before_the_binding(world: World) -> None:
    """The API server, as upstream's, also binds pods to nodes that do not exist."""
    world.scheduler_faults.add(Rule(delay(5.0), verb="create", resource="pods", subresource="binding", nth=1))
    await world.create_node("a")
    await world.create_pod("p", cpu="3")
    await asyncio.sleep(1)
    await world.client.delete(NODES, "a")
    await world.create_node("b")
    await world.create_pod("q", cpu="3")
    await asyncio.sleep(10)
    assert await assigned_nodes(world) == {"p": "a", "q": "b"}
    await world.delete("p", grace=0)
    await world.create_node("a")
    await world.create_pod("r", cpu="3")
    await asyncio.sleep(1)
    assert (await world.existing("r")).spec.node_name == "a"


async def test_there_is_one_preemption_while_the_watch_is_delayed(world: World) -> None:
    for name in "ab":
        await world.create_node(name)
        await world.create_pod(f"low-{name}", node=name, cpu="3", metadata=HOLD)
    await asyncio.sleep(1)
    with world.scheduler_faults.hold(resource="pods") as hold:
        await high(world)
        hold.release(1)
        await asyncio.sleep(60)
    await asyncio.sleep(5)
    assert len(await events(world, "Preempted")) == 1


# Topology spread and inter-pod affinity


async def in_zones(w: World, *names: str, cpu: str = "40") -> None:
    """Nodes whose zone is their first letter."""
    for name in names:
        labels = {HOSTNAME: name, ZONE: name[0]}
        await w.create_node(name, cpu=cpu)
        await w.client.patch(NODES.raw, name, merge_patch({"metadata": {"labels": labels}}))


WEB = {"labels": {"app": "web"}}


async def test_a_hard_constraint_holds_while_many_bindings_are_in_progress(world: World) -> None:
    world.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="create", resource="pods", subresource="binding"))
    world.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="watch", resource="pods"))
    await in_zones(world, "a1", "a2", "a3", "b1", "c1")
    for number in range(30):
        await world.create_pod(f"p{number}", cpu="1", metadata=WEB, topologySpreadConstraints=[spread(ZONE)])
    await asyncio.sleep(60)
    assert Counter(name[0] for name in (await assigned_nodes(world)).values()) == {"a": 10, "b": 10, "c": 10}


async def test_anti_affinity_holds_and_the_pod_without_a_node_waits(world: World) -> None:
    world.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="create", resource="pods", subresource="binding"))
    await in_zones(world, "a1", "a2", "b1")
    for number in range(4):
        await world.create_pod(f"p{number}", metadata=WEB, affinity=anti_affinity(term(app="web")))
    await asyncio.sleep(20)
    placed = await assigned_nodes(world)
    assert Counter(placed.values()) == {"a1": 1, "a2": 1, "b1": 1, "": 1}
    (event,) = await events(world, "FailedScheduling")
    assert event[1] == (
        "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
    )
    world.scheduler_faults.clear()
    await world.delete("p0" if placed["p0"] else "p1", grace=0)
    await asyncio.sleep(0.5)
    assert "" not in (await assigned_nodes(world)).values(), "the event that helps moves it at once"


async def test_a_pod_with_affinity_waits_for_a_pod_that_matches(world: World) -> None:
    await in_zones(world, "a1", "a2", "b1")
    await world.create_pod("p", affinity=affinity(term(ZONE, app="web")))
    await asyncio.sleep(30)
    assert (await world.existing()).spec.node_name == ""
    await world.create_pod("other", node="b1", metadata={"labels": {"app": "db"}})
    await asyncio.sleep(5)
    assert [e.count for e in await world.events() if e.reason == "FailedScheduling"] == [1], (
        "there is no second attempt"
    )
    await world.create_pod("web", metadata=WEB, nodeSelector={HOSTNAME: "b1"})
    await asyncio.sleep(0.5)
    assert (await world.existing()).spec.node_name == "b1"


async def test_a_new_zone_helps_a_pod_rejected_for_min_domains(world: World) -> None:
    await in_zones(world, "a1")
    constraint = spread(ZONE, minDomains=2)
    for number in range(2):
        await world.create_pod(f"p{number}", cpu="1", metadata=WEB, topologySpreadConstraints=[constraint])
    await asyncio.sleep(30)
    assert Counter((await assigned_nodes(world)).values()) == {"a1": 1, "": 1}
    await in_zones(world, "b1", cpu="0")
    await world.create_pod("filling", node="b1", metadata=WEB)
    await asyncio.sleep(0.5)
    assert Counter((await assigned_nodes(world)).values()) == {"a1": 2, "b1": 1}


async def test_pods_of_a_service_spread_over_zones(world: World) -> None:
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    await world.client.create(SERVICES.raw, service, "default")
    await in_zones(world, "a1", "a2", "b1", "b2")
    await asyncio.sleep(1)
    for number in range(8):
        await world.create_pod(f"p{number}", cpu="10m", metadata=WEB)
    await asyncio.sleep(1)
    assert Counter(name[0] for name in (await assigned_nodes(world)).values()) == {"a": 4, "b": 4}


async def test_the_room_of_a_preemptor_being_deleted_is_given_to_others(world: World) -> None:
    """Also while a finalizer keeps the preemptor."""
    await world.create_node("a")
    await world.create_pod("low", cpu="3", metadata=HOLD)
    await asyncio.sleep(1)
    await high(world, cpu="4", metadata=HOLD)
    await asyncio.sleep(1)
    await world.create_pod("late", cpu="1")
    await asyncio.sleep(20)
    assert ((await world.existing()).status.nominated_node_name, (await assigned_nodes(world))["late"]) == ("a", "")
    await world.delete()
    await asyncio.sleep(1)
    assert (await assigned_nodes(world))["late"] == "a"


async def test_the_room_is_given_to_others_when_another_program_clears_the_nomination(world: World) -> None:
    await world.create_node("a")
    await high(world, "other")
    await asyncio.sleep(1)
    await high(world, cpu="4")
    await _nominate(world, "a")
    await world.create_pod("late", cpu="1")
    await asyncio.sleep(20)
    assert (await assigned_nodes(world))["late"] == ""
    await _nominate(world, None)
    await asyncio.sleep(1)
    assert (await assigned_nodes(world))["late"] == "a"


async def test_a_pod_that_is_nominated_while_it_has_gates_goes_to_that_node(world: World) -> None:
    for name in "abcdef":
        await world.create_node(name)
    await world.create_pod(schedulingGates=[{"name": "example.com/wait"}])
    await _nominate(world, "c")
    await asyncio.sleep(1)
    await world.client.patch(PODS.raw, "p", merge_patch({"spec": {"schedulingGates": None}}), "default")
    await asyncio.sleep(1)
    assert (await world.existing()).spec.node_name == "c"


async def _nominate(w: World, node: str | None) -> None:
    patch = merge_patch({"status": {"nominatedNodeName": node}})
    await w.client.patch(PODS.raw, "p", patch, "default", subresource="status")


@cases(
    "event",
    {
        "the node is uncordoned": merge_patch({"spec": {"unschedulable": None}}),
        "its taint is removed": merge_patch({"spec": {"taints": None}}),
        "it gets the label": merge_patch({"metadata": {"labels": {"disk": "ssd"}}}),
    },
)
async def test_an_event_of_a_full_node_has_preemption_tried_again(world: World, event: Patch) -> None:
    await world.create_node("a", unschedulable=True)
    await world.create_node("b", taints=[{"key": "t", "effect": "NoSchedule"}])
    await world.create_node("c")
    for name in "abc":
        labels = {"disk": "ssd" if name != "c" else "hdd"}
        await world.client.patch(NODES.raw, name, merge_patch({"metadata": {"labels": labels}}))
        await world.create_pod(f"low-{name}", node=name, cpu="3", metadata=HOLD)
    await high(world, nodeSelector={"disk": "ssd"})
    await asyncio.sleep(60)
    assert await events(world, "Preempted") == []
    for name in "abc":
        await world.client.patch(NODES.raw, name, event)
    await asyncio.sleep(1)
    assert len(await events(world, "Preempted")) == 1


@cases(
    "change",
    {
        "zone label removed": {"metadata": {"labels": {ZONE: None}}},
        "taint added": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    },
)
async def test_a_node_that_leaves_the_topology_helps_a_rejected_pod(world: World, change: dict[str, Any]) -> None:
    for name in ("a", "b"):
        await world.create_node(name, unschedulable=name == "b")
        await world.label_node(name, ZONE, name)
    labels = {"labels": {"app": "web"}}
    await world.create_pod("first", metadata=labels)
    await asyncio.sleep(1)
    constraints = [spread(ZONE, nodeTaintsPolicy="Honor")]
    await world.create_pod("p", metadata=labels, topologySpreadConstraints=constraints)
    await asyncio.sleep(20)
    assert (await assigned_nodes(world))["p"] == ""
    await world.client.patch(NODES.raw, "b", merge_patch(change))
    await asyncio.sleep(1)
    assert (await assigned_nodes(world))["p"] == "a"


async def test_a_node_that_loses_its_zone_helps_a_pod_with_anti_affinity(world: World) -> None:
    for name in ("a", "b"):
        await world.create_node(name, unschedulable=name == "b")
        await world.label_node(name, ZONE, "z")
    await world.create_pod("other", node="b", metadata={"labels": {"app": "db"}})
    await world.create_pod("p", affinity=anti_affinity(term(ZONE, app="db")))
    await asyncio.sleep(20)
    assert (await assigned_nodes(world))["p"] == ""
    await world.client.patch(NODES.raw, "b", merge_patch({"metadata": {"labels": {ZONE: None}}}))
    await asyncio.sleep(1)
    assert (await assigned_nodes(world))["p"] == "a"


async def test_a_pod_with_room_where_spread_rejects_it_waits_for_spread_from_then_on(world: World) -> None:
    """NodeResourcesFit rejected the node first, so that PodTopologySpread did not run."""
    for name in ("a", "b"):
        await world.create_node(name, unschedulable=name == "b")
        await world.label_node(name, ZONE, name)
    labels = {"labels": {"app": "web"}}
    await world.create_pod("first", node="a", metadata=labels)
    await world.create_pod("large", node="a", cpu="3")
    await world.create_pod("p", cpu="2", metadata=labels, topologySpreadConstraints=[spread(ZONE)])
    await asyncio.sleep(20)
    await world.delete("large", grace=0)
    await asyncio.sleep(20)
    assert (await assigned_nodes(world))["p"] == ""
    await world.create_pod("second", node="b", metadata=labels)
    await asyncio.sleep(1)
    assert (await assigned_nodes(world))["p"] == "a"
