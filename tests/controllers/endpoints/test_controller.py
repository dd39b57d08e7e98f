"""The controller on the embedded API server, in virtual time, with and without faults.

In the end endpoints converge.
"""

import asyncio
from typing import Any

import pytest
from tests.controllers.endpointslice.test_controller import SERVICES, SPEC, pod, report
from tests.controllers.node_world import NODES, PODS, World

from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, lose_request
from pilothouse.controllers.network.endpoints import DESCRIPTOR, EndpointsOptions

Doc = dict[str, Any]
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
WEB = f"{ENDPOINTS}/web"


async def start(world: World, **options: Any) -> None:
    if await world.get(f"{NODES}/n1") is None:
        await world.node("n1")
    await world.start(DESCRIPTOR, EndpointsOptions(**options))


async def create(world: World, **spec: Any) -> None:
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": {**SPEC, **spec}})


async def addresses_of(world: World) -> list[tuple[str, bool]]:
    subsets = (await world.must_get(WEB)).get("subsets") or []
    return sorted(
        (address["targetRef"]["name"], ready)
        for subset in subsets
        for name, ready in (("addresses", True), ("notReadyAddresses", False))
        for address in subset.get(name) or ()
    )


async def test_service_gets_its_endpoints(world: World) -> None:
    await start(world)
    await create(world)
    await asyncio.sleep(1)
    assert await addresses_of(world) == []
    await pod(world, 1)
    await pod(world, 2, ready=False)
    await pod(world, 3, app="other")
    await asyncio.sleep(5)
    assert await addresses_of(world) == [("p1", True), ("p2", False)]
    [subset] = (await world.must_get(WEB))["subsets"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert subset["addresses"][0]["nodeName"] == "n1"
    await report(world, 2, ready=True)
    await asyncio.sleep(1)
    assert await addresses_of(world) == [("p1", True), ("p2", True)]
    await world.delete(f"{PODS}/p1", grace=0)
    await asyncio.sleep(1)
    assert await addresses_of(world) == [("p2", True)]
    before = len(world.requests())
    await world.merge(f"{PODS}/p2", {"metadata": {"annotations": {"some": "thing"}}})
    await asyncio.sleep(60)
    assert len(world.requests()) == before, "nothing is written that says nothing new"
    await world.delete(f"{SERVICES}/web")
    await asyncio.sleep(1)
    assert await world.get(WEB) is None


async def test_deleted_endpoints_are_recreated_unless_the_service_has_no_selector(world: World) -> None:
    """TestEndpointsDeletionEvents; kubernetes#105986."""
    await start(world)
    await create(world)
    await world.request("POST", SERVICES, {"metadata": {"name": "mine"}, "spec": {"ports": [{"port": 80}]}})
    await world.request("POST", ENDPOINTS, {"metadata": {"name": "mine"}, "subsets": []})
    await pod(world, 1)
    await asyncio.sleep(1)
    await world.delete(WEB)
    await asyncio.sleep(1)
    assert await addresses_of(world) == [("p1", True)]
    assert await world.get(f"{ENDPOINTS}/mine") is not None
    assert not [line for line in world.requests() if line.endswith("mine")]


async def test_leftover_endpoints_are_deleted_at_startup_except_leader_election_locks(world: World) -> None:
    """``checkLeftoverEndpoints``."""
    leader = {"control-plane.alpha.kubernetes.io/leader": "{}"}
    await world.request("POST", ENDPOINTS, {"metadata": {"name": "left"}})
    await world.request("POST", ENDPOINTS, {"metadata": {"name": "lock", "annotations": leader}})
    await start(world)
    await world.request("POST", ENDPOINTS, {"metadata": {"name": "later"}})
    await asyncio.sleep(5)
    names = [item["metadata"]["name"] for item in (await world.must_get(ENDPOINTS))["items"]]
    assert names == ["later", "lock"]


async def test_sync_waits_for_its_own_write_in_the_cache(world: World) -> None:
    """TestMultiplePodChanges: otherwise the second change would look like none."""
    await start(world)
    await create(world)
    await pod(world, 1)
    await asyncio.sleep(5)
    with world.faults.hold(resource="endpoints"):
        await report(world, 1, ready=False)
        await asyncio.sleep(1)
        assert await addresses_of(world) == [("p1", False)]
        await report(world, 1, ready=True)
        await asyncio.sleep(1)
        assert await addresses_of(world) == [("p1", False)]
    await asyncio.sleep(5)
    assert await addresses_of(world) == [("p1", True)]


async def test_recreated_service_gets_endpoints_with_a_stale_cache(world: World) -> None:
    """TestMultipleServiceChanges."""
    await start(world)
    await create(world)
    await pod(world, 1)
    await asyncio.sleep(5)
    with world.faults.hold(resource="endpoints"):
        await world.delete(f"{SERVICES}/web")
        await asyncio.sleep(1)
        assert await world.get(WEB) is None
        await create(world)
        await asyncio.sleep(1)
    await asyncio.sleep(5)
    assert await addresses_of(world) == [("p1", True)]


async def test_service_labels_replace_endpoints_labels(world: World) -> None:
    """TestSyncEndpointsItemsPreexistingLabelsChange."""
    await start(world)
    await create(world)
    await pod(world, 1)
    await asyncio.sleep(5)
    await world.merge(WEB, {"metadata": {"labels": {"somebody": "else"}}})
    await world.merge(f"{SERVICES}/web", {"metadata": {"labels": {"foo": "bar"}}})
    await asyncio.sleep(5)
    labels = (await world.must_get(WEB))["metadata"]["labels"]
    assert labels.pop("endpoints.kubernetes.io/managed-by") == "endpoint-controller"
    assert labels == {"foo": "bar"}


async def test_external_name_service_has_no_endpoints(world: World) -> None:
    """TestSyncServiceExternalNameType."""
    await start(world)
    await create(world, type="ExternalName", externalName="example.com")
    await pod(world, 1)
    await asyncio.sleep(60)
    assert await world.get(WEB) is None


async def test_pod_changes_are_batched(world: World) -> None:
    """TestPodAddsBatching, TestPodUpdatesBatching, TestPodDeleteBatching: three of each in one batch."""
    await start(world, batch_seconds=1.0)
    await create(world)
    await asyncio.sleep(10)
    for number in range(3):
        await pod(world, number)
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)
    assert await addresses_of(world) == [(f"p{number}", True) for number in range(3)]
    for number in range(3):
        await report(world, number, ready=False)
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)
    assert await addresses_of(world) == [(f"p{number}", False) for number in range(3)]
    for number in range(3):
        await world.delete(f"{PODS}/p{number}", grace=0)
        await asyncio.sleep(0.1)
    await asyncio.sleep(3)
    assert await addresses_of(world) == []
    assert world.requests().count("update endpoints web") == 3, "one for each batch"


async def test_failures_emit_events(world: World) -> None:
    await start(world)
    world.faults.add(Rule(fail(500), verb="create", resource="endpoints", times=1))
    await create(world)
    await asyncio.sleep(1)
    [text] = await world.events("FailedToCreateEndpoint")
    assert text.startswith("Endpoints/web Failed to create endpoint for service default/web: ")
    await pod(world, 1)
    world.faults.add(Rule(fail(500), verb="update", resource="endpoints", times=1))
    await report(world, 1, ready=False)
    await asyncio.sleep(5)
    [text] = await world.events("FailedToUpdateEndpoint")
    assert text.startswith("Endpoints/web Failed to update endpoint default/web: ")
    assert await addresses_of(world) == [("p1", False)]


FAULTS: dict[str, tuple[Any, Doc]] = {
    "conflicts": (conflict(), {"verb": "update", "probability": 0.4}),
    "failing writes": (fail(500), {"verb": "write", "probability": 0.4}),
    "lost answers": (lose_answer(), {"verb": "write", "probability": 0.3}),
    "lost requests": (lose_request(), {"verb": "write", "probability": 0.3}),
    "slow watches": (delay(0.1, 4.0), {"verb": "watch"}),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_endpoints_converge_under_faults(world: World, fault: str, seed: int) -> None:
    await start(world)
    action, which = FAULTS[fault]
    world.faults.add(Rule(action, **which))
    await create(world)
    for number in range(5):
        await pod(world, number)
    for turn in range(12):
        await report(world, turn % 5, ready=turn % 2 == 0)
        await asyncio.sleep(0.3)
    await world.delete(f"{PODS}/p4", grace=0)
    await asyncio.sleep(60)
    ready = {f"p{number}": True for number in range(4)}
    for turn in range(12):
        if turn % 5 < 4:
            ready[f"p{turn % 5}"] = turn % 2 == 0
    assert await addresses_of(world) == sorted(ready.items())
    world.faults.clear()
    before = len(world.requests())
    await asyncio.sleep(300)
    assert len(world.requests()) == before, "quiet in the end"
