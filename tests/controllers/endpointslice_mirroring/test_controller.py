"""The controller on the embedded API server, in virtual time, with and without faults. In the end slices converge.

Stories mirror v1.36 ``pkg/controller/endpointslicemirroring/endpointslicemirroring_controller_test.go``
(TestSyncEndpoints, TestEndpointSlicesMirroredForService).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.node_world import World
from tests.tables import cases

from pilothouse.client.interceptor import (
    Rule,
    conflict,
    delay,
    fail,
    lose_answer,
    lose_request,
    namespace_ends,
    time_out,
)
from pilothouse.controllers.network.endpointslice_mirroring import DESCRIPTOR, MirroringOptions

Doc = dict[str, Any]
SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
EXT = f"{ENDPOINTS}/ext"
OURS = {
    "kubernetes.io/service-name": "ext",
    "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
}


def subset(*ips: str, port: int = 8080, bad: tuple[str, ...] = ()) -> Doc:
    result: Doc = {"ports": [{"port": port}]}
    if ips:
        result["addresses"] = [{"ip": ip} for ip in ips]
    if bad:
        result["notReadyAddresses"] = [{"ip": ip} for ip in bad]
    return result


async def service(world: World, name: str = "ext", **spec: Any) -> None:
    await world.request("POST", SERVICES, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}})


async def write(world: World, *subsets: Doc, name: str = "ext", **meta: Any) -> None:
    await world.request("POST", ENDPOINTS, {"metadata": {"name": name, **meta}, "subsets": list(subsets)})


async def rewrite(world: World, *subsets: Doc) -> None:
    await world.merge(EXT, {"subsets": list(subsets)})


async def slices(world: World, name: str = "ext") -> list[Doc]:
    endpoint_slice: list[Doc] = (await world.must_get(SLICES))["items"]
    wanted = {**OURS, "kubernetes.io/service-name": name}
    return [item for item in endpoint_slice if wanted.items() <= item["metadata"].get("labels", {}).items()]


async def endpoints_of(world: World, name: str = "ext") -> list[tuple[str, int, bool]]:
    """Address, port and readiness of every endpoint."""
    return sorted(
        (address, endpoint_slice["ports"][0]["port"], endpoint["conditions"]["ready"])
        for endpoint_slice in await slices(world, name)
        for endpoint in endpoint_slice["endpoints"]
        for address in endpoint["addresses"]
    )


def number(world: World, name: str, *labels: str) -> float:
    return world.metrics.value(f"endpoint_slice_mirroring_controller_{name}", *labels)


async def test_custom_endpoints_are_mirrored(world: World) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world)
    await write(world, subset("192.0.2.1", "192.0.2.2"), labels={"a": "1"}, annotations={"b": "2"})
    await asyncio.sleep(1)
    [only] = await slices(world)
    meta = only["metadata"]
    assert meta["name"].startswith("ext-")
    assert meta["labels"] == {**OURS, "a": "1"}
    assert meta["annotations"] == {"b": "2"}
    assert [(owner["kind"], owner["name"]) for owner in meta["ownerReferences"]] == [("Endpoints", "ext")]
    assert only["endpoints"][0] == {"addresses": ["192.0.2.1"], "conditions": {"ready": True}}
    assert only["ports"] == [{"name": "", "protocol": "TCP", "port": 8080}]
    assert [number(world, name) for name in ("endpoints_desired", "num_endpoint_slices")] == [2, 1]
    await rewrite(world, subset("192.0.2.1", bad=("192.0.2.3",)))
    await asyncio.sleep(1)
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True), ("192.0.2.3", 8080, False)]
    assert (await slices(world))[0]["metadata"]["uid"] == meta["uid"], "the slice stays the same"
    await world.delete(EXT)
    await asyncio.sleep(1)
    assert await slices(world) == []
    assert [number(world, name) for name in ("endpoints_desired", "num_endpoint_slices")] == [0, 0]
    assert [number(world, "changes", verb) for verb in ("create", "update", "delete")] == [1, 1, 0]
    before = len(world.requests())
    await asyncio.sleep(300)
    assert len(world.requests()) == before, "quiet"


@cases(
    "meta, spec, expected",
    {
        "no selector": ({}, {}, True),
        "skip-mirror label": ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, {}, False),
        "skip-mirror label false": ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "false"}}, {}, True),
        "a lock": ({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, {}, False),
        "missing service": ({}, None, False),
        "service with selector": ({}, {"selector": {"foo": "bar"}}, False),
        "headless service": ({}, {"clusterIP": "None"}, True),
        "a name for another": ({}, {"type": "ExternalName", "externalName": "x.example"}, True),
    },
)
async def test_endpoints_that_are_mirrored(world: World, meta: Doc, spec: Doc | None, expected: bool) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    if spec is not None:
        await service(world, **spec)
    await write(world, subset("192.0.2.1"), **meta)
    await asyncio.sleep(5)
    assert bool(await slices(world)) is expected


LEFT: dict[str, Callable[[World], Awaitable[Any]]] = {
    "the Endpoints go": lambda world: world.delete(EXT),
    "the service goes": lambda world: world.delete(f"{SERVICES}/ext"),
    "the service gets a selector": lambda world: world.merge(f"{SERVICES}/ext", {"spec": {"selector": {"a": "b"}}}),
    "the Endpoints are to be skipped": lambda world: world.merge(
        EXT, {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}}
    ),
    "the Endpoints become a lock": lambda world: world.merge(
        EXT, {"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}}
    ),
    "the Endpoints are empty": lambda world: world.merge(EXT, {"subsets": []}),
}


@pytest.mark.parametrize("change", LEFT)
async def test_mirrored_slices_are_deleted(world: World, change: str) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world)
    await service(world, "other")
    for name in ("ext", "other"):
        await write(world, subset("192.0.2.1"), subset("2001:db8::1", port=9090), name=name)
    foreign = {**OURS, "endpointslice.kubernetes.io/managed-by": "me"}
    stranger = {"metadata": {"name": "mine", "labels": foreign}, "addressType": "IPv4", "endpoints": []}
    await world.request("POST", SLICES, stranger)
    await asyncio.sleep(1)
    assert len(await slices(world)) == 2
    await LEFT[change](world)
    await asyncio.sleep(1)
    assert await slices(world) == []
    assert len(await slices(world, "other")) == 2
    assert await world.get(f"{SLICES}/mine") is not None, "that of somebody else"


async def test_removed_service_selector_starts_mirroring(world: World) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world, selector={"a": "b"})
    await write(world, subset("192.0.2.1"))
    await asyncio.sleep(1)
    assert await slices(world) == []
    await world.merge(f"{SERVICES}/ext", {"spec": {"selector": None}})
    await asyncio.sleep(1)
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True)]


async def test_existing_slices_are_reused_or_deleted_at_startup(world: World) -> None:
    await service(world)
    await write(world, subset("192.0.2.1"))
    for name, port, service_name in (("old-a", 8080, "ext"), ("old-b", 8080, "ext"), ("old-c", 1, "gone")):
        labels = {**OURS, "kubernetes.io/service-name": service_name}
        body = {
            "metadata": {"name": name, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["192.0.2.9"]}],
            "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        }
        await world.request("POST", SLICES, body)
    await world.start(DESCRIPTOR, MirroringOptions())
    await asyncio.sleep(5)
    assert [endpoint_slice["metadata"]["name"] for endpoint_slice in await slices(world)] == ["old-a"]
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True)]
    assert await slices(world, "gone") == []


async def test_changed_mirrored_slice_is_reverted(world: World) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world)
    await write(world, subset("192.0.2.1"))
    await asyncio.sleep(1)
    [only] = await slices(world)
    path = f"{SLICES}/{only['metadata']['name']}"
    await world.merge(path, {"endpoints": [{"addresses": ["192.0.2.7"]}]})
    await asyncio.sleep(1)
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True)]
    await world.merge(path, {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": "me"}}})
    await asyncio.sleep(1)
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True)], "it was given away, and there is a new one"
    await world.merge(path, {"metadata": {"labels": OURS}})
    await asyncio.sleep(1)
    assert len(await slices(world)) == 1, "it came back, and one is enough"
    await world.delete(f"{SLICES}/{(await slices(world))[0]['metadata']['name']}")
    await asyncio.sleep(1)
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True)]


@pytest.mark.parametrize(("count", "message"), [(1000, 0), (1001, 1)])
async def test_max_endpoints_per_subset(world: World, count: int, message: int) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world)
    await write(world, subset(*(f"10.0.{item // 255}.{item % 255}" for item in range(count))))
    await asyncio.sleep(1)
    [only] = await slices(world)
    assert len(only["endpoints"]) == 1000
    texts = await world.events("TooManyAddressesToMirror")
    assert len(texts) == message
    for text in texts:
        assert text == (
            "Endpoints/ext A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. "
            "1 addresses were skipped"
        )


async def test_changed_port_recycles_the_slice(world: World) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world)
    await write(world, subset("192.0.2.1"))
    await asyncio.sleep(1)
    [before] = await slices(world)
    await rewrite(world, subset("192.0.2.1", port=9090))
    await asyncio.sleep(1)
    [after] = await slices(world)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert await endpoints_of(world) == [("192.0.2.1", 9090, True)]


async def test_no_slices_for_terminating_namespaces_or_endpoints(world: World) -> None:
    await world.start(DESCRIPTOR, MirroringOptions())
    await service(world)
    await write(world, subset("192.0.2.1"), finalizers=["example.com/hold"])
    await asyncio.sleep(1)
    await world.delete(EXT)
    await rewrite(world, subset("192.0.2.1"), subset("2001:db8::1", port=9090))
    await asyncio.sleep(1)
    assert await endpoints_of(world) == [("192.0.2.1", 8080, True)], "updates only"
    world.faults.add(Rule(namespace_ends(), verb="create", resource="endpointslices.discovery.k8s.io"))
    await world.merge(EXT, {"metadata": {"finalizers": []}})
    await write(world, subset("192.0.2.5"))
    await asyncio.sleep(1)
    before = len(world.requests())
    await asyncio.sleep(600)
    assert len(world.requests()) == before, "it was dropped"


FAULTS: dict[str, tuple[Any, Doc]] = {
    "conflicts": (conflict(), {"verb": "update", "probability": 0.4}),
    "failing writes": (fail(500), {"verb": "write", "probability": 0.4}),
    "lost answers": (lose_answer(), {"verb": "write", "probability": 0.3}),
    "lost requests": (lose_request(), {"verb": "write", "probability": 0.3}),
    "time-outs": (time_out(sent=True), {"verb": "write", "probability": 0.3}),
    "slow watches": (delay(0.1, 4.0), {"verb": "watch"}),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_slices_converge_under_faults(world: World, fault: str, seed: int) -> None:
    """Finally there is one slice per family and port of the last Endpoints, none of removed ones; writes stop."""
    await world.start(DESCRIPTOR, MirroringOptions())
    rng = world.env.stream("story")
    action, which = FAULTS[fault]
    world.faults.add(Rule(action, **which))
    names = ("ext", "other")
    for name in names:
        await service(world, name)
    last: dict[str, list[Doc]] = {}
    for _turn in range(25):
        name = rng.choice(names)
        if name in last and rng.random() < 0.25:
            await world.delete(f"{ENDPOINTS}/{name}")
            del last[name]
        else:
            v4 = [f"192.0.2.{item}" for item in range(1, 6) if rng.random() < 0.5]
            v6 = [f"2001:db8::{item}" for item in range(1, 4) if rng.random() < 0.5]
            subsets = [subset(*v4, *v6)] if v4 or v6 else []
            subsets += [subset(*v6[:1], port=9090, bad=("192.0.2.9",))]
            if name in last:
                await world.merge(f"{ENDPOINTS}/{name}", {"subsets": subsets})
            else:
                await write(world, *subsets, name=name)
            last[name] = subsets
        if rng.random() < 0.2:
            some = await slices(world)
            if some:
                await world.delete(f"{SLICES}/{rng.choice(some)['metadata']['name']}")
        await asyncio.sleep(rng.uniform(0, 1.5))
    await asyncio.sleep(200)
    world.faults.clear()
    await asyncio.sleep(200)  # twice the longest back-off
    for name in names:
        wanted = sorted(
            (address["ip"], item["ports"][0]["port"], ready)
            for item in last.get(name, ())
            for field, ready in (("addresses", True), ("notReadyAddresses", False))
            for address in item.get(field, ())
        )
        assert await endpoints_of(world, name) == wanted
        kinds = [
            (endpoint_slice["addressType"], endpoint_slice["ports"][0]["port"])
            for endpoint_slice in await slices(world, name)
        ]
        assert len(kinds) == len(set(kinds)), "one of each"
    before = len(world.requests())
    await asyncio.sleep(600)
    assert len(world.requests()) == before, "quiet in the end"
