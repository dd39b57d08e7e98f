"""The scheduler against the embedded API server, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.nodes.world import World
from tests.scheduler.conftest import assigned_nodes, create_priority_class
from tests.tables import cases

from pilothouse.api.core import NAMESPACES, NODES, PODS
from pilothouse.client import json_patch, merge_patch
from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, refuse

MAIN = {"name": "main", "image": "nginx"}


async def bind_elsewhere(w: World, name: str, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    await w.client.create(PODS.raw, binding, "default", name=name, subresource="binding")


async def test_a_pod_is_bound_and_gets_an_event(world: World) -> None:
    await world.create_node("a")
    await world.create_pod()
    await asyncio.sleep(1)
    assert (await world.existing()).spec.node_name == "a"
    result = [(e.type, e.reason, e.message, e.source.component) for e in await world.events()]
    assert result == [("Normal", "Scheduled", "Successfully assigned default/p to a", "default-scheduler")]
    assert world.count_writes("pods/default/p") == 2


async def test_every_pod_of_a_large_rollout_gets_its_scheduled_event(world_without_scheduler: World) -> None:
    """Decisions are faster than events: they wait for each other."""
    world = world_without_scheduler
    # As in front of a server that is busy with other writes.
    world.scheduler_faults.add(Rule(delay(0.02), verb="create", resource="events"))
    for number in range(20):
        await world.create_node(f"n{number}")
    for number in range(2000):
        await world.create_pod(f"p{number}")
    world.start_scheduler()
    await asyncio.sleep(60)
    assert set((await assigned_nodes(world)).values()) == {f"n{number}" for number in range(20)}
    scheduled = Counter(event.involved_object.name for event in await world.events() if event.reason == "Scheduled")
    assert scheduled == {f"p{number}": 1 for number in range(2000)}


async def test_equal_pods_spread_over_equal_nodes(world: World) -> None:
    for name in "abcde":
        await world.create_node(name)
    for number in range(20):
        await world.create_pod(f"p{number}")
    await asyncio.sleep(1)
    assert Counter((await assigned_nodes(world)).values()) == dict.fromkeys("abcde", 4)


async def test_condition_and_event_of_an_unschedulable_pod_are_written_once(world: World) -> None:
    await world.create_node("a", cpu="1")
    await world.create_node("b", cpu="4", unschedulable=True)
    await world.create_pod(cpu="2")
    await asyncio.sleep(1)
    message = (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    (condition,) = (await world.existing()).status.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "PodScheduled", "False", "Unschedulable", message,
    )  # fmt: skip
    assert [(e.type, e.reason, e.message) for e in await world.events()] == [("Warning", "FailedScheduling", message)]
    await asyncio.sleep(200)
    assert world.count_writes("pods/default/p") == 2
    await asyncio.sleep(200)
    assert world.count_writes("pods/default/p") == 2, "scheduled again after five minutes, with the same message"
    assert [e.count for e in await world.events()] == [2]


async def test_the_condition_without_nodes(world: World) -> None:
    await world.create_pod()
    await asyncio.sleep(1)
    (condition,) = (await world.existing()).status.conditions
    assert condition.message == "no nodes available to schedule pods"


async def _add_node(w: World) -> None:
    await w.create_node("new")


async def _uncordon(w: World) -> None:
    await w.client.patch(NODES.raw, "cordoned", merge_patch({"spec": {"unschedulable": None}}))


async def _remove_taint(w: World) -> None:
    await w.client.patch(NODES.raw, "tainted", merge_patch({"spec": {"taints": None}}))


async def _increase_allocatable(w: World) -> None:
    patch = merge_patch({"status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}})
    await w.client.patch(NODES.raw, "full", patch, subresource="status")


async def _delete_pod(w: World) -> None:
    await w.delete("big", grace=0)


async def _complete_pod(w: World) -> None:
    done = merge_patch({"status": {"phase": "Succeeded"}})
    await w.client.patch(PODS.raw, "big", done, "default", subresource="status")


async def _tolerate(w: World) -> None:
    addition = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "t", "operator": "Exists"}}]
    await w.client.patch(PODS.raw, "p", json_patch(addition), "default")


@cases(
    "event",
    {
        "a node is added": _add_node,
        "a node is uncordoned": _uncordon,
        "a taint is removed": _remove_taint,
        "a node gets more allocatable": _increase_allocatable,
        "a pod is deleted": _delete_pod,
        "a pod succeeds": _complete_pod,
        "the pod gets a toleration": _tolerate,
    },
)
@pytest.mark.parametrize("pause", [0.0, 100.0], ids=["immediately", "later"])
async def test_an_event_that_helps_an_unschedulable_pod_gets_it_bound_at_once(
    world: World, event: Callable[[World], Awaitable[None]], pause: float
) -> None:
    await world.create_node("full")
    await world.create_pod("big", node="full", cpu="3")
    await world.create_node("cordoned", unschedulable=True)
    await world.create_node("tainted", taints=[{"key": "t", "effect": "NoSchedule"}])
    seconds = {"tolerationSeconds": 300, "operator": "Exists", "effect": "NoExecute"}
    taints = [{"key": "node.kubernetes.io/not-ready", **seconds}]
    await world.create_pod(cpu="2", tolerations=taints)
    await asyncio.sleep(pause)
    if pause:
        assert (await world.existing()).spec.node_name == ""
    await event(world)
    await asyncio.sleep(0.5)
    assert (await world.existing()).spec.node_name


async def test_events_that_cannot_help_cause_no_attempt(world: World) -> None:
    await world.create_node("a", cpu="1")
    await world.create_pod(cpu="2")
    await asyncio.sleep(20)
    small = {"cpu": "1", "memory": "8Gi", "pods": "110"}
    for number in range(5):
        added = {"metadata": {"name": f"small{number}"}, "status": {"allocatable": small, "capacity": small}}
        await world.client.create(NODES.raw, added)
        await world.create_pod(f"q{number}", node="a", cpu="100m")
        labels = merge_patch({"metadata": {"labels": {"number": str(number)}}})
        await world.client.patch(NODES.raw, "a", labels)
        await asyncio.sleep(1)
    assert [e.count for e in await world.events()] == [1]


async def test_pods_are_tried_again_after_any_change_of_taints(world: World) -> None:
    # As NodeAffinity has no hint for taints (``buildQueueingHintMap``); other nodes may be counted now.
    await world.create_pod(nodeSelector={"disk": "ssd"})
    await world.create_node("a")
    await asyncio.sleep(20)
    await world.create_node("b")
    await asyncio.sleep(1)
    message = (await world.existing()).status.conditions[0].message
    assert message.startswith("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")


async def test_the_condition_is_up_to_date_after_a_pod_was_deleted_from_a_node(world: World) -> None:
    # NodeResourcesFit has pods tried again after any such pod (``isSchedulableAfterPodEvent``).
    await world.create_node("a", cpu="1")
    room = merge_patch({"status": {"allocatable": {"pods": "1"}}})
    await world.client.patch(NODES.raw, "a", room, subresource="status")
    await world.create_pod("q", node="a", cpu="100m")
    await world.create_pod(cpu="2")
    await asyncio.sleep(20)
    assert "1 Too many pods" in (await world.existing()).status.conditions[0].message
    await world.delete("q", grace=0)
    await asyncio.sleep(1)
    assert "1 Too many pods" not in (await world.existing()).status.conditions[0].message


async def test_new_labels_of_a_namespace_help_only_after_five_minutes(world: World) -> None:
    """As upstream: ``EventsToRegister`` of interpodaffinity/plugin.go (v1.36) has pods and nodes only."""
    await world.create_node("a")
    hostname = {"metadata": {"labels": {"kubernetes.io/hostname": "a"}}}
    await world.client.patch(NODES, "a", merge_patch(hostname))
    await world.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    existing = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"nodeName": "a", "containers": [MAIN]}}
    await world.client.create(PODS.raw, {"apiVersion": "v1", "kind": "Pod", **existing}, "other")
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"team": "b"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    here = {"metadata": {"name": "p"}, "spec": {"affinity": affinity, "containers": [MAIN]}}
    await world.client.create(PODS.raw, {"apiVersion": "v1", "kind": "Pod", **here}, "default")
    await asyncio.sleep(60)
    await world.client.patch(NAMESPACES, "other", merge_patch({"metadata": {"labels": {"team": "b"}}}))
    await asyncio.sleep(180)
    assert await assigned_nodes(world, "p") == {"p": ""}
    await asyncio.sleep(120)
    assert await assigned_nodes(world, "p") == {"p": "a"}


async def test_a_node_added_while_the_failure_is_reported_is_not_missed(world: World) -> None:
    world.scheduler_faults.add(Rule(delay(10.0), verb="patch", resource="pods"))
    await world.create_pod()
    await asyncio.sleep(5)
    await world.create_node("a")
    await asyncio.sleep(7)
    assert (await world.existing()).spec.node_name == "a"
    await asyncio.sleep(60)
    conditions = {c.type: c.status for c in (await world.existing()).status.conditions}
    assert conditions["PodScheduled"] == "True", "the report of an earlier attempt does not overwrite the binding"


async def test_pods_wait_until_the_last_scheduling_gate_is_removed(world: World) -> None:
    await world.create_node("a")
    await world.create_pod(schedulingGates=[{"name": "example.com/one"}, {"name": "example.com/two"}])
    result = []
    for _ in range(3):
        await asyncio.sleep(10)
        result.append((await world.existing()).spec.node_name)
        if len(result) < 3:
            await world.client.patch(
                PODS.raw, "p", json_patch([{"op": "remove", "path": "/spec/schedulingGates/0"}]), "default"
            )
    assert result == ["", "", "a"]


async def test_pods_of_other_schedulers_and_terminating_pods_are_not_scheduled(world: World) -> None:
    await world.create_pod("other", schedulerName="mine")
    await world.create_pod("going", metadata={"finalizers": ["example.com/hold"]})
    await asyncio.sleep(1)
    await world.delete("going")
    await world.create_node("a")
    await asyncio.sleep(60)
    assert await assigned_nodes(world) == {"other": "", "going": ""}


async def test_the_pod_of_highest_priority_is_scheduled_first(world: World) -> None:
    await world.create_node("a", unschedulable=True)
    for number, priority in enumerate((0, 100, 50)):
        await create_priority_class(world, f"c{number}", priority)
        await world.create_pod(f"p{number}", cpu="3", priorityClassName=f"c{number}")
    await asyncio.sleep(60)
    await world.client.patch(NODES.raw, "a", merge_patch({"spec": {"unschedulable": None}}))
    await asyncio.sleep(60)
    assert [name for name, node in (await assigned_nodes(world)).items() if node] == ["p1"]


async def test_no_node_gets_more_than_its_allocatable_resources(world: World) -> None:
    world.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="create", resource="pods", subresource="binding"))
    world.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="watch", resource="pods"))
    for name in "ab":
        await world.create_node(name, cpu="4")
    for number in range(12):
        await world.create_pod(f"p{number}", cpu="1")
    await asyncio.sleep(60)
    assert Counter((await assigned_nodes(world)).values()) == {"a": 4, "b": 4, "": 4}


async def test_a_deleted_unschedulable_pod_uses_no_resources(world: World) -> None:
    await world.create_pod(cpu="3")
    await asyncio.sleep(5)
    await world.delete()
    await world.create_node("a")
    await world.create_pod("q", cpu="3")
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"q": "a"}


async def test_a_pod_bound_by_another_program_counts_on_its_node(world: World) -> None:
    for name in "ab":
        await world.create_node(name)
    world.scheduler_faults.add(Rule(delay(5.0), verb="create", resource="pods", subresource="binding", nth=1))
    await world.create_pod(cpu="3")
    await asyncio.sleep(1)
    await bind_elsewhere(world, "p", "b")
    await asyncio.sleep(20)
    assert (await world.existing()).spec.node_name == "b"
    await world.create_pod("q", cpu="3")
    await asyncio.sleep(1)
    assert (await world.existing("q")).spec.node_name == "a"
    await world.create_pod("r", cpu="3")
    await asyncio.sleep(1)
    assert (await world.existing("r")).spec.node_name == ""


async def test_a_new_pod_of_the_same_name_is_scheduled_by_itself(world: World) -> None:
    await world.create_node("a")
    world.scheduler_faults.add(Rule(delay(5.0), verb="create", resource="pods", subresource="binding", nth=1))
    await world.create_pod(cpu="3")
    await asyncio.sleep(1)
    await world.delete(grace=0)
    await world.create_pod(cpu="2")
    await asyncio.sleep(10)
    assert (await world.existing()).spec.node_name == "a"
    await world.create_pod("q", cpu="2")
    await asyncio.sleep(2)
    assert (await world.existing("q")).spec.node_name == "a"
    await world.create_pod("r", cpu="1")
    await asyncio.sleep(2)
    assert (await world.existing("r")).spec.node_name == ""


async def test_a_bound_pod_is_not_bound_again_while_the_watch_lags(world: World) -> None:
    await world.create_node("a")
    await asyncio.sleep(1)
    for nth, fault in ((1, delay(5.0)), (2, fail(500, "InternalError"))):
        world.scheduler_faults.add(Rule(fault, verb="create", resource="pods", subresource="binding", nth=nth))
    with world.scheduler_faults.hold(resource="pods") as hold:
        await world.create_pod()
        hold.release(1)
        await asyncio.sleep(1)
        await world.client.patch(PODS.raw, "p", merge_patch({"metadata": {"labels": {"a": "b"}}}), "default")
        await asyncio.sleep(9)
        assert (await world.existing()).spec.node_name == "a"
        hold.release(1)
        await asyncio.sleep(10)
    await asyncio.sleep(10)
    assert [e.reason for e in await world.events()] == ["Scheduled"]


@cases(
    "fault",
    {
        "the server fails": lambda: fail(500, "InternalError"),
        "conflicts": conflict,
        "connections are refused": refuse,
        "responses are lost": lose_answer,
    },
)
async def test_all_pods_are_bound_in_the_end_when_bindings_fail(
    world: World, fault: Callable[[], Any], seed: int
) -> None:
    world.scheduler_faults.add(Rule(fault(), verb="create", subresource="binding", probability=0.6))
    await world.create_node("a", cpu="20")
    await asyncio.gather(*[world.create_pod(f"p{number}", cpu="1") for number in range(20)])
    await asyncio.sleep(300)
    assert Counter((await assigned_nodes(world)).values()) == {"a": 20}
    for pod in (await world.client.list(PODS, "default")).items:
        assert {c.type: c.status for c in pod.status.conditions}["PodScheduled"] == "True"
    world.scheduler_faults.clear()
    await world.create_pod("late", cpu="1")
    await asyncio.sleep(5)
    assert (await world.existing("late")).spec.node_name == "", "all twenty count, once"
    await world.delete("p7", grace=0)
    await asyncio.sleep(5)
    assert (await world.existing("late")).spec.node_name == "a"


async def test_a_rejected_binding_is_reported(world: World) -> None:
    world.scheduler_faults.add(Rule(fail(403, "Forbidden", "no"), verb="create", subresource="binding", nth=1))
    await world.create_node("a")
    await world.create_pod()
    await asyncio.sleep(0.5)
    (condition,) = (await world.existing()).status.conditions
    message = 'binding rejected: running Bind plugin "DefaultBinder": no'
    assert (condition.status, condition.reason, condition.message) == ("False", "SchedulerError", message)
    await asyncio.sleep(2)
    assert (await world.existing()).spec.node_name == "a"
    assert [e.reason for e in await world.events()] == ["FailedScheduling", "Scheduled"]


async def test_pods_on_nodes_count_after_a_restart(world_without_scheduler: World) -> None:
    world = world_without_scheduler
    for name in "ab":
        await world.create_node(name)
    await world.create_pod("old", node="a", cpu="3")
    world.start_scheduler()
    await world.create_pod(cpu="3")
    await asyncio.sleep(1)
    assert (await world.existing()).spec.node_name == "b"
