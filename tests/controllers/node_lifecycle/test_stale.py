"""A stale cache does not evict the pods of a ready node."""

import asyncio

import pytest
from tests.controllers.node_world import HEALTHY, NODES, PODS, World

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR

DOWN = {**HEALTHY, "Ready": "False"}
TAINT = "not-ready:NoExecute"


@pytest.fixture
async def world(world: World) -> World:
    for name in ("n1", "n2", "n3", "n4"):
        await world.node(name)
    await world.start(DESCRIPTOR)
    await asyncio.sleep(1)
    return world


async def test_ready_node_in_a_stale_cache_is_not_tainted(world: World) -> None:
    """It is taken from the queue while it is still not ready in the cache."""
    for name in ("n1", "n2"):
        await world.report_node(name, DOWN)
    await asyncio.sleep(6)
    assert [TAINT in await world.taints(name) for name in ("n1", "n2")] == [True, False], "the second one waits"
    with world.faults.hold(resource="nodes"):
        await world.report_node("n2", HEALTHY)
        await asyncio.sleep(20)
        assert TAINT not in await world.taints("n2")
    assert world.metrics.value("node_collector_evictions_total", "") == 1


async def test_stale_condition_does_not_swap_the_taint(world: World) -> None:
    await world.report_node("n1", DOWN)
    await asyncio.sleep(6)
    assert TAINT in await world.taints("n1")
    with world.faults.hold(resource="nodes"):
        await world.report_node("n1", {**HEALTHY, "Ready": "Unknown"})
    with world.faults.hold(resource="nodes"):
        await world.report_node("n1", DOWN)
        await asyncio.sleep(6)
        assert TAINT in await world.taints("n1")
        assert "unreachable:NoExecute" not in await world.taints("n1")


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "not ready"])
async def test_new_pod_is_marked_only_if_its_node_is_not_ready_now(world: World, ready: bool) -> None:
    await world.report_node("n1", DOWN)
    await asyncio.sleep(6)
    with world.faults.hold(resource="nodes"):
        if ready:
            await world.report_node("n1", HEALTHY)
        with world.faults.hold(resource="pods"):
            await world.pod("late", node="n1", ready=True)
        await asyncio.sleep(1)
        assert (await world.conditions(f"{PODS}/late"))["Ready"]["status"] == str(ready)


async def test_retry_of_marking_pods_is_skipped_for_a_recovered_node(world: World) -> None:
    await world.pod("p", node="n1", ready=True)
    rule = world.faults.add(Rule(fail(500), verb="update", resource="pods"))
    for _ in range(7):
        for name in ("n2", "n3", "n4"):
            await world.renew(name)
        await asyncio.sleep(10)
    assert (await world.must_get(f"{NODES}/n1"))["status"]["conditions"][0]["status"] == "Unknown"
    with world.faults.hold(resource="nodes"):
        await world.report_node("n1", HEALTHY)
        world.faults.remove(rule)
        await asyncio.sleep(11)
        assert (await world.conditions(f"{PODS}/p"))["Ready"]["status"] == "True"
