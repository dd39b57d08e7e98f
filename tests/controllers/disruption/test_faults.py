"""Failed writes, broken watches, deleted budgets and restarts.

The controller against the embedded API server, in virtual time.
"""

import asyncio

import pytest
from tests.controllers.disruption.world import (
    APPS,
    PDBS,
    UPDATE,
    budget,
    condition,
    define,
    disrupted,
    note_evicted,
    pods,
    status,
    widget,
    workload,
)
from tests.controllers.node_world import PODS, World
from tests.tables import cases

from pilothouse.client.interceptor import Action, Rule, conflict, fail, gone, lose_answer, lose_request, time_out
from pilothouse.controllers.policy.disruption import DESCRIPTOR


@cases(
    "action",
    {
        "409": conflict(),
        "500": fail(500),
        "429": fail(429),
        "the request is lost": lose_request(),
        "the answer is lost": lose_answer(),
        "time-out": time_out(sent=True),
    },
)
@pytest.mark.parametrize("times", [1, 3])
async def test_failed_status_update_is_retried(world: World, action: Action, times: int) -> None:
    rule = Rule(action, verb="update", resource="poddisruptionbudgets.policy", times=times)
    world.faults.add(rule)
    await budget(world, minAvailable=2)
    await pods(world)
    await asyncio.sleep(120)
    assert await status(world) == (1, 3, 2, 3)
    assert (await condition(world))["reason"] == "SufficientPods"
    assert rule.hits == times
    requests = len(world.requests())
    await asyncio.sleep(3600)
    assert len(world.requests()) == requests


async def test_failed_scale_lookup_allows_no_disruptions_until_it_succeeds(world: World) -> None:
    await define(world, scale=True)
    owner = await widget(world)
    rule = Rule(fail(503), verb="get", resource="widgets.example.com", times=12)
    world.faults.add(rule)
    await budget(world, maxUnavailable=9)
    await pods(world, owner)
    await asyncio.sleep(1)
    disruption_allowed = await condition(world)
    assert (disruption_allowed["reason"], disruption_allowed["status"]) == ("SyncFailed", "False")
    assert (await status(world))[0] == 0
    await asyncio.sleep(1200)
    assert rule.hits == 12
    assert await status(world) == (2, 3, 1, 10), "no event of a pod was needed"


async def test_budget_deleted_during_its_update_is_no_error(world: World) -> None:
    await budget(world, minAvailable=2)
    await pods(world)
    await asyncio.sleep(1)
    with world.faults.hold(resource="poddisruptionbudgets.policy"):
        await world.delete(f"{PDBS}/web")
        await world.delete(f"{PODS}/p0", grace=0)
        await asyncio.sleep(60)
        assert world.requests().count(UPDATE) <= 6
    await asyncio.sleep(1)
    assert world.metrics.value("pilothouse_reconcile_errors_total") == 0


async def test_recreated_budget_of_the_same_name_is_a_new_one(world: World) -> None:
    await budget(world, minAvailable=2)
    await pods(world)
    await asyncio.sleep(1)
    with world.faults.hold(resource="poddisruptionbudgets.policy"):
        await world.delete(f"{PDBS}/web")
        await budget(world, minAvailable=3)
        await world.delete(f"{PODS}/p0", grace=0)
        await asyncio.sleep(10)
        assert "observedGeneration" not in (await world.must_get(f"{PDBS}/web"))["status"] or (await status(world)) == (
            0,
            0,
            0,
            0,
        )
    await asyncio.sleep(20)
    assert await status(world) == (0, 2, 3, 2)


@pytest.mark.parametrize("resource", ["pods", "poddisruptionbudgets.policy", "replicasets.apps"])
async def test_no_event_is_lost_when_watches_expire(world: World, resource: str) -> None:
    owner = await workload(world, "replicasets", "ReplicaSet", 3)
    await budget(world, maxUnavailable=1)
    await pods(world, owner)
    await asyncio.sleep(1)
    with world.faults.hold(resource=resource):
        await world.merge(f"{APPS}/replicasets/web", {"spec": {"replicas": 2}})
        await world.delete(f"{PODS}/p0", grace=0)
        await note_evicted(world, "p1")
        await asyncio.sleep(1)
        world.faults.end_watches(resource=resource, with_=gone())
    await asyncio.sleep(200)
    assert await status(world) == (1, 2, 1, 2)


async def test_restarted_controller_continues(world: World) -> None:
    first = await world.start(DESCRIPTOR)
    await budget(world, minAvailable=1)
    await pods(world)
    await asyncio.sleep(1)
    first.cancel()
    await asyncio.sleep(1)
    await note_evicted(world, "p0")
    await world.delete(f"{PODS}/p1", grace=0)
    await asyncio.sleep(60)
    await world.start(DESCRIPTOR)
    await asyncio.sleep(1)
    assert await status(world) == (0, 1, 1, 2)
    await asyncio.sleep(70)
    assert await status(world) == (1, 2, 1, 2)
    await asyncio.sleep(1)
    assert await disrupted(world) == []
