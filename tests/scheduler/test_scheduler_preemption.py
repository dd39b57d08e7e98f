"""Preemption, spreading and affinity against the embedded API server, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.nodes.world import World, world
from tests.scheduler.build import HOSTNAME, ZONE, far, near, spread, term

from pilothouse.api.core import NODES, PODS
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS
from pilothouse.client import merge_patch
from pilothouse.client.interceptor import Rule, conflict, delay, fail
from pilothouse.env import Env
from pilothouse.env.virtual import run


def in_world(story: Callable[[World], Awaitable[None]], *, seed: int = 0, scheduler: bool = True) -> None:
    async def main(env: Env) -> None:
        async with world(env, scheduler=scheduler) as w:
            await a_class(w, "high", 1000)
            await a_class(w, "middle", 100)
            await a_class(w, "polite", 1000, preemptionPolicy="Never")
            await story(w)

    run(main, seed=seed)


async def a_class(w: World, name: str, value: int, **more: Any) -> None:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    body = {**kind, "metadata": {"name": name}, "value": value, **more}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    headers = {"content-type": "application/json"}
    await w.client.request("POST", path, body=msgspec.json.encode(body), headers=headers)


async def high(w: World, name: str = "p", cpu: str = "3", **parts: Any) -> None:
    await w.create_pod(name, cpu=cpu, priorityClassName=parts.pop("priority_class", "high"), **parts)


async def nodes_of(w: World) -> dict[str, str]:
    return {p.metadata.name: p.spec.node_name for p in (await w.client.list(PODS, "default")).items}


async def told(w: World, reason: str) -> list[tuple[str, str]]:
    return [(e.involved_object.name, e.message) for e in await w.events() if e.reason == reason]


HOLD = {"finalizers": ["example.com/hold"]}


async def release(w: World, name: str) -> None:
    """Let a pod go that is being deleted, as a kubelet and others would in the end."""
    await w.client.patch(PODS.raw, name, merge_patch({"metadata": {"finalizers": None}}), "default")
    await w.delete(name, grace=0)


def test_a_pod_of_high_priority_pushes_a_lesser_one_aside() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w)
        await asyncio.sleep(1)
        victim, preemptor = await w.existing("low"), await w.existing()
        assert victim.metadata.deletion_timestamp is not None
        condition = next(c for c in victim.status.conditions if c.type == "DisruptionTarget")
        assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
        assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
        assert await told(w, "Preempted") == [("low", f"Preempted by pod {preemptor.metadata.uid} on node a")]
        assert (preemptor.spec.node_name, preemptor.status.nominated_node_name) == ("", "a")
        assert await told(w, "FailedScheduling") == [("p", "0/1 nodes are available: 1 Insufficient cpu.")]
        await asyncio.sleep(100)
        assert await told(w, "Preempted") == [("low", f"Preempted by pod {preemptor.metadata.uid} on node a")]
        await release(w, "low")
        await asyncio.sleep(1)
        preemptor = await w.existing()
        assert (preemptor.spec.node_name, preemptor.status.nominated_node_name) == ("a", "")

    in_world(story)


def test_a_nominated_pod_keeps_its_place() -> None:
    """While its victims end, pods of no more priority don't slip in; pods of more do."""

    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w, priority_class="middle", cpu="2")
        await asyncio.sleep(1)
        await w.create_pod("late", cpu="2")
        await release(w, "low")
        await asyncio.sleep(1)
        assert await nodes_of(w) == {"p": "a", "late": "a"}
        await w.create_pod("later", cpu="1")
        await asyncio.sleep(1)
        assert (await w.existing("later")).spec.node_name == ""

    in_world(story)


def test_promised_room_survives_a_restart_of_the_scheduler() -> None:
    async def story(w: World) -> None:
        task = w.start_scheduler()
        await w.create_node("a")
        await w.create_pod("low", cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w, cpu="4")
        await asyncio.sleep(1)
        assert (await w.existing()).status.nominated_node_name == "a"
        task.cancel()
        await asyncio.sleep(1)
        await w.create_pod("late", cpu="4")
        w.start_scheduler()
        await asyncio.sleep(1)
        assert (await told(w, "Preempted"))[1:] == [], "nobody is pushed aside twice"
        await release(w, "low")
        await asyncio.sleep(5)
        assert await nodes_of(w) == {"p": "a", "late": ""}

    in_world(story, scheduler=False)


def test_a_polite_pod_waits() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="3")
        await asyncio.sleep(1)
        await high(w, priority_class="polite")
        await asyncio.sleep(30)
        (message,) = await told(w, "FailedScheduling")
        assert message[1] == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
        )
        assert (await w.existing("low")).metadata.deletion_timestamp is None

    in_world(story)


async def a_budget(w: World, allowed: int) -> None:
    body = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }  # fmt: skip
    await w.client.create(POD_DISRUPTION_BUDGETS.raw, body, "default")
    status = merge_patch({"status": {"disruptionsAllowed": allowed}})
    await w.client.patch(POD_DISRUPTION_BUDGETS.raw, "b", status, "default", subresource="status")


@pytest.mark.parametrize(
    ("allowed", "victim"),
    [
        pytest.param(0, "free", id="the protected pod stays although it matters less"),
        pytest.param(1, "guarded", id="while one may go the lesser pod goes"),
    ],
)
def test_budgets_are_respected_by_their_status(allowed: int, victim: str) -> None:
    async def story(w: World) -> None:
        for name in "ab":
            await w.create_node(name)
        await w.create_pod("guarded", node="a", cpu="3", metadata={"labels": {"app": "web"}})
        await w.create_pod("free", node="b", cpu="3", priorityClassName="middle")
        await a_budget(w, allowed)
        await asyncio.sleep(1)
        await high(w)
        await asyncio.sleep(0.5)
        assert [name for name, _message in await told(w, "Preempted")] == [victim]

    in_world(story)


def test_a_lesser_pod_that_waits_for_the_node_is_told_that_it_waits_in_vain() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="4", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w, "first", cpu="4", priority_class="middle")
        await asyncio.sleep(1)
        assert (await w.existing("first")).status.nominated_node_name == "a"
        await high(w, "second", cpu="4")
        await asyncio.sleep(5)
        assert (await w.existing("second")).status.nominated_node_name == "a"
        assert (await w.existing("first")).status.nominated_node_name == ""
        await release(w, "low")
        await asyncio.sleep(5)
        assert await nodes_of(w) == {"first": "", "second": "a"}

    in_world(story)


@pytest.mark.parametrize("trouble", [lambda: fail(500, "InternalError"), conflict], ids=["an error", "a conflict"])
def test_a_victim_that_could_not_be_deleted_is_tried_again(trouble: Callable[[], Any]) -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(trouble(), verb="delete", resource="pods", nth=1))
        await w.create_node("a")
        await w.create_pod("low", node="a", cpu="3")
        await asyncio.sleep(1)
        await high(w)
        await asyncio.sleep(10)
        assert (await w.existing("low")).metadata.deletion_timestamp is not None

    in_world(story)


def test_a_preemptor_that_goes_leaves_its_room_to_others() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w)
        await asyncio.sleep(1)
        await w.delete("p")
        await release(w, "low")
        await w.create_pod("next", cpu="3")
        await asyncio.sleep(1)
        assert await nodes_of(w) == {"next": "a"}

    in_world(story)


def test_a_node_that_vanishes_between_decision_and_binding_takes_nothing_along() -> None:
    """The API server binds to nodes that are not there, as upstream's; the room elsewhere is right all the same."""

    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(delay(5.0), verb="create", resource="pods", subresource="binding", nth=1))
        await w.create_node("a")
        await w.create_pod("p", cpu="3")
        await asyncio.sleep(1)
        await w.client.delete(NODES, "a")
        await w.create_node("b")
        await w.create_pod("q", cpu="3")
        await asyncio.sleep(10)
        assert await nodes_of(w) == {"p": "a", "q": "b"}
        await w.delete("p", grace=0)
        await w.create_node("a")
        await w.create_pod("r", cpu="3")
        await asyncio.sleep(1)
        assert (await w.existing("r")).spec.node_name == "a"

    in_world(story)


def test_preemption_while_the_watch_is_lost_pushes_nobody_aside_twice() -> None:
    async def story(w: World) -> None:
        for name in "ab":
            await w.create_node(name)
            await w.create_pod(f"low-{name}", node=name, cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        with w.scheduler_faults.hold(resource="pods") as held:
            await high(w)
            held.release(1)
            await asyncio.sleep(60)
        await asyncio.sleep(5)
        assert len(await told(w, "Preempted")) == 1

    in_world(story)


# Relations


async def in_zones(w: World, *names: str, cpu: str = "40") -> None:
    """Nodes whose zone is their first letter."""
    for name in names:
        labels = {HOSTNAME: name, ZONE: name[0]}
        await w.create_node(name, cpu=cpu)
        await w.client.patch(NODES.raw, name, merge_patch({"metadata": {"labels": labels}}))


WEB = {"labels": {"app": "web"}}


def test_a_strict_spread_is_kept_while_many_bindings_are_on_their_way() -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="create", resource="pods", subresource="binding"))
        w.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="watch", resource="pods"))
        await in_zones(w, "a1", "a2", "a3", "b1", "c1")
        for number in range(30):
            await w.create_pod(f"p{number}", cpu="1", metadata=WEB, topologySpreadConstraints=[spread(ZONE)])
        await asyncio.sleep(60)
        assert Counter(name[0] for name in (await nodes_of(w)).values()) == {"a": 10, "b": 10, "c": 10}

    in_world(story)


def test_pods_that_keep_apart_never_meet_and_one_too_many_waits() -> None:
    async def story(w: World) -> None:
        w.scheduler_faults.add(Rule(delay(0.0, 3.0), verb="create", resource="pods", subresource="binding"))
        await in_zones(w, "a1", "a2", "b1")
        for number in range(4):
            await w.create_pod(f"p{number}", metadata=WEB, affinity=far(term(app="web")))
        await asyncio.sleep(20)
        placed = await nodes_of(w)
        assert Counter(placed.values()) == {"a1": 1, "a2": 1, "b1": 1, "": 1}
        (told_to,) = await told(w, "FailedScheduling")
        assert told_to[1] == (
            "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. preemption: 0/3 nodes are "
            "available: 3 No preemption victims found for incoming pod."
        )
        w.scheduler_faults.clear()
        await w.delete("p0" if placed["p0"] else "p1", grace=0)
        await asyncio.sleep(0.5)
        assert "" not in (await nodes_of(w)).values(), "the event that helps wakes it at once"

    in_world(story)


def test_a_pod_that_must_be_near_waits_for_whom_it_needs() -> None:
    async def story(w: World) -> None:
        await in_zones(w, "a1", "a2", "b1")
        await w.create_pod("p", affinity=near(term(ZONE, app="web")))
        await asyncio.sleep(30)
        assert (await w.existing()).spec.node_name == ""
        await w.create_pod("other", node="b1", metadata={"labels": {"app": "db"}})
        await asyncio.sleep(5)
        assert [e.count for e in await w.events() if e.reason == "FailedScheduling"] == [1], "not tried in vain"
        await w.create_pod("web", metadata=WEB, nodeSelector={HOSTNAME: "b1"})
        await asyncio.sleep(0.5)
        assert (await w.existing()).spec.node_name == "b1"

    in_world(story)


def test_a_new_zone_helps_a_pod_that_fitted_nowhere_for_evenness() -> None:
    async def story(w: World) -> None:
        await in_zones(w, "a1")
        constraint = spread(ZONE, minDomains=2)
        for number in range(2):
            await w.create_pod(f"p{number}", cpu="1", metadata=WEB, topologySpreadConstraints=[constraint])
        await asyncio.sleep(30)
        assert Counter((await nodes_of(w)).values()) == {"a1": 1, "": 1}
        await in_zones(w, "b1", cpu="0")
        await w.create_pod("filling", node="b1", metadata=WEB)
        await asyncio.sleep(0.5)
        assert Counter((await nodes_of(w)).values()) == {"a1": 2, "b1": 1}

    in_world(story)


def test_pods_of_a_service_lie_evenly_over_zones() -> None:
    async def story(w: World) -> None:
        service = {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        }  # fmt: skip
        path = "/api/v1/namespaces/default/services"
        headers = {"content-type": "application/json"}
        await w.client.request("POST", path, body=msgspec.json.encode(service), headers=headers)
        await in_zones(w, "a1", "a2", "b1", "b2")
        await asyncio.sleep(1)
        for number in range(8):
            await w.create_pod(f"p{number}", cpu="10m", metadata=WEB)
        await asyncio.sleep(1)
        assert Counter(name[0] for name in (await nodes_of(w)).values()) == {"a": 4, "b": 4}

    in_world(story)


def test_room_that_a_preemptor_no_longer_waits_for_is_given_to_others() -> None:
    """Not only when the preemptor is gone: one that is being deleted, and kept by a finalizer, needs no room either."""

    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w, cpu="4", metadata=HOLD)
        await asyncio.sleep(1)
        await w.create_pod("late", cpu="1")
        await asyncio.sleep(20)
        assert ((await w.existing()).status.nominated_node_name, (await nodes_of(w))["late"]) == ("a", "")
        await w.delete()
        await asyncio.sleep(1)
        assert (await nodes_of(w))["late"] == "a"

    in_world(story)


def test_room_that_somebody_else_takes_back_from_a_preemptor_is_given_to_others() -> None:
    async def story(w: World) -> None:
        await w.create_node("a")
        await w.create_pod("low", cpu="3", metadata=HOLD)
        await asyncio.sleep(1)
        await high(w, cpu="4")
        await asyncio.sleep(1)
        await w.create_pod("late", cpu="1")
        await asyncio.sleep(20)
        await w.client.patch(
            PODS.raw, "p", merge_patch({"status": {"nominatedNodeName": None}}), "default", subresource="status"
        )
        await asyncio.sleep(1)
        assert (await nodes_of(w))["late"] == "a"

    in_world(story)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"metadata": {"labels": {ZONE: None}}}, id="it has no zone any more"),
        pytest.param({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, id="it got a taint"),
    ],
)
def test_a_node_that_no_longer_counts_for_evenness_helps_a_pod_to_another(change: dict[str, Any]) -> None:
    async def story(w: World) -> None:
        for name in ("a", "b"):
            await w.create_node(name, unschedulable=name == "b")
            await w.label_node(name, ZONE, name)
        labels = {"labels": {"app": "web"}}
        await w.create_pod("first", metadata=labels)
        await asyncio.sleep(1)
        constraints = [spread(ZONE, nodeTaintsPolicy="Honor")]
        await w.create_pod("p", metadata=labels, topologySpreadConstraints=constraints)
        await asyncio.sleep(20)
        assert (await nodes_of(w))["p"] == ""
        await w.client.patch(NODES.raw, "b", merge_patch(change))
        await asyncio.sleep(1)
        assert (await nodes_of(w))["p"] == "a"

    in_world(story)


def test_a_node_that_leaves_its_zone_takes_its_pods_out_of_the_way() -> None:
    async def story(w: World) -> None:
        for name in ("a", "b"):
            await w.create_node(name, unschedulable=name == "b")
            await w.label_node(name, ZONE, "z")
        await w.create_pod("other", node="b", metadata={"labels": {"app": "db"}})
        await w.create_pod("p", affinity=far(term(ZONE, app="db")))
        await asyncio.sleep(20)
        assert (await nodes_of(w))["p"] == ""
        await w.client.patch(NODES.raw, "b", merge_patch({"metadata": {"labels": {ZONE: None}}}))
        await asyncio.sleep(1)
        assert (await nodes_of(w))["p"] == "a"

    in_world(story)


def test_a_pod_that_gets_room_where_others_keep_it_away_waits_for_these_from_then_on() -> None:
    """The first refusal, for want of room, hid the second."""

    async def story(w: World) -> None:
        for name in ("a", "b"):
            await w.create_node(name, unschedulable=name == "b")
            await w.label_node(name, ZONE, name)
        labels = {"labels": {"app": "web"}}
        await w.create_pod("first", node="a", metadata=labels)
        await w.create_pod("large", node="a", cpu="3")
        await w.create_pod("p", cpu="2", metadata=labels, topologySpreadConstraints=[spread(ZONE)])
        await asyncio.sleep(20)
        await w.delete("large", grace=0)
        await asyncio.sleep(20)
        assert (await nodes_of(w))["p"] == ""
        await w.create_pod("second", node="b", metadata=labels)
        await asyncio.sleep(1)
        assert (await nodes_of(w))["p"] == "a"

    in_world(story)
