"""The controller on the embedded API server, in virtual time, with and without faults.

In the end endpoints converge.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import NODES, PODS, World, fixture_of
from tests.controllers.remains import remains

from pilothouse.apiserver import ServerOptions
from pilothouse.client.interceptor import (
    Action,
    Rule,
    conflict,
    delay,
    delay_answer,
    fail,
    lose_answer,
    lose_request,
    time_out,
)
from pilothouse.controllers.network.endpointslice import DESCRIPTOR, EndpointSliceOptions
from pilothouse.env import Env
from pilothouse.machinery.times import format_time

SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SPEC: dict[str, Any] = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}


@contextlib.asynccontextmanager
async def slicing(env: Env, *, server: ServerOptions | None = None, **options: Any) -> AsyncIterator[World]:
    async with node_world.world(env, server) as world:
        await world.node("n1", labels={"topology.kubernetes.io/zone": "a"})
        await world.start(DESCRIPTOR, EndpointSliceOptions(**options))
        yield world


world = fixture_of(slicing)


async def pod(world: World, number: int, *, ready: bool = True, app: str = "web", node: str = "n1") -> None:
    await world.pod(f"p{number}", node=node, labels={"app": app})
    await report(world, number, ready=ready)


async def report(world: World, number: int, *, ready: bool) -> None:
    at = format_time(world.env.now())
    address = f"10.1.0.{number + 1}"
    status = {
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": at}],
    }
    await world.merge(f"{PODS}/p{number}/status", {"status": status})


async def slices(world: World) -> list[Any]:
    endpoint_slice: list[Any] = (await world.must_get(SLICES))["items"]
    return [item for item in endpoint_slice if item["metadata"]["labels"].get("kubernetes.io/service-name") == "web"]


async def endpoints(world: World) -> list[tuple[str, bool]]:
    return sorted(
        (e["targetRef"]["name"], e["conditions"]["ready"])
        for endpoint_slice in await slices(world)
        for e in endpoint_slice["endpoints"] or ()
    )


async def test_service_gets_a_slice_with_its_pods(world: World) -> None:
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await asyncio.sleep(1)
    assert await endpoints(world) == []
    assert len(await slices(world)) == 1
    await pod(world, 1)
    await pod(world, 2, ready=False)
    await pod(world, 3, app="other")
    await asyncio.sleep(5)
    assert await endpoints(world) == [("p1", True), ("p2", False)]
    [only] = await slices(world)
    assert only["metadata"]["name"].startswith("web-")
    assert only["ports"] == [{"name": "http", "protocol": "TCP", "port": 8080}]
    assert {e["zone"] for e in only["endpoints"]} == {"a"}
    await report(world, 2, ready=True)
    await asyncio.sleep(1)
    assert await endpoints(world) == [("p1", True), ("p2", True)]
    assert world.metrics.value("endpoint_slice_controller_endpoints_desired") == 2
    assert world.metrics.value("endpoint_slice_controller_num_endpoint_slices") == 1


async def test_changed_slices_are_reverted_and_foreign_slices_ignored(world: World) -> None:
    """kubernetes#85353."""
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    foreign = {
        "metadata": {"name": "foreign", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
    await world.request("POST", SLICES, foreign)
    await pod(world, 1)
    await asyncio.sleep(5)
    [own_slices] = [
        endpoint_slice for endpoint_slice in await slices(world) if endpoint_slice["metadata"]["name"] != "foreign"
    ]
    path = f"{SLICES}/{own_slices['metadata']['name']}"
    await world.merge(path, {"endpoints": []})
    await asyncio.sleep(5)
    assert await endpoints(world) == [("p1", True)]
    await world.delete(path)
    await asyncio.sleep(5)
    assert await endpoints(world) == [("p1", True)]
    assert len(await slices(world)) == 2


async def test_deleted_slice_of_an_earlier_process_is_recreated(env: Env) -> None:
    async with node_world.world(env) as world:
        await world.node("n1")
        first = await world.start(DESCRIPTOR)
        await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
        await pod(world, 1)
        await asyncio.sleep(5)
        first.cancel()
        await asyncio.sleep(1)
        await world.start(DESCRIPTOR)
        await asyncio.sleep(5)
        [only] = await slices(world)
        await world.delete(f"{SLICES}/{only['metadata']['name']}")
        await asyncio.sleep(5)
        assert await endpoints(world) == [("p1", True)]


async def test_pod_on_an_unknown_node_emits_an_event_and_is_added_with_the_node(world: World) -> None:
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await pod(world, 1, node="late")
    await asyncio.sleep(5)
    assert await endpoints(world) == []
    assert await world.events("FailedToUpdateEndpointSlices") != []
    await world.node("late")
    await asyncio.sleep(60)
    assert await endpoints(world) == [("p1", True)]


FAILED = "Service/web Error updating Endpoint Slices for Service default/web: "


@pytest.mark.parametrize(
    ("verb", "doing"),
    [("create", "create EndpointSlice"), ("update", "update {} EndpointSlice"), ("delete", "delete {} EndpointSlice")],
)
async def test_failed_write_emits_an_event_with_the_operation(env: Env, verb: str, doing: str) -> None:
    async with slicing(env, max_endpoints=1) as world:
        await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
        for number in range(3):
            await pod(world, number)
        await asyncio.sleep(5)
        names = [endpoint_slice["metadata"]["name"] for endpoint_slice in await slices(world)]
        world.faults.add(Rule(fail(500, "InternalError", "no room"), verb=verb, resource="endpointslices", times=1))
        if verb == "create":
            await pod(world, 7)
        elif verb == "update":
            await report(world, 0, ready=False)
        else:
            await world.merge(f"{PODS}/p0", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(10)
        [messages] = await world.events("FailedToUpdateEndpointSlices")
        tail = " for Service default/web: no room"
        assert messages in [f"{FAILED}failed to {doing.format(name)}{tail}" for name in names]


async def test_error_in_both_address_families_is_reported_once(env: Env) -> None:
    """As upstream's ``aggregate.Error``: without duplicates."""
    async with slicing(env, server=ServerOptions(service_range="10.0.0.0/24,fd00:10::/112")) as world:
        dual = {**SPEC, "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}
        await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": dual})
        for number in (1, 2):
            await pod(world, number, node="late")
        addresses = [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}]
        for number in (1, 2):
            await world.merge(f"{PODS}/p{number}/status", {"status": {"podIPs": addresses}})
        await asyncio.sleep(30)
        skipped = [f"skipping Pod p{number} for Service default/web: Node late Not Found" for number in (1, 2)]
        assert f"{FAILED}[{skipped[0]}, {skipped[1]}]" in await world.events("FailedToUpdateEndpointSlices")


async def test_pod_changes_are_batched(env: Env) -> None:
    async with slicing(env, batch_seconds=10.0) as world:
        await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
        await asyncio.sleep(30)
        before = len(world.requests())
        for number in range(5):
            await pod(world, number)
            await asyncio.sleep(1)
        assert len(world.requests()) == before
        await asyncio.sleep(10)
        assert len(await endpoints(world)) == 5
        assert len(world.requests()) == before + 1


async def test_pod_deletions_are_batched_with_one_write_each(env: Env) -> None:
    """TestPodDeleteBatching, "three deletes in one batch" and "three deletes in two batches"."""
    async with slicing(env, batch_seconds=1.0) as world:
        await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
        for number in range(10):
            await pod(world, number)
        await asyncio.sleep(10)
        before = len(world.requests())
        for number in range(3):
            await world.delete(f"{PODS}/p{number}", grace=0)
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)
        assert len(world.requests()) == before + 1
        for pause, number in ((0.1, 3), (1.0, 4), (3.0, 5)):
            await world.delete(f"{PODS}/p{number}", grace=0)
            await asyncio.sleep(pause)
        assert len(world.requests()) == before + 3
        assert [name for name, _ in await endpoints(world)] == ["p6", "p7", "p8", "p9"]


@pytest.mark.parametrize(
    "spec",
    [
        {"ports": [{"port": 80}]},
        *({"type": "ExternalName", "externalName": "example.com", **rest} for rest in (
            {"selector": {"app": "web"}, "ports": [{"port": 80}]}, {"ports": [{"port": 80}]},
            {"selector": {"app": "web"}}, {},
        )),
    ],
)  # fmt: skip
async def test_services_without_a_selector_or_with_an_external_name_have_no_slices(
    world: World, spec: dict[str, Any]
) -> None:
    """TestSyncServiceNoSelector; TestServiceExternalNameTypeSync."""
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": spec})
    await pod(world, 1)
    await asyncio.sleep(60)
    assert (await world.must_get(SLICES))["items"] == []
    assert world.requests() == []


async def test_terminating_service_gets_no_new_slices_and_existing_ones_are_updated(world: World) -> None:
    """TestSyncServicePendingDeletion; TestReconcilerFinalizeSvcDeletionTimestamp."""
    metadata = {"name": "web", "finalizers": ["example.com/hold"]}
    await world.request("POST", SERVICES, {"metadata": metadata, "spec": SPEC})
    await pod(world, 1)
    await asyncio.sleep(5)
    await world.delete(f"{SERVICES}/web")
    await pod(world, 2)
    await asyncio.sleep(5)
    assert await endpoints(world) == [("p1", True), ("p2", True)]
    [only] = await slices(world)
    await world.delete(f"{SLICES}/{only['metadata']['name']}")
    await asyncio.sleep(60)
    assert await slices(world) == []


async def test_nothing_is_written_for_a_deleted_service(world: World) -> None:
    """TestSyncServiceMissing: its slices are garbage collected."""
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await pod(world, 1)
    await asyncio.sleep(5)
    await world.delete(f"{SERVICES}/web")
    world.seen.clear()
    await report(world, 1, ready=False)
    [only] = await slices(world)
    await world.delete(f"{SLICES}/{only['metadata']['name']}")
    await asyncio.sleep(60)
    assert world.requests() == []
    assert await slices(world) == []


async def test_terminating_slice_is_replaced_and_not_updated(world: World) -> None:
    """TestSyncServiceEndpointSlicePendingDeletion: here it is the service's only slice."""
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await pod(world, 1)
    await asyncio.sleep(5)
    [old] = await slices(world)
    path = f"{SLICES}/{old['metadata']['name']}"
    await world.merge(path, {"metadata": {"finalizers": ["example.com/hold"]}})
    await world.delete(path)
    await pod(world, 2)
    await asyncio.sleep(60)
    [new] = [
        endpoint_slice
        for endpoint_slice in await slices(world)
        if endpoint_slice["metadata"]["uid"] != old["metadata"]["uid"]
    ]
    assert sorted(e["targetRef"]["name"] for e in new["endpoints"]) == ["p1", "p2"]
    assert [e["targetRef"]["name"] for e in (await world.must_get(path))["endpoints"]] == ["p1"]


async def test_slice_deleted_before_its_create_response_is_not_awaited(world: World) -> None:
    world.faults.add(Rule(delay_answer(5.0), verb="create", resource="endpointslices", times=1))
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await asyncio.sleep(1)
    [first] = await slices(world)
    await world.delete(f"{SLICES}/{first['metadata']['name']}")
    await pod(world, 1)
    await asyncio.sleep(60)
    assert await endpoints(world) == [("p1", True)]


async def test_topology_hints_follow_the_annotation_with_events(world: World) -> None:
    await world.node("n2", labels={"topology.kubernetes.io/zone": "b"})
    for name in ("n1", "n2"):
        await world.merge(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": "4"}}})
    # A change of allocatable alone enqueues nothing, as upstream; readiness does.
    await world.report_node("n1", {"Ready": "False"})
    await world.report_node("n1", {"Ready": "True"})
    annotated = {"name": "web", "annotations": {"service.kubernetes.io/topology-mode": "Auto"}}
    await world.request("POST", SERVICES, {"metadata": annotated, "spec": SPEC})
    for number in range(4):
        await pod(world, number, node=f"n{number % 2 + 1}")
    await asyncio.sleep(10)

    async def hints() -> list[Any]:
        return [e.get("hints") for endpoint_slice in await slices(world) for e in endpoint_slice["endpoints"] or ()]

    assert [hint["forZones"][0]["name"] for hint in await hints()] == ["a", "b", "a", "b"]
    await world.merge(f"{SERVICES}/web", {"metadata": {"annotations": None}})
    await asyncio.sleep(10)
    assert await hints() == [None] * 4
    events = [event.partition(" ")[2] for event in await world.events()]
    assert "Topology Aware Hints has been enabled, addressType: IPv4" in events
    assert "Topology Aware Hints has been disabled, addressType: IPv4" in events


async def test_topology_state_of_a_deleted_service_is_removed(world: World) -> None:
    """Upstream keeps enqueueing it with every node, and its hint events are missing for a recreated service."""
    await world.node("n2", labels={"topology.kubernetes.io/zone": "b"})
    for name in ("n1", "n2"):
        await world.merge(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": "4"}}})
    await world.report_node("n1", {"Ready": "False"})
    await world.report_node("n1", {"Ready": "True"})
    annotated = {"name": "web", "annotations": {"service.kubernetes.io/topology-mode": "Auto"}}
    created = await world.request("POST", SERVICES, {"metadata": annotated, "spec": SPEC})
    for number in range(4):
        await pod(world, number, node=f"n{number % 2 + 1}")
    await asyncio.sleep(10)
    assert await world.events("TopologyAwareHintsEnabled")
    await world.delete(f"{SERVICES}/web")
    for endpoint_slice in await slices(world):  # what the garbage collector does
        await world.delete(f"{SLICES}/{endpoint_slice['metadata']['name']}")
    await asyncio.sleep(10)
    assert remains(world.controllers[-1], created["metadata"]["uid"], "default/web") == []


def trouble(rng: random.Random) -> list[Rule]:
    """Three kinds of it."""
    kinds: tuple[tuple[Action, str, float], ...] = (
        (lose_answer(), "create", 0.5),
        (lose_answer(), "update", 0.5),
        (lose_request(), "update", 0.4),
        (time_out(sent=True), "create", 0.4),
        (conflict(), "update", 0.5),
        (fail(500), "delete", 0.5),
        (fail(500), "create", 0.5),
        (delay(0.0, 3.0), "update", 1.0),
        (delay(0.0, 3.0), "create", 1.0),
        (delay(0.0, 20.0), "watch", 1.0),
    )
    return [Rule(a, verb=verb, probability=p) for a, verb, p in rng.sample(kinds, 3)]


async def test_slices_converge_under_faults(env: Env, seed: int) -> None:
    """In the end every pod is in exactly one slice, no slice exceeds its maximum, and writes stop."""
    async with slicing(env, max_endpoints=5) as world:
        rng = random.Random(seed)
        await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
        for rule in trouble(rng):
            world.faults.add(rule)
        pods: dict[int, bool] = {}
        for _step in range(60):
            number, ready = rng.randrange(30), rng.random() < 0.7
            if number in pods and rng.random() < 0.4:
                await world.delete(f"{PODS}/p{number}", grace=0)
                del pods[number]
            elif number in pods:
                await report(world, number, ready=ready)
                pods[number] = ready
            else:
                await pod(world, number, ready=ready)
                pods[number] = ready
            if rng.random() < 0.1:
                for endpoint_slice in (await slices(world))[:1]:
                    await world.delete(f"{SLICES}/{endpoint_slice['metadata']['name']}")
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.5, 3.0)))
        world.faults.clear()
        await asyncio.sleep(4000)
        assert await endpoints(world) == sorted((f"p{number}", ready) for number, ready in pods.items())
        assert all(len(item["endpoints"] or ()) <= 5 for item in await slices(world))
        written = len(world.requests())
        await asyncio.sleep(600)
        assert len(world.requests()) == written


async def test_rejected_write_emits_an_event_and_is_retried(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="create", resource="endpointslices"))
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await asyncio.sleep(10)
    assert any("Error updating Endpoint Slices for Service default/web" in e for e in await world.events())
    world.faults.clear()
    await asyncio.sleep(60)
    assert len(await slices(world)) == 1


async def test_slice_with_changed_managed_by_label_is_replaced(world: World) -> None:
    """Given to another manager, or to another service: the own write is no longer awaited."""
    await world.request("POST", SERVICES, {"metadata": {"name": "web"}, "spec": SPEC})
    await pod(world, 1)
    await asyncio.sleep(5)
    for label, value in (
        ("endpointslice.kubernetes.io/managed-by", "me"),
        ("kubernetes.io/service-name", "other"),
    ):
        [only] = await slices(world)
        await world.merge(f"{SLICES}/{only['metadata']['name']}", {"metadata": {"labels": {label: value}}})
        await asyncio.sleep(5)
        own_slices = [
            endpoint_slice
            for endpoint_slice in await slices(world)
            if endpoint_slice["metadata"]["name"] != only["metadata"]["name"]
        ]
        assert [len(item["endpoints"]) for item in own_slices] == [1]
        await world.delete(f"{SLICES}/{only['metadata']['name']}")
        await asyncio.sleep(5)
