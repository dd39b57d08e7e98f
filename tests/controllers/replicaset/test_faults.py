"""Stale caches, lost responses, broken watches: still the right number of pods."""

import msgspec
import pytest
from tests.controllers.api_world import PODS
from tests.controllers.replicaset.world import WEB, World, controlled, world
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.client.interceptor import Action, Replace, Rule, conflict, delay, fail, gone, lose_answer, time_out
from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.env import Env


async def test_stale_pod_cache_creates_no_second_batch(world: World) -> None:
    with world.faults.hold(resource="pods"):
        await world.create_set(3)
        await world.wait_for_sync()
        for wake in range(3):
            await world.merge(WEB, {"metadata": {"labels": {"wake": str(wake)}}})
            await world.wait_for_sync()
        assert len(world.sent("create", "pods")) == 3
    await world.wait_for_sync()
    assert len(await world.owned()) == 3


@cases(
    "waits, created",
    {
        "the consistency store detects the stale cache, without a time limit": (True, 3),
        "expectations expire after five minutes": (False, 6),
    },
)
async def test_pod_cache_stale_for_more_than_five_minutes(env: Env, waits: bool, created: int) -> None:
    """kubernetes#129795, first half: without the consistency store the pods are created twice."""
    async with controlled(env, ReplicaSetOptions(wait_for_own_writes=waits)) as world:
        with world.faults.hold(resource="pods"):
            await world.create_set(3)
            await world.wait_for_sync(301)
            await world.merge(WEB, {"metadata": {"labels": {"wake": "up"}}})
            await world.wait_for_sync()
            assert len(world.sent("create", "pods")) == created
        await world.wait_for_sync(1100)
        assert len(await world.owned()) == 3
        skips = world.metrics.value("replicaset_controller_stale_sync_skips_total", "", "pods")
        assert (skips > 0) == waits


@cases(
    "waits, seconds",
    {
        "once the cache has caught up": (True, 15),
        "without the consistency store: once the expectations expire": (False, 330),
    },
)
async def test_pods_created_and_deleted_between_two_lists_are_recreated(env: Env, waits: bool, seconds: float) -> None:
    """kubernetes#129795, second half: no event reports their creation."""
    async with controlled(env, ReplicaSetOptions(wait_for_own_writes=waits)) as world:
        with world.faults.hold(resource="pods") as hold:
            await world.create_set(3)
            await world.wait_for_sync()
            for name in await world.owned():
                await world.remove(name)
            world.faults.end_watches(resource="pods", with_=gone())
            hold.release()
            await world.wait_for_sync(10)
        if not waits:
            await world.wait_for_sync(250)
            await world.merge(WEB, {"metadata": {"labels": {"wake": "up"}}})
            await world.wait_for_sync()
            assert await world.owned() == []
            await world.wait_for_sync(60)
        await world.merge(WEB, {"metadata": {"labels": {"wake": "again"}}})
        await world.wait_for_sync()
        assert world.env.monotonic() < seconds
        assert len(await world.owned()) == 3


async def test_adopted_pod_deleted_between_two_lists_is_not_awaited(world: World) -> None:
    """The cache has it as an orphan only, and delivers its deletion as that of an orphan."""
    await world.create_pod("loose")
    await world.create_pod("other")
    await world.wait_for_sync()
    with world.faults.hold(resource="pods") as hold:
        await world.create_set(1)
        await world.wait_for_sync()
        assert len(world.sent("delete", "pods")) == 1
        for name in {"loose", "other"} - set(await world.owned()):
            await world.remove(name)
        world.faults.end_watches(resource="pods", with_=gone())
        hold.release()
        await world.wait_for_sync(10)
    await world.scale(2)
    await world.wait_for_sync()
    assert len(await world.owned()) == 2


async def test_expectations_expire_after_five_minutes(env: Env) -> None:
    """Upstream's expectations expire too, but nothing enqueues the key then."""
    async with controlled(env, ReplicaSetOptions(wait_for_own_writes=False)) as world:
        with world.faults.hold(resource="pods") as hold:
            await world.create_set(3)
            await world.wait_for_sync()
            for name in await world.owned():
                await world.remove(name)
            world.faults.end_watches(resource="pods", with_=gone())
            hold.release()
            await world.wait_for_sync(290)
            assert await world.owned() == []
        await world.wait_for_sync(30)
        assert len(await world.owned()) == 3


@pytest.mark.parametrize("happened", [False, True], ids=["the pod was not created", "the pod was created"])
async def test_create_without_a_response_is_retried(world: World, happened: bool) -> None:
    """kubernetes#67662: it was treated as successful, and the replica never created."""
    world.faults.add(Rule(time_out(sent=happened), verb="create", resource="pods", nth=1))
    await world.create_set(1)
    await world.wait_for_sync()
    assert len(await world.owned()) == 1
    assert (await world.status())["replicas"] == 1


async def test_every_second_create_response_is_lost(world: World) -> None:
    rule = world.faults.add(Rule(lose_answer(), verb="create", resource="pods", probability=0.5))
    await world.create_set(20)
    await world.wait_for_sync(60)
    assert rule.hits > 0
    world.faults.clear()
    await world.wait_for_sync(60)
    assert len(await world.owned()) == 20
    assert "conditions" not in await world.status()


async def test_status_conflict_is_retried_on_the_live_object(world: World) -> None:
    await world.create_set(0)
    await world.wait_for_sync()
    world.requests.clear()
    rule = world.faults.add(Rule(conflict(), verb="update", resource="replicasets", subresource="status", nth=1))
    await world.merge(WEB, {"spec": {"minReadySeconds": 1}})
    await world.wait_for_sync(0.004)
    verbs = [request.call.verb for request in world.requests]
    assert rule.hits == 1
    assert verbs == ["get", "update"], "the refused PUT never reached the server"
    assert (await world.status())["observedGeneration"] == 2


async def test_status_from_a_stale_cache_keeps_concurrent_changes(world: World) -> None:
    """The live object keeps concurrent changes; the status has the observed generation of the sync."""
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    with world.faults.hold(resource="replicasets"):
        await world.merge(WEB, {"metadata": {"labels": {"new": "label"}}, "spec": {"replicas": 2}})
        await world.report(name)
        await world.wait_for_sync()
        obj = await world.request("GET", WEB)
        assert obj["status"]["readyReplicas"] == 1
        assert obj["status"]["observedGeneration"] == 1
        assert obj["metadata"]["labels"] == {"new": "label"}
        assert obj["spec"]["replicas"] == 2
    await world.wait_for_sync()
    assert (await world.status())["observedGeneration"] == 2


async def test_status_is_not_written_to_a_recreated_object(world: World) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    with world.faults.hold(resource="replicasets"):
        await world.request("DELETE", WEB, {"propagationPolicy": "Orphan"})
        await world.merge(WEB, {"metadata": {"finalizers": None}})
        await world.create_set(0, labels={"app": "new"})
        await world.report(name)
        await world.wait_for_sync()
        assert (await world.status()).get("readyReplicas", 0) == 0
    await world.wait_for_sync(60)
    assert (await world.status())["observedGeneration"] == 1


async def test_second_failed_status_update_requeues_the_key(world: World) -> None:
    world.faults.add(Rule(fail(500, "InternalError", "no"), verb="update", resource="replicasets", times=7))
    await world.create_set(2)
    await world.wait_for_sync()
    assert (await world.status())["replicas"] == 2
    assert len(await world.owned()) == 2


async def test_owner_recreated_between_watches_starts_without_expectations(world: World) -> None:
    """Upstream, TestExpectationsOnRecreate, but with one update of two uids instead of two events."""
    with world.faults.hold(resource="pods"):
        await world.create_set(1)
        await world.wait_for_sync()
        with world.faults.hold(resource="replicasets"):
            await world.request("DELETE", WEB, {"propagationPolicy": "Orphan"})
            await world.merge(WEB, {"metadata": {"finalizers": None}})
            await world.create_set(1, labels={"app": "new"})
            world.faults.end_watches(resource="replicasets", with_=gone())
        await world.wait_for_sync(5)
        assert len(world.sent("create", "pods")) == 2


async def test_recreated_pod_fulfills_the_deletion_expectation(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync()
    with world.faults.hold(resource="pods"):
        await world.scale(1)
        await world.wait_for_sync()
        [victim] = [item["metadata"]["name"] for item in await world.pods(terminating=True)]
        await world.remove(victim)
        await world.create_pod(victim)
        world.faults.end_watches(resource="pods", with_=gone())
    await world.wait_for_sync(10)
    assert len(await world.owned()) == 1, "the new one was adopted, and one of the two is gone"
    assert len(world.sent("delete", "pods")) == 2


async def test_terminating_replicas_dropped_by_the_server_do_not_cause_updates(world: World) -> None:
    def without(request: Request) -> Request:
        body = msgspec.json.decode(request.body)
        body["status"].pop("terminatingReplicas", None)
        return msgspec.structs.replace(request, body=msgspec.json.encode(body))

    world.faults.add(Rule(Replace(without), verb="update", resource="replicasets", subresource="status"))
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    await world.wait_for_sync()
    writes = len(world.sent("update", "replicasets/status"))
    await world.merge(f"{PODS}/{name}", {"metadata": {"annotations": {"wake": "up"}}})
    await world.wait_for_sync()
    assert len(world.sent("update", "replicasets/status")) == writes
    assert "terminatingReplicas" not in await world.status()


async def test_new_controller_creates_no_duplicate_pods(env: Env) -> None:
    async with world(env) as new_world:
        first = await new_world.start()
        await new_world.create_set(3)
        await new_world.wait_for_sync()
        first.cancel()
        await new_world.wait_for_sync()
        [name, *_] = await new_world.owned()
        await new_world.remove(name)
        new_world.requests.clear()
        await new_world.start()
        await new_world.wait_for_sync()
        assert len(new_world.sent("create", "pods")) == 1
        assert len(await new_world.owned()) == 3


async def test_replicas_converge_under_broken_watches_and_stale_lists(world: World, seed: int) -> None:
    rng = world.env.stream("story")
    await world.create_set(4)
    for _ in range(30):
        await world.wait_for_sync(rng.uniform(0, 3))
        action = rng.randrange(5)
        owned = await world.owned()
        if action == 0:
            await world.scale(rng.randrange(8))
        elif action == 1 and owned:
            await world.remove(rng.choice(owned))
        elif action == 2:
            world.faults.end_watches(resource="pods", with_=gone())
        elif action == 3:
            world.faults.end_watches(resource="replicasets")
        elif owned:
            await world.report(rng.choice(owned))
    await world.scale(5)
    await world.wait_for_sync(60)
    assert len(await world.owned()) == 5
    status = await world.status()
    assert status["replicas"] == 5
    ready = sum(1 for item in await world.pods() if "conditions" in item["status"])
    assert status.get("readyReplicas", 0) == ready


@pytest.mark.parametrize("fault", [time_out(sent=True), lose_answer(), fail(504, "Timeout", "no answer in time")])
async def test_pods_are_listed_live_after_an_undecided_create(world: World, fault: Action) -> None:
    """However late its event: one lost response must not cause a surplus pod."""
    world.faults.add(Rule(fault, verb="create", resource="pods", times=1))
    with world.faults.hold(resource="pods"):
        await world.create_set(1)
        await world.wait_for_sync()
        assert len(await world.owned()) == 1
    await world.wait_for_sync(60)
    assert len(await world.owned()) == 1
    assert (await world.status())["replicas"] == 1
    assert await world.pods(terminating=True) == []


async def test_sync_during_delivery_of_a_relist_creates_no_duplicates(world: World) -> None:
    """The cache has a new list at once, handlers receive its pods in batches of a hundred, with syncs in between."""
    with world.faults.hold(resource="pods"):
        await world.create_set(450)
        await world.wait_for_sync(5)
        world.faults.end_watches(resource="pods", with_=gone())
        await world.wait_for_sync(5)
    await world.wait_for_sync(60)
    assert len(world.sent("create", "pods")) == 450


async def test_no_creates_while_a_create_is_undecided(world: World) -> None:
    world.faults.add(Rule(time_out(sent=True), verb="create", resource="pods", times=1))
    with world.faults.hold(resource="pods"):
        lists = world.faults.add(Rule(fail(500, "InternalError", "no"), verb="list", resource="pods"))
        await world.create_set(1)
        await world.wait_for_sync(10)
        assert lists.hits > 1
        assert len(world.sent("create", "pods")) == 1
        world.faults.remove(lists)
        await world.wait_for_sync(30)
    await world.wait_for_sync(30)
    assert len(await world.owned()) == 1


@pytest.mark.parametrize("again", [False, True], ids=["quota unchanged", "quota raised"])
async def test_owner_deleted_during_its_sync_is_no_error(world: World, again: bool) -> None:
    """Its status update is not found."""
    world.faults.add(Rule(delay(1.0), verb="create", resource="pods", times=1))
    old = await world.create_set(1)
    await world.wait_for_sync(0.5)
    await world.request("DELETE", WEB, {"propagationPolicy": "Orphan"})
    await world.merge(WEB, {"metadata": {"finalizers": None}})
    if again:
        await world.create_set(0, labels={"app": "new"})
    await world.wait_for_sync()
    for body in world.bodies("update", "replicasets/status"):
        if body["metadata"]["uid"] != old["metadata"]["uid"]:
            assert "conditions" not in body["status"]
            assert body["status"]["replicas"] == 0


async def test_deleted_owner_in_a_stale_cache_gets_no_more_pods(world: World) -> None:
    """They would be garbage collected immediately, since the garbage collector reads their owner live."""
    await world.create_set(2)
    await world.wait_for_sync()
    with world.faults.hold(resource="replicasets"):
        await world.request("DELETE", WEB, {"propagationPolicy": "Orphan"})
        await world.merge(WEB, {"metadata": {"finalizers": None}})
        for _ in range(20):
            for name in await world.owned():
                await world.remove(name)
            await world.wait_for_sync()
        assert len(world.sent("create", "pods")) <= 6
    await world.wait_for_sync()


async def test_status_of_an_older_generation_does_not_replace_a_newer_one(world: World) -> None:
    """As after a start with a stale list: another process has written a status for a newer generation."""
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    with world.faults.hold(resource="replicasets"):
        await world.merge(WEB, {"spec": {"minReadySeconds": 1}})
        await world.merge(f"{WEB}/status", {"status": {"observedGeneration": 2}})
        await world.report(name)
        await world.wait_for_sync()
        assert (await world.status())["observedGeneration"] == 2
    await world.wait_for_sync(60)
    assert (await world.status())["observedGeneration"] == 2
    assert (await world.status())["readyReplicas"] == 1


async def test_pod_released_during_its_deletion_is_not_awaited(world: World) -> None:
    """The event of its deletion does not name the owner. Upstream's ReplicaSet waits five minutes, and then forever."""
    await world.create_set(2)
    await world.wait_for_sync()
    names = await world.owned()
    world.faults.add(Rule(delay(0.5), verb="delete", resource="pods"))
    await world.scale(1)
    await world.wait_for_sync(0.2)
    for name in names:
        await world.merge(f"{PODS}/{name}", {"metadata": {"ownerReferences": None}})
    await world.wait_for_sync()
    assert len(world.sent("delete", "pods")) == 1
    for item in await world.pods(terminating=True):
        await world.remove(item["metadata"]["name"])
    await world.scale(3)
    await world.wait_for_sync()
    assert len(await world.owned()) == 3


async def test_owner_recreated_during_a_sync_has_no_expectations(world: World) -> None:
    """Expectations of the old owner would not be fulfilled by events of the new one."""
    await world.create_set(1)
    await world.wait_for_sync()
    adoption = world.faults.add(Rule(delay(1.0), verb="patch", resource="pods"))
    await world.create_pod("extra")
    await world.wait_for_sync(0.5)
    await world.request("DELETE", WEB, {"propagationPolicy": "Orphan"})
    await world.merge(WEB, {"metadata": {"finalizers": None}})
    await world.create_set(1)
    await world.wait_for_sync(3.0)
    world.faults.remove(adoption)
    for item in await world.pods(terminating=True):
        await world.remove(item["metadata"]["name"])
    await world.scale(3)
    await world.wait_for_sync(5.0)
    assert (await world.status())["replicas"] == 3


async def test_pod_deleted_during_claiming_is_not_selected_for_deletion(world: World) -> None:
    """Simulation, seed 1351: the deletion of a pod without an owner was awaited."""
    await world.create_set(2)
    await world.wait_for_sync()
    names = await world.owned()
    adoption = world.faults.add(Rule(delay(1.0), verb="patch", resource="pods", times=1))
    await world.create_pod("extra")
    await world.scale(0)
    await world.wait_for_sync(0.5)
    for name in names:
        await world.merge(f"{PODS}/{name}", {"metadata": {"ownerReferences": None, "labels": {"app": "free"}}})
    await world.wait_for_sync(5.0)
    assert adoption.hits == 1
    assert {item["metadata"]["name"] for item in await world.pods()} == set(names), "free is free"
