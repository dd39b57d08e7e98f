"""The controller on the embedded API server, in virtual time, which allocates the addresses; with and without faults.

A real kube-apiserver of v1.20 has no ServiceCIDRs: nothing of this can be seen there. Rows mirror
``TestControllerSync`` of v1.36 ``pkg/controller/servicecidrs/servicecidrs_controller_test.go``.
"""

import asyncio
import contextlib
import ipaddress
from typing import Any

import pytest
from tests.controllers.node_world import World

from pilothouse.client.errors import Invalid
from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, lose_request, time_out
from pilothouse.controllers.network.service_cidr import DESCRIPTOR

Doc = dict[str, Any]
CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
SERVICES = "/api/v1/namespaces/default/services"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
READY = ("True", "", "Kubernetes Service CIDR is ready")
HELD = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)


async def start(world: World) -> None:
    await world.start(DESCRIPTOR)
    await asyncio.sleep(1)


async def create(world: World, name: str, *cidrs: str, **meta: Any) -> None:
    await world.request("POST", CIDRS, {"metadata": {"name": name, **meta}, "spec": {"cidrs": list(cidrs)}})


async def service(world: World, name: str, address: str = "") -> str:
    spec: Doc = {"ports": [{"port": 80}], **({"clusterIP": address} if address else {})}
    created = await world.request("POST", SERVICES, {"metadata": {"name": name}, "spec": spec})
    cluster_ip: str = created["spec"]["clusterIP"]
    return cluster_ip


async def ready(world: World, name: str) -> tuple[str, str, str]:
    [condition] = (await world.must_get(f"{CIDRS}/{name}"))["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]


async def exists(world: World, name: str) -> bool:
    return await world.get(f"{CIDRS}/{name}") is not None


async def test_service_cidrs_get_the_finalizer_and_ready_condition(world: World) -> None:
    """Rows: default service CIDR must have finalizer; service CIDR must have finalizer."""
    await start(world)
    await create(world, "more", "10.9.0.0/24")
    await asyncio.sleep(1)
    for name in ("kubernetes", "more"):
        assert (await world.must_get(f"{CIDRS}/{name}"))["metadata"]["finalizers"] == [FINALIZER]
        assert await ready(world, name) == READY
    assert world.requests() == [f"patch {resource} {name}" for name in ("kubernetes", "more") for resource in RESOURCES]
    await asyncio.sleep(300)
    assert len(world.requests()) == 4, "quiet"


RESOURCES = ("servicecidrs", "servicecidrs/status")


async def test_unused_service_cidr_is_deleted_after_ten_seconds(world: World) -> None:
    """Rows: must remove the finalizer; within the grace period must be requeued."""
    await start(world)
    await create(world, "more", "10.9.0.0/24")
    await asyncio.sleep(1)
    await world.delete(f"{CIDRS}/more")
    await asyncio.sleep(9)
    assert await exists(world, "more")
    assert await ready(world, "more") == READY
    with pytest.raises(Invalid):
        await service(world, "late", "10.9.0.1")
    await asyncio.sleep(2)
    assert not await exists(world, "more")


async def test_service_cidr_with_addresses_is_kept(world: World) -> None:
    await start(world)
    await create(world, "more", "10.9.0.0/24")
    await asyncio.sleep(1)
    await service(world, "web", "10.9.0.1")
    await world.delete(f"{CIDRS}/more")
    await asyncio.sleep(60)
    assert await ready(world, "more") == HELD
    before = len(world.requests())
    await asyncio.sleep(600)
    assert len(world.requests()) == before, "it waits quietly"
    await world.delete(f"{SERVICES}/web")
    await asyncio.sleep(1)
    assert not await exists(world, "more"), "the ten seconds are long over"


async def test_containing_service_cidr_allows_the_deletion(world: World) -> None:
    await start(world)
    await create(world, "more", "10.9.0.0/24")
    await asyncio.sleep(1)
    await service(world, "web", "10.9.0.1")
    await world.delete(f"{CIDRS}/more")
    await asyncio.sleep(60)
    assert await exists(world, "more")
    await create(world, "larger", "10.9.0.0/16")
    await asyncio.sleep(1)
    assert not await exists(world, "more")
    await world.delete(f"{CIDRS}/larger")
    await asyncio.sleep(60)
    assert await ready(world, "larger") == HELD


async def test_service_cidr_with_an_added_family_allows_the_deletion(world: World) -> None:
    """Upstream syncs the changed ServiceCIDR, and not the one that waits for it."""
    await start(world)
    await create(world, "old", "10.9.0.0/24", "fd00::/112")
    await create(world, "new", "10.9.0.0/16")
    labels = {
        "ipaddress.kubernetes.io/ip-family": "IPv6",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}
    await world.request("POST", ADDRESSES, {"metadata": {"name": "fd00::5", "labels": labels}, "spec": parent})
    await asyncio.sleep(1)
    await world.delete(f"{CIDRS}/old")
    await asyncio.sleep(60)
    assert await ready(world, "old") == HELD
    await world.merge(f"{CIDRS}/new", {"spec": {"cidrs": ["10.9.0.0/16", "fd00::/64"]}})
    await asyncio.sleep(1)
    assert not await exists(world, "old")


async def test_only_one_of_two_equal_service_cidrs_is_deleted(world: World) -> None:
    await start(world)
    for name in ("a", "b"):
        await create(world, name, "10.9.0.0/24")
    await asyncio.sleep(1)
    await service(world, "web", "10.9.0.1")
    await world.delete(f"{CIDRS}/a")
    await asyncio.sleep(5)
    await world.delete(f"{CIDRS}/b")
    await asyncio.sleep(60)
    for name in ("a", "b"):
        assert await ready(world, name) == HELD, "both hold, rather than none"
    await world.delete(f"{SERVICES}/web")
    await asyncio.sleep(1)
    assert [await exists(world, name) for name in ("a", "b")] == [False, False]


async def test_default_service_cidr_is_recreated(world: World) -> None:
    await start(world)
    before = (await world.must_get(f"{CIDRS}/kubernetes"))["metadata"]["uid"]
    await world.delete(f"{CIDRS}/kubernetes")
    await asyncio.sleep(60)
    assert await ready(world, "kubernetes") == HELD, "the service kubernetes has its address of it"
    await create(world, "larger", "10.0.0.0/16")
    await asyncio.sleep(1)
    service_cidr = await world.must_get(f"{CIDRS}/kubernetes")
    assert service_cidr["metadata"]["uid"] != before
    await asyncio.sleep(1)
    assert await ready(world, "kubernetes") == READY
    assert (await world.must_get(f"{CIDRS}/kubernetes"))["metadata"]["finalizers"] == [FINALIZER]


async def test_failed_status_update_emits_an_event(world: World) -> None:
    await start(world)
    world.faults.add(Rule(fail(500), verb="patch", resource="servicecidrs", times=3))
    await create(world, "more", "10.9.0.0/24")
    await asyncio.sleep(30)
    assert await ready(world, "more") == READY
    texts = set(await world.events("KubernetesServiceCIDRError"))
    assert texts <= {"ServiceCIDR/more The ServiceCIDR Status can not be set to Ready=True"}


FAULTS: dict[str, tuple[Any, Doc]] = {
    "conflicts": (conflict(), {"verb": "write", "probability": 0.4}),
    "failing writes": (fail(500), {"verb": "write", "probability": 0.4}),
    "lost answers": (lose_answer(), {"verb": "write", "probability": 0.3}),
    "lost requests": (lose_request(), {"verb": "write", "probability": 0.3}),
    "time-outs": (time_out(sent=True), {"verb": "write", "probability": 0.3}),
    "slow watches": (delay(0.1, 4.0), {"verb": "watch"}),
}
RANGES = ("10.9.0.0/24", "10.9.0.0/28", "10.9.0.16/28", "10.9.0.0/16")


async def assert_addresses_have_cidrs(world: World) -> None:
    """Every address that a service has is of a range that is there."""
    cidrs = [
        ipaddress.ip_network(text)
        for service_cidr in (await world.must_get(CIDRS))["items"]
        for text in service_cidr["spec"]["cidrs"]
    ]
    used = {item["spec"]["clusterIP"] for item in (await world.must_get(SERVICES))["items"]}
    assert {item["metadata"]["name"] for item in (await world.must_get(ADDRESSES))["items"]} == used
    orphans = [ip for ip in used if not any(ipaddress.ip_address(ip) in network for network in cidrs)]
    assert not orphans, "an address of no range"


@pytest.mark.parametrize("fault", FAULTS)
async def test_every_address_has_a_service_cidr_under_faults(world: World, fault: str, seed: int) -> None:
    """ServiceCIDRs and services are added and deleted; in the end deleted ones are removed, the others ready, and
    writes stop."""
    await start(world)
    rng = world.env.stream("story")
    action, which = FAULTS[fault]
    world.faults.add(Rule(action, **which))
    cidrs: dict[str, bool] = {}
    services: list[str] = []
    for turn in range(40):
        draw = rng.random()
        if draw < 0.3:
            name = f"r{turn}"
            await create(world, name, rng.choice(RANGES))
            cidrs[name] = True
        elif draw < 0.5 and any(cidrs.values()):
            name = rng.choice([service_cidr for service_cidr, alive in cidrs.items() if alive])
            if (await world.must_get(f"{CIDRS}/{name}"))["metadata"].get("finalizers"):  # else it is not ready yet
                cidrs[name] = False
                await world.delete(f"{CIDRS}/{name}")
        elif draw < 0.8:
            name = f"s{turn}"
            with contextlib.suppress(Invalid):  # taken, or of no range
                await service(world, name, f"10.9.0.{rng.randrange(1, 31)}")
                services.append(name)
        elif services:
            await world.delete(f"{SERVICES}/{services.pop(rng.randrange(len(services)))}")
        await asyncio.sleep(rng.uniform(0, 6))
        await assert_addresses_have_cidrs(world)
    for name in services:
        await world.delete(f"{SERVICES}/{name}")
    world.faults.clear()
    await asyncio.sleep(1200)
    await assert_addresses_have_cidrs(world)
    remaining = {item["metadata"]["name"] for item in (await world.must_get(CIDRS))["items"]}
    assert remaining == {"kubernetes", *(name for name, alive in cidrs.items() if alive)}
    for name in sorted(remaining):
        assert await ready(world, name) == READY
    before = len(world.requests())
    await asyncio.sleep(600)
    assert len(world.requests()) == before, "quiet in the end"
