"""The scheduler against the embedded API server, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.nodes.world import World, world

from pilothouse.api.core import NAMESPACES, NODES, PODS
from pilothouse.client import json_patch, merge_patch
from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, refuse
from pilothouse.env import Env
from pilothouse.env.virtual import run

MAIN = {"name": "main", "image": "nginx"}


def in_world(story: Callable[[World], Awaitable[None]], *, seed: int = 0) -> None:
    async def main(env: Env) -> None:
        async with world(env, scheduler=True) as w:
            await story(w)

    run(main, seed=seed)


async def nodes_of(w: World, prefix: str = "") -> dict[str, str]:
    pods = (await w.client.list(PODS, "default")).items
    return {p.metadata.name: p.spec.node_name for p in pods if p.metadata.name.startswith(prefix)}


async def bind_elsewhere(w: World, name: str, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    await w.client.create(PODS.raw, binding, "default", name=name, subresource="binding")


def test_a_pod_is_bound_and_told_so() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod()
        await asyncio.sleep(1)
        assert (await w.existing()).spec.node_name == "a"
        told = [(e.type, e.reason, e.message, e.source.component) for e in await w.events()]
        assert told == [("Normal", "Scheduled", "Successfully assigned default/p to a", "default-scheduler")]
        assert w.count_writes("pods/default/p") == 2

    in_world(story)


def test_equal_pods_spread_over_equal_nodes() -> None:
    async def story(w: World) -> None:
        for name in "abcde":
            await w.create_node(name)
        for number in range(20):
            await w.create_pod(f"p{number}")
        await asyncio.sleep(1)
        assert Counter((await nodes_of(w)).values()) == dict.fromkeys("abcde", 4)

    in_world(story)


def test_the_same_seed_places_the_same() -> None:
    stories: list[dict[str, str]] = []

    async def story(w: World) -> None:
        for number in range(150):
            await w.create_node(f"n{number}")
        await asyncio.gather(*[w.create_pod(f"p{number}", cpu="500m") for number in range(50)])
        await asyncio.sleep(1)
        stories.append(await nodes_of(w))

    in_world(story)
    in_world(story)
    assert stories[0] == stories[1]
    assert "" not in stories[0].values()


def test_a_pod_that_fits_nowhere_is_told_why_once() -> None:
    async def story(w: World) -> None:
        await w.create_node("a", cpu="1")
        await w.create_node("b", cpu="4", unschedulable=True)
        await w.create_pod(cpu="2")
        await asyncio.sleep(1)
        message = (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
        )
        (condition,) = (await w.existing()).status.conditions
        assert (condition.type, condition.status, condition.reason, condition.message) == (
            "PodScheduled", "False", "Unschedulable", message,
        )  # fmt: skip
        assert [(e.type, e.reason, e.message) for e in await w.events()] == [("Warning", "FailedScheduling", message)]
        await asyncio.sleep(200)
        assert w.count_writes("pods/default/p") == 2
        await asyncio.sleep(200)
        assert w.count_writes("pods/default/p") == 2, "tried again after five minutes, with nothing new to say"
        assert [e.count for e in await w.events()] == [2]

    in_world(story)


def test_without_nodes_there_is_nothing_to_choose_from() -> None:
    async def story(w: World) -> None:
        await w.create_pod()
        await asyncio.sleep(1)
        (condition,) = (await w.existing()).status.conditions
        assert condition.message == "no nodes available to schedule pods"

    in_world(story)


async def _add_node(w: World) -> None:
    await w.create_node("new")


async def _uncordon(w: World) -> None:
    await w.client.patch(NODES.raw, "cordoned", merge_patch({"spec": {"unschedulable": None}}))


async def _take_taint_off(w: World) -> None:
    await w.client.patch(NODES.raw, "tainted", merge_patch({"spec": {"taints": None}}))


async def _grow(w: World) -> None:
    patch = merge_patch({"status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}})
    await w.client.patch(NODES.raw, "full", patch, subresource="status")


async def _delete_pod(w: World) -> None:
    await w.delete("big", grace=0)


async def _end_pod(w: World) -> None:
    done = merge_patch({"status": {"phase": "Succeeded"}})
    await w.client.patch(PODS.raw, "big", done, "default", subresource="status")


async def _tolerate(w: World) -> None:
    addition = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "t", "operator": "Exists"}}]
    await w.client.patch(PODS.raw, "p", json_patch(addition), "default")


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(_add_node, id="a node comes"),
        pytest.param(_uncordon, id="a node is uncordoned"),
        pytest.param(_take_taint_off, id="a taint goes"),
        pytest.param(_grow, id="a node grows"),
        pytest.param(_delete_pod, id="a pod is deleted"),
        pytest.param(_end_pod, id="a pod ends"),
        pytest.param(_tolerate, id="the pod tolerates more"),
    ],
)
@pytest.mark.parametrize("pause", [0.0, 100.0], ids=["at once", "later"])
def test_an_event_that_helps_gets_a_waiting_pod_placed_at_once(
    event: Callable[[World], Awaitable[None]], pause: float
) -> None:
    async def story(w: World) -> None:
        await w.create_node("full")
        await w.create_pod("big", node="full", cpu="3")
        await w.create_node("cordoned", unschedulable=True)
        await w.create_node("tainted", taints=[{"key": "t", "effect": "NoSchedule"}])
        seconds = {"tolerationSeconds": 300, "operator": "Exists", "effect": "NoExecute"}
        taints = [{"key": "node.kubernetes.io/not-ready", **seconds}]
        await w.create_pod(cpu="2", tolerations=taints)
        await asyncio.sleep(pause)
        if pause:
            assert (await w.existing()).spec.node_name == ""
        await event(w)
        await asyncio.sleep(0.5)
        assert (await w.existing()).spec.node_name

    in_world(story)


def test_events_that_cannot_help_do_not_wake() -> None:
    async def story(w: World) -> None:
        await w.create_node("a", cpu="1")
        await w.create_pod(cpu="2")
        await asyncio.sleep(20)
        for number in range(5):
            await w.create_node(f"small{number}", cpu="1")
            await w.create_pod(f"q{number}", node="a", cpu="100m")
            await w.delete(f"q{number}", grace=0)
            await asyncio.sleep(1)
        assert [e.count for e in await w.events()] == [1]

    in_world(story)


def test_a_namespace_that_gets_other_labels_wakes_nobody_before_five_minutes() -> None:
    """As upstream: ``EventsToRegister`` of interpodaffinity/plugin.go (v1.36) has pods and nodes only."""

    async def story(w: World) -> None:
        await w.create_node("a")
        hostname = {"metadata": {"labels": {"kubernetes.io/hostname": "a"}}}
        await w.client.patch(NODES, "a", merge_patch(hostname))
        await w.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        there = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"nodeName": "a", "containers": [MAIN]}}
        await w.client.create(PODS.raw, {"apiVersion": "v1", "kind": "Pod", **there}, "other")
        term = {
            "labelSelector": {"matchLabels": {"app": "web"}},
            "namespaceSelector": {"matchLabels": {"team": "b"}},
            "topologyKey": "kubernetes.io/hostname",
        }
        near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        here = {"metadata": {"name": "p"}, "spec": {"affinity": near, "containers": [MAIN]}}
        await w.client.create(PODS.raw, {"apiVersion": "v1", "kind": "Pod", **here}, "default")
        await asyncio.sleep(60)
        await w.client.patch(NAMESPACES, "other", merge_patch({"metadata": {"labels": {"team": "b"}}}))
        await asyncio.sleep(180)
        assert await nodes_of(w, "p") == {"p": ""}
        await asyncio.sleep(120)
        assert await nodes_of(w, "p") == {"p": "a"}

    in_world(story)


def test_room_that_comes_while_a_refusal_is_written_is_not_missed() -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(delay(10.0), verb="patch", resource="pods"))
        await w.create_pod()
        await asyncio.sleep(5)
        await w.create_node("a")
        await asyncio.sleep(7)
        assert (await w.existing()).spec.node_name == "a"
        await asyncio.sleep(60)
        conditions = {c.type: c.status for c in (await w.existing()).status.conditions}
        assert conditions["PodScheduled"] == "True", "no report of an earlier attempt overtakes the binding"

    in_world(story)


def test_gated_pods_wait_until_the_last_gate_is_gone() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod(schedulingGates=[{"name": "example.com/one"}, {"name": "example.com/two"}])
        told = []
        for _ in range(3):
            await asyncio.sleep(10)
            told.append((await w.existing()).spec.node_name)
            if len(told) < 3:
                await w.client.patch(
                    PODS.raw, "p", json_patch([{"op": "remove", "path": "/spec/schedulingGates/0"}]), "default"
                )
        assert told == ["", "", "a"]

    in_world(story)


def test_pods_of_other_schedulers_and_pods_being_deleted_are_left_alone() -> None:
    async def story(w: World) -> None:
        await w.create_pod("other", schedulerName="mine")
        await w.create_pod("going", metadata={"finalizers": ["example.com/hold"]})
        await asyncio.sleep(1)
        await w.delete("going")
        await w.create_node("a")
        await asyncio.sleep(60)
        assert await nodes_of(w) == {"other": "", "going": ""}

    in_world(story)


def test_pods_of_high_priority_get_scarce_room_first() -> None:
    async def story(w: World) -> None:
        for number, priority in enumerate((0, 100, 50)):
            body = {
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": f"c{number}"}, "value": priority,
            }  # fmt: skip
            await w.client.request(
                "POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=msgspec.json.encode(body),
                headers={"content-type": "application/json"},
            )  # fmt: skip
            await w.create_pod(f"p{number}", cpu="3", priorityClassName=f"c{number}")
        await asyncio.sleep(60)
        await w.create_node("a")
        await asyncio.sleep(60)
        assert [name for name, node in (await nodes_of(w)).items() if node] == ["p1"]

    in_world(story)


def test_no_node_is_given_more_than_it_has() -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="create", resource="pods", subresource="binding"))
        w.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="watch", resource="pods"))
        for name in "ab":
            await w.create_node(name, cpu="4")
        for number in range(12):
            await w.create_pod(f"p{number}", cpu="1")
        await asyncio.sleep(60)
        assert Counter((await nodes_of(w)).values()) == {"a": 4, "b": 4, "": 4}

    in_world(story)


def test_a_pod_deleted_while_it_waits_leaves_nothing_behind() -> None:
    async def story(w: World) -> None:
        await w.create_pod(cpu="3")
        await asyncio.sleep(5)
        await w.delete()
        await w.create_node("a")
        await w.create_pod("q", cpu="3")
        await asyncio.sleep(1)
        assert await nodes_of(w) == {"q": "a"}

    in_world(story)


def test_a_pod_bound_by_another_counts_where_it_is() -> None:
    async def story(w: World) -> None:
        for name in "ab":
            await w.create_node(name)
        w.scheduler_faults.add(Rule(delay(5.0), verb="create", resource="pods", subresource="binding", nth=1))
        await w.create_pod(cpu="3")
        await asyncio.sleep(1)
        await bind_elsewhere(w, "p", "b")
        await asyncio.sleep(20)
        assert (await w.existing()).spec.node_name == "b"
        await w.create_pod("q", cpu="3")
        await asyncio.sleep(1)
        assert (await w.existing("q")).spec.node_name == "a"
        await w.create_pod("r", cpu="3")
        await asyncio.sleep(1)
        assert (await w.existing("r")).spec.node_name == ""

    in_world(story)


def test_a_successor_of_the_same_name_is_placed_on_its_own() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        w.scheduler_faults.add(Rule(delay(5.0), verb="create", resource="pods", subresource="binding", nth=1))
        await w.create_pod(cpu="3")
        await asyncio.sleep(1)
        await w.delete(grace=0)
        await w.create_pod(cpu="2")
        await asyncio.sleep(10)
        assert (await w.existing()).spec.node_name == "a"
        await w.create_pod("q", cpu="2")
        await asyncio.sleep(2)
        assert (await w.existing("q")).spec.node_name == "a"
        await w.create_pod("r", cpu="1")
        await asyncio.sleep(2)
        assert (await w.existing("r")).spec.node_name == ""

    in_world(story)


def test_a_bound_pod_is_not_bound_again_while_the_watch_lags() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await asyncio.sleep(1)
        for nth, fault in ((1, delay(5.0)), (2, fail(500, "InternalError"))):
            w.scheduler_faults.add(Rule(fault, verb="create", resource="pods", subresource="binding", nth=nth))
        with w.scheduler_faults.hold(resource="pods") as held:
            await w.create_pod()
            held.release(1)
            await asyncio.sleep(1)
            await w.client.patch(PODS.raw, "p", merge_patch({"metadata": {"labels": {"a": "b"}}}), "default")
            await asyncio.sleep(9)
            assert (await w.existing()).spec.node_name == "a"
            held.release(1)
            await asyncio.sleep(10)
        await asyncio.sleep(10)
        assert [e.reason for e in await w.events()] == ["Scheduled"]

    in_world(story)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda: fail(500, "InternalError"), id="the server fails"),
        pytest.param(conflict, id="conflicts"),
        pytest.param(refuse, id="nobody listens"),
        pytest.param(lose_answer, id="answers are lost"),
    ],
)
def test_no_pod_is_lost_to_failing_bindings(trouble: Callable[[], Any], seed: int) -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(trouble(), verb="create", subresource="binding", probability=0.6))
        await w.create_node("a", cpu="20")
        await asyncio.gather(*[w.create_pod(f"p{number}", cpu="1") for number in range(20)])
        await asyncio.sleep(300)
        assert Counter((await nodes_of(w)).values()) == {"a": 20}
        for pod in (await w.client.list(PODS, "default")).items:
            assert {c.type: c.status for c in pod.status.conditions}["PodScheduled"] == "True"
        w.scheduler_faults.clear()
        await w.create_pod("late", cpu="1")
        await asyncio.sleep(5)
        assert (await w.existing("late")).spec.node_name == "", "the room of all twenty is counted, once"
        await w.delete("p7", grace=0)
        await asyncio.sleep(5)
        assert (await w.existing("late")).spec.node_name == "a"

    in_world(story, seed=seed)


def test_a_binding_that_the_server_refuses_is_reported() -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(fail(403, "Forbidden", "no"), verb="create", subresource="binding", nth=1))
        await w.create_node("a")
        await w.create_pod()
        await asyncio.sleep(0.5)
        (condition,) = (await w.existing()).status.conditions
        message = 'binding rejected: running Bind plugin "DefaultBinder": no'
        assert (condition.status, condition.reason, condition.message) == ("False", "SchedulerError", message)
        await asyncio.sleep(2)
        assert (await w.existing()).spec.node_name == "a"
        assert [e.reason for e in await w.events()] == ["FailedScheduling", "Scheduled"]

    in_world(story)


def test_what_runs_already_counts_after_a_restart() -> None:
    async def story(w: World) -> None:
        for name in "ab":
            await w.create_node(name)
        await w.create_pod("old", node="a", cpu="3")
        w.start_scheduler()
        await w.create_pod(cpu="3")
        await asyncio.sleep(1)
        assert (await w.existing()).spec.node_name == "b"

    async def main(env: Env) -> None:
        async with world(env) as w:
            await story(w)

    run(main)
