"""Rolling updates respect their bounds at every step, and revision history keeps what rollbacks need."""

from typing import Any

import pytest
from tests.controllers.api_world import REVISIONS
from tests.controllers.daemonset.world import AGENT, SETS, World, controlled

from pilothouse.env import Env

Doc = dict[str, Any]


def serving(pods: list[Doc]) -> list[str]:
    """The nodes with a ready pod that is not terminating."""
    return [
        pod["spec"].get("nodeName", "")
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions", ())
        )
    ]


@pytest.mark.parametrize(
    ("bound", "allowed"), [(1, 1), (2, 2), ("30%", 2), ("100%", 5)], ids=["1", "2", "30% of 5", "100%"]
)
async def test_rolling_update_respects_max_unavailable(env: Env, bound: int | str, allowed: int) -> None:
    async with controlled(env, nodes=5) as world:
        await world.create_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": bound}})
        await world.wait_for_sync()
        fewest = 5

        def check(pods: list[Doc]) -> None:
            nonlocal fewest
            fewest = min(fewest, len(set(serving(pods))))
            per_node = [pod["spec"].get("nodeName", pod["metadata"]["name"]) for pod in pods]
            assert len(per_node) == len(set(per_node)), "one pod per node"

        world.checks.append(check)
        await world.set_image("pause:2")
        await world.wait_for_sync(20)
        assert await world.images() == ["pause:2"] * 5
        assert fewest == 5 - allowed
        assert [number for _hash, number in await world.revisions()] == [1, 2]
        status = await world.status()
        assert (status["updatedNumberScheduled"], status["numberAvailable"]) == (5, 5)


@pytest.mark.parametrize(("bound", "allowed"), [(1, 1), (2, 2), ("50%", 3)], ids=["1", "2", "50% of 5"])
async def test_surge_keeps_an_available_pod_on_every_node(env: Env, bound: int | str, allowed: int) -> None:
    async with controlled(env, nodes=5) as world:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": bound}}
        await world.create_set(updateStrategy=strategy)
        await world.wait_for_sync()
        most = 0

        def check(pods: list[Doc]) -> None:
            nonlocal most
            assert sorted(set(serving(pods))) == ["n0", "n1", "n2", "n3", "n4"]
            live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            most = max(most, len(live) - 5)

        world.checks.append(check)
        await world.set_image("pause:2")
        await world.wait_for_sync(20)
        assert await world.images() == ["pause:2"] * 5
        assert most == allowed


async def test_update_to_unready_pods_stops_at_max_unavailable(env: Env) -> None:
    async with controlled(env, nodes=5) as world:
        await world.create_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}})
        await world.wait_for_sync()
        world.ready = False
        await world.set_image("broken:1")
        await world.wait_for_sync(60)
        assert await world.images() == ["broken:1"] * 2 + ["pause:1"] * 3
        world.ready = True
        await world.set_image("pause:3")
        await world.wait_for_sync(20)
        assert await world.images() == ["pause:3"] * 5


async def test_update_waits_for_min_ready_seconds(world: World) -> None:
    await world.create_set(minReadySeconds=30)
    await world.wait_for_sync(40)
    assert (await world.status())["numberAvailable"] == 3
    await world.set_image("pause:2")
    await world.wait_for_sync(10)
    status = await world.status()
    assert (status["numberReady"], status.get("numberAvailable", 0)) == (3, 2)
    await world.wait_for_sync(50)
    assert sorted(await world.images()) != ["pause:2"] * 3
    await world.wait_for_sync(60)
    assert await world.images() == ["pause:2"] * 3
    assert (await world.status())["numberAvailable"] == 3


async def test_on_delete_replaces_pods_deleted_by_a_user(world: World) -> None:
    await world.create_set(updateStrategy={"type": "OnDelete"})
    await world.wait_for_sync()
    await world.set_image("pause:2")
    await world.wait_for_sync(20)
    assert await world.images() == ["pause:1"] * 3
    status = await world.status()
    assert status["observedGeneration"] == 2
    assert "updatedNumberScheduled" not in status
    victim = (await world.pods())[0]["metadata"]["name"]
    await world.remove(victim)
    await world.wait_for_sync()
    assert await world.images() == ["pause:1", "pause:1", "pause:2"]


async def test_rollback_gives_the_old_revision_the_highest_number(world: World) -> None:
    """As recorded (04b): no new revision, the older one gets the next number."""
    await world.create_set()
    await world.wait_for_sync()
    (first, _one), *_rest = await world.revisions()
    await world.set_image("pause:2")
    await world.wait_for_sync(20)
    await world.set_image("pause:1")
    await world.wait_for_sync(20)
    assert [number for _hash, number in await world.revisions()] == [2, 3]
    assert (await world.revisions())[-1][0] == first
    assert len(world.sent("create", "controllerrevisions")) == 2
    assert len(world.sent("update", "controllerrevisions")) == 1


async def test_history_limit_keeps_revisions_in_use(world: World) -> None:
    await world.create_set(revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})
    await world.wait_for_sync()
    (carried, _number), *_rest = await world.revisions()
    for number in range(2, 6):
        await world.set_image(f"pause:{number}")
        await world.wait_for_sync()
    remaining = [number for _hash, number in await world.revisions()]
    assert remaining == [1, 5]
    assert (await world.revisions())[0][0] == carried
    for pod in await world.pods():
        await world.remove(pod["metadata"]["name"])
    await world.wait_for_sync(10)
    await world.set_image("pause:6")
    await world.wait_for_sync()
    assert [number for _hash, number in await world.revisions()] == [5, 6]


async def test_revision_name_collision_increments_the_collision_count(world: World) -> None:
    """A hash collision: an existing revision has the name of the new one."""
    await world.create_set("other", updateStrategy={"type": "OnDelete"})
    await world.wait_for_sync()
    await world.create_set()
    await world.wait_for_sync()
    hashes = {
        item["metadata"]["name"]: item["metadata"]["labels"]["controller-revision-hash"]
        for item in (await world.request("GET", REVISIONS))["items"]
    }
    name = next(hashe for hashe in hashes if hashe.startswith("agent-"))
    await world.request("DELETE", AGENT)
    for item in hashes:
        if item == name:
            await world.request("DELETE", f"{REVISIONS}/{item}")
    for pod in await world.pods():
        await world.remove(pod["metadata"]["name"])
    body = {"metadata": {"name": name, "labels": {"app": "mine"}}, "data": {"x": 1}, "revision": 1}
    await world.request("POST", REVISIONS, body)
    await world.create_set()
    await world.wait_for_sync(5)
    assert (await world.status())["collisionCount"] == 1
    assert (await world.status())["numberReady"] == 3
    again = [
        item["metadata"]["name"]
        for item in (await world.request("GET", REVISIONS))["items"]
        if item["metadata"]["name"].startswith("agent-")
    ]
    assert len(again) == 2


async def test_duplicate_revisions_are_deduplicated(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    obj = (await world.request("GET", REVISIONS))["items"][0]
    twin = {
        "metadata": {
            "name": "agent-twin",
            "labels": {"app": "agent", "controller-revision-hash": "twin"},
            "ownerReferences": obj["metadata"]["ownerReferences"],
        },
        "data": obj["data"],
        "revision": 9,
    }
    await world.request("POST", REVISIONS, twin)
    await world.merge(f"{SETS}/agent", {"metadata": {"annotations": {"wake": "up"}}})
    await world.wait_for_sync()
    assert await world.revisions() == [("twin", 9)]
    assert {pod["metadata"]["labels"]["controller-revision-hash"] for pod in await world.pods()} == {"twin"}
    assert len(world.sent("delete", "pods")) == 0


async def test_missing_revision_hash_label_is_set_from_the_name(world: World) -> None:
    await world.create_set()
    await world.wait_for_sync()
    (name, _number), *_rest = await world.revisions()
    labels = {"metadata": {"labels": {"controller-revision-hash": None}}}
    await world.merge(f"{REVISIONS}/agent-{name}", labels)
    await world.wait_for_sync()
    assert await world.revisions() == [(f"agent-{name}", 1)]
