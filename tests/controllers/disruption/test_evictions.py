"""Evictions by the API server, and stale DisruptionTarget conditions.

The controller against the embedded API server, in virtual time. Some rows mirror
``pkg/controller/disruption/disruption_test.go`` of v1.36.
"""

import asyncio

import pytest
from tests.controllers.disruption.world import budget, disrupted, evict, note_evicted, pods, status
from tests.controllers.node_world import PODS, World

from pilothouse.client.errors import TooManyRequests
from pilothouse.client.interceptor import Action, Rule, conflict, fail, lose_answer
from pilothouse.machinery.times import format_time


async def test_evictions_do_not_exceed_disruptions_allowed(world: World) -> None:
    await world.node("n1")
    await budget(world, minAvailable=2)
    await pods(world)
    await asyncio.sleep(1)
    await evict(world, "p0", gracePeriodSeconds=30)
    with pytest.raises(TooManyRequests, match="would violate the pod's disruption budget"):
        await evict(world, "p1")
    await asyncio.sleep(1)
    assert await disrupted(world) == []
    assert await status(world) == (0, 2, 2, 3), "one that is being deleted is expected, and not healthy"
    await pods(world, count=1, first=3)
    await asyncio.sleep(1)
    await evict(world, "p1")
    await asyncio.sleep(1)
    assert (await status(world))[0] == 0


async def test_disrupted_pod_entry_expires_after_two_minutes(world: World) -> None:
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    assert await status(world) == (2, 3, 1, 3)
    await note_evicted(world, "p0")
    await asyncio.sleep(118)
    assert await disrupted(world) == ["p0"]
    assert await status(world) == (1, 2, 1, 3)
    await asyncio.sleep(5)
    assert await disrupted(world) == []
    assert await status(world) == (2, 3, 1, 3)
    text = "Pod was expected by PDB default/default to be deleted but it wasn't"
    assert await world.events("NotDeleted") == [f"Pod/p0 {text}"]


async def test_disrupted_pod_entry_is_removed_with_the_pod(world: World) -> None:
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    await note_evicted(world, "not there")
    await asyncio.sleep(1)
    assert await disrupted(world) == []
    assert await status(world) == (2, 3, 1, 3)


async def test_evicted_pod_still_in_the_cache_is_not_counted(world: World) -> None:
    """The budget's event arrives before the pod's: without the entry in disruptedPods a second eviction would be
    allowed."""
    await world.node("n1")
    await budget(world, minAvailable=2)
    await pods(world)
    await asyncio.sleep(1)
    with world.faults.hold(resource="pods"):
        await evict(world, "p0")
        await asyncio.sleep(5)
        assert await status(world) == (0, 2, 2, 3)
        assert await disrupted(world) == ["p0"]
        with pytest.raises(TooManyRequests):
            await evict(world, "p1")
    await asyncio.sleep(1)
    assert await disrupted(world) == []


async def test_status_update_does_not_overwrite_concurrent_evictions(world: World) -> None:
    """TestUpdatePDBStatusRetries: with a stale cache."""
    await world.node("n1")
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    assert (await status(world))[0] == 2
    with world.faults.hold(resource="poddisruptionbudgets.policy"):
        await evict(world, "p1")
        await evict(world, "p2")
        await world.delete(f"{PODS}/p0", grace=0)
        await asyncio.sleep(1)
        assert (await status(world))[0] == 0
    await asyncio.sleep(2)
    assert await status(world) == (0, 0, 1, 2)


# Stale conditions


async def mark(world: World, name: str, reason: str = "EvictionByEvictionAPI") -> None:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": "Eviction API: evicting",
        "lastTransitionTime": format_time(world.env.now()),
    }
    body = {"status": {"conditions": [condition]}}
    await world.request("PATCH", f"{PODS}/{name}/status", body, "application/strategic-merge-patch+json")


async def test_stale_disruption_target_condition_is_reset(world: World) -> None:
    """TestStalePodDisruption."""
    await pods(world)
    await mark(world, "p0")
    await mark(world, "p1", "TerminationByKubelet")
    await asyncio.sleep(118)
    assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"
    await asyncio.sleep(4)
    result = (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]
    assert result["status"] == "False"
    assert "reason" not in result
    assert "message" not in result
    assert sorted(await world.conditions(f"{PODS}/p0")) == ["DisruptionTarget", "Ready"]
    assert (await world.conditions(f"{PODS}/p1"))["DisruptionTarget"]["status"] == "True"
    await asyncio.sleep(3600)
    assert world.requests() == ["patch pods/status p0"]


async def test_terminating_pod_keeps_its_disruption_target_condition(world: World) -> None:
    await world.node("n1")
    await pods(world)
    await mark(world, "p0")
    await world.delete(f"{PODS}/p0", grace=3000)
    await asyncio.sleep(300)
    assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"


async def test_renewed_disruption_target_condition_is_not_reset_early(world: World) -> None:
    """The cache has the stale condition; the patch has its resourceVersion and is rejected."""
    await pods(world)
    await mark(world, "p0")
    await asyncio.sleep(100)
    with world.faults.hold(resource="pods"):
        await world.merge(f"{PODS}/p0/status", {"status": {"conditions": []}})
        await mark(world, "p0")
        await asyncio.sleep(60)
        assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"
    await asyncio.sleep(50)
    assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "True"
    await asyncio.sleep(30)
    assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "False"
    assert world.requests().count("patch pods/status p0") > 1


@pytest.mark.parametrize("action", [fail(500), conflict(), lose_answer()], ids=["500", "409", "the answer is lost"])
async def test_failed_condition_reset_is_retried(world: World, action: Action) -> None:
    rule = Rule(action, verb="patch", resource="pods", times=2)
    world.faults.add(rule)
    await pods(world)
    await mark(world, "p0")
    await asyncio.sleep(130)
    assert rule.hits
    assert (await world.conditions(f"{PODS}/p0"))["DisruptionTarget"]["status"] == "False"
