"""The controller on the embedded API server, in virtual time: requests, delays, cleanup, metrics, rights, faults."""

import asyncio
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World, started
from tests.controllers.resourcepoolstatusrequest.pools import (
    CLAIM_SPEC,
    CLAIMS,
    DRIVER,
    GATES,
    REQUESTS,
    SLICES,
    allocation,
    slice_doc,
)
from tests.tables import cases

from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Action, Rule, conflict, fail, lose_answer
from pilothouse.controllers.devices.resourcepoolstatusrequest import DESCRIPTOR
from pilothouse.env import Env

PREFIX = "resourcepoolstatusrequest_controller_request"
PROCESSED = f"{PREFIX}s_processed_total"
ERRORS = f"{PREFIX}_processing_errors_total"
DURATION = f"{PREFIX}_processing_duration_seconds"
RESOURCE = "resourcepoolstatusrequests"
WRITE = f"update {RESOURCE}/status"
HOUR = 3600.0


world = started(DESCRIPTOR, server=GATES)


async def create_request(world: World, name: str = "r", **spec: Any) -> None:
    await world.request("POST", REQUESTS, {"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}})


async def status(world: World, name: str = "r") -> Doc | None:
    return (await world.must_get(f"{REQUESTS}/{name}")).get("status")


async def names(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.must_get(REQUESTS))["items"]]


async def publish(world: World, name: str, *more: Any, **kinds: Any) -> None:
    await world.request("POST", SLICES, slice_doc(name, *more, **kinds))


async def take(world: World, name: str, *devices: str) -> None:
    """A claim gets these devices."""
    await world.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": CLAIM_SPEC})
    await world.merge(f"{CLAIMS}/{name}/status", {"status": {"allocation": allocation(*devices)}})


async def test_status_is_written_in_one_update(world: World) -> None:
    await publish(world, "b", "pool-2", 8, node="node-2")
    await publish(world, "a", taints={3: "NoSchedule"})
    await publish(world, "c", "pool-3", driver="other.example.com")
    await take(world, "claim", "device-0", "device-1")
    await asyncio.sleep(1)
    await create_request(world)
    await asyncio.sleep(1)
    pool_status = await status(world)
    assert pool_status is not None
    assert pool_status["poolCount"] == 2
    assert [(p["poolName"], p["nodeName"], p["totalDevices"]) for p in pool_status["pools"]] == [
        ("pool-1", "node-1", 4),
        ("pool-2", "node-2", 8),
    ]
    one = pool_status["pools"][0]
    assert (one["allocatedDevices"], one["unavailableDevices"], one["availableDevices"]) == (2, 1, 1)
    (condition,) = pool_status["conditions"]
    assert (condition["type"], condition["status"]) == ("Complete", "True")
    assert world.requests() == [f"{WRITE} r"]
    assert world.metrics.value(PROCESSED, DRIVER) == 1
    assert world.metrics.value(ERRORS, DRIVER) == 0
    assert world.metrics.value(DURATION, DRIVER) == 1


async def test_pool_name_and_limit_filter_pools(world: World) -> None:
    for number in range(3):
        await publish(world, f"s{number}", f"pool-{number}")
    await asyncio.sleep(1)
    await create_request(world, "named", poolName="pool-1")
    await create_request(world, "limited", limit=2)
    await create_request(world, "nothing", poolName="pool-9")
    await asyncio.sleep(1)
    limited = {}
    for name in ("named", "limited", "nothing"):
        pool_status = await status(world, name)
        assert pool_status is not None
        limited[name] = (pool_status["poolCount"], [pool["poolName"] for pool in pool_status.get("pools", ())])
    assert limited == {"named": (1, ["pool-1"]), "limited": (3, ["pool-0", "pool-1"]), "nothing": (0, [])}


async def test_requests_existing_at_startup_are_processed(env: Env) -> None:
    async with node_world.world(env, server=GATES) as world:
        await publish(world, "a")
        await create_request(world)
        await world.start(DESCRIPTOR)
        await asyncio.sleep(1)
        assert await status(world) is not None


async def test_completed_request_is_not_processed_again(world: World) -> None:
    await create_request(world)
    await asyncio.sleep(1)
    pool_status = await status(world)
    await publish(world, "a")
    await world.merge(f"{REQUESTS}/r", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(60)
    assert await status(world) == pool_status
    assert world.requests() == [f"{WRITE} r"]


async def test_incomplete_pool_is_retried_then_reported(world: World) -> None:
    await publish(world, "a", expected=2)
    await publish(world, "b", "pool-2")
    await asyncio.sleep(1)
    await create_request(world)
    await asyncio.sleep(0.1)
    assert await status(world) is None
    assert world.requests() == []
    await asyncio.sleep(1)
    pool_status = await status(world)
    assert pool_status is not None
    limited, whole = pool_status["pools"]
    assert limited == {
        "driver": DRIVER,
        "poolName": "pool-1",
        "generation": 1,
        "nodeName": "node-1",
        "validationError": f"pool {DRIVER}/pool-1 is incomplete: observed 1/2 slices at generation 1",
    }
    assert whole["totalDevices"] == 4
    assert pool_status["conditions"][0]["message"] == "Calculated status for 2 pools (1 incomplete)"
    assert world.requests() == [f"{WRITE} r"]
    assert world.metrics.value(ERRORS, DRIVER) == 0


async def test_missing_slice_arriving_in_time_completes_the_pool(world: World) -> None:
    await publish(world, "a", expected=2)
    await asyncio.sleep(1)
    await create_request(world)
    await asyncio.sleep(0.05)
    await publish(world, "b", expected=2)
    await asyncio.sleep(1)
    pool_status = await status(world)
    assert pool_status is not None
    assert pool_status["pools"][0]["totalDevices"] == 8


@cases(
    "fault",
    {
        "the server fails": fail(500),
        "conflict": conflict(),
        "the answer is lost": lose_answer(),
    },
)
async def test_failed_status_update_is_retried(world: World, fault: Action) -> None:
    await publish(world, "a")
    await asyncio.sleep(1)
    world.faults.add(Rule(fault, verb="update", resource=RESOURCE, nth=1))
    await create_request(world)
    await asyncio.sleep(5)
    pool_status = await status(world)
    assert pool_status is not None
    assert pool_status["poolCount"] == 1
    assert world.metrics.value(ERRORS, DRIVER) >= 1


async def test_status_written_by_another_manager_is_not_overwritten(world: World) -> None:
    """Two managers for a moment: the cache of this one does not show what the other one has written."""
    await publish(world, "a", expected=2)
    await asyncio.sleep(1)
    await create_request(world)
    await asyncio.sleep(0.05)
    with world.faults.hold(resource=RESOURCE):
        await world.merge(f"{REQUESTS}/r/status", {"status": {"poolCount": 7}})
        await asyncio.sleep(5)
        assert world.requests()[0] == f"{WRITE} r"
    await asyncio.sleep(5)
    assert await status(world) == {"poolCount": 7}


async def test_completed_requests_expire_after_an_hour_and_pending_after_a_day(env: Env) -> None:
    async with node_world.world(env, server=GATES) as world:
        await create_request(world, "answered")
        task = await world.start(DESCRIPTOR)
        await asyncio.sleep(1)
        world.faults.add(Rule(fail(500), verb="update", resource=RESOURCE))
        await create_request(world, "unanswered")
        await asyncio.sleep(HOUR - 10)
        assert await names(world) == ["answered", "unanswered"]
        await asyncio.sleep(700)
        assert await names(world) == ["unanswered"]
        await asyncio.sleep(22 * HOUR)
        assert await names(world) == ["unanswered"]
        await asyncio.sleep(HOUR + 700)
        assert await names(world) == []
        assert [request for request in world.requests() if request.startswith("delete")] == [
            f"delete {RESOURCE} answered",
            f"delete {RESOURCE} unanswered",
        ]
        task.cancel()


async def test_failed_deletion_does_not_block_others_and_is_retried(env: Env) -> None:
    async with node_world.world(env, server=GATES) as world:
        for name in "ab":
            await create_request(world, name)
        await asyncio.sleep(25 * HOUR)
        world.faults.add(Rule(fail(500), verb="update", resource=RESOURCE))
        world.faults.add(Rule(fail(500), verb="delete", resource=RESOURCE, nth=1))
        await world.start(DESCRIPTOR)
        await asyncio.sleep(1)
        assert await names(world) == ["a"]
        await asyncio.sleep(600)
        assert await names(world) == []


async def test_recreated_request_of_the_same_name_is_not_deleted(env: Env) -> None:
    async with node_world.world(env, server=GATES) as world:
        await create_request(world)
        await world.start(DESCRIPTOR)
        await asyncio.sleep(1)
        with world.faults.hold(resource=RESOURCE):
            await asyncio.sleep(HOUR)
            await world.delete(f"{REQUESTS}/r")
            await create_request(world)
            await asyncio.sleep(600)
            assert f"delete {RESOURCE} r" in world.requests()
        assert await names(world) == ["r"]


async def test_terminating_request_is_not_deleted_again(world: World) -> None:
    metadata = {"name": "r", "finalizers": ["example.com/held"]}
    await world.request("POST", REQUESTS, {"metadata": metadata, "spec": {"driver": DRIVER}})
    await asyncio.sleep(1)
    assert await status(world) is not None
    await asyncio.sleep(3 * HOUR)
    assert [request for request in world.requests() if request.startswith("delete")] == [f"delete {RESOURCE} r"]


async def test_bootstrap_role_is_sufficient(world: World) -> None:
    """As the KEP has it; informers are the manager's own."""
    name = "system:controller:resourcepoolstatusrequest-controller"
    role, _binding = (obj for _resource, obj in bootstrap_objects(GATES.gates) if obj["metadata"]["name"] == name)
    allowed = {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
    await create_request(world)
    await asyncio.sleep(HOUR + 700)
    assert await names(world) == []
    requests = {tuple(request.split()[:2]) for request in world.requests()}
    assert requests == {("update", f"{RESOURCE}/status"), ("delete", RESOURCE)}
    assert requests <= allowed


async def test_feature_gate_of_controller_and_kind(env: Env) -> None:
    assert DESCRIPTOR.gates == ("DRAResourcePoolStatus",)
    async with node_world.world(env) as world:
        with pytest.raises(NotFound):
            await create_request(world)
