"""StorageVersions and the Leases of API servers, in virtual time. The API is a custom resource here."""

import asyncio
from typing import Any

import pytest
from tests.controllers.alpha_kinds import serve
from tests.controllers.node_world import World

from pilothouse.api.apiserverinternal import STORAGE_VERSIONS
from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.cleanup.storageversion_garbage_collector import DESCRIPTOR

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
NAME = "k8s.test.resources"


@pytest.fixture
async def world(world: World) -> World:
    await serve(world, STORAGE_VERSIONS)
    for number in (1, 2, 3):
        await lease(world, number)
    await world.start(DESCRIPTOR)
    return world


async def lease(world: World, number: int, label: str = "kube-apiserver") -> None:
    """The identity of a server."""
    meta = {"name": f"s{number}", "labels": {"apiserver.kubernetes.io/identity": label}}
    await world.request("POST", LEASES, {"metadata": meta, "spec": {"holderIdentity": f"s{number}"}})


async def version(world: World, name: str = NAME, **servers: str) -> None:
    """The StorageVersion with the servers' entries."""
    await world.request("POST", VERSIONS, {**STAMP, "metadata": {"name": name}, "spec": {}})
    entries = [{"apiServerID": server, "encodingVersion": version} for server, version in servers.items()]
    await world.merge(f"{VERSIONS}/{name}/status", {"status": {"storageVersions": entries}})


STAMP: dict[str, Any] = {"apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion"}


async def servers_and_common_version(world: World, name: str = NAME) -> tuple[list[str], str | None]:
    """The remaining servers, and their common encoding version."""
    status = (await world.must_get(f"{VERSIONS}/{name}"))["status"]
    return [entry["apiServerID"] for entry in status["storageVersions"]], status.get("commonEncodingVersion")


async def test_common_encoding_version_of_the_remaining_servers(world: World) -> None:
    await version(world, s1="v1", s2="v2", s3="v2")
    await asyncio.sleep(1)
    assert world.requests() == []
    await world.delete(f"{LEASES}/s1")
    await asyncio.sleep(1)
    assert await servers_and_common_version(world) == (["s2", "s3"], "v2")
    conditions = (await world.must_get(f"{VERSIONS}/{NAME}"))["status"]["conditions"]
    assert [(condition["type"], condition["status"]) for condition in conditions] == [
        ("AllEncodingVersionsEqual", "True")
    ]
    assert world.requests() == ["get leases s1", f"update storageversions/status {NAME}"]


async def test_lease_of_an_unlisted_server_changes_nothing(world: World) -> None:
    await version(world, s1="v1", s3="v2")
    await world.delete(f"{LEASES}/s2")
    await asyncio.sleep(1)
    assert await servers_and_common_version(world) == (["s1", "s3"], None)
    assert world.requests() == []


async def test_server_without_a_lease_is_removed(world: World) -> None:
    await lease(world, 5, "somebody-else")
    await version(world, s1="v1", s2="v2", s4="v2", s5="v2")
    await asyncio.sleep(1)
    assert await servers_and_common_version(world) == (["s1", "s2"], None)
    conditions = (await world.must_get(f"{VERSIONS}/{NAME}"))["status"]["conditions"]
    assert [(condition["type"], condition["status"]) for condition in conditions] == [
        ("AllEncodingVersionsEqual", "False")
    ]


async def test_storage_version_of_removed_servers_is_deleted(world: World) -> None:
    await version(world, s1="v1")
    await version(world, "other", s2="v1")
    await world.delete(f"{LEASES}/s1")
    await asyncio.sleep(1)
    assert await world.get(f"{VERSIONS}/{NAME}") is None
    assert await servers_and_common_version(world, "other") == (["s2"], None)


async def test_recreated_lease_is_kept(world: World) -> None:
    await version(world, s1="v1")
    await asyncio.sleep(1)
    world.seen.clear()
    with world.faults.hold(resource="leases"):
        await world.delete(f"{LEASES}/s1")
        await lease(world, 1)
        await asyncio.sleep(1)
    await asyncio.sleep(1)
    assert await servers_and_common_version(world) == (["s1"], None)


async def test_server_returning_during_the_lookup_is_kept(world: World) -> None:
    """Upstream reads the Lease first, and then removes the server from the cached object."""
    await version(world, s1="v1", s2="v1")
    await asyncio.sleep(1)
    world.faults.add(Rule(delay(2.0), verb="list", resource="storageversions"))
    await world.delete(f"{LEASES}/s1")
    await asyncio.sleep(1)
    await lease(world, 1)
    entries = [{"apiServerID": server, "encodingVersion": "v2"} for server in ("s1", "s2")]
    await world.merge(f"{VERSIONS}/{NAME}/status", {"status": {"storageVersions": entries}})
    await asyncio.sleep(5)
    assert await servers_and_common_version(world) == (["s1", "s2"], None)


async def test_failed_lease_get_removes_nothing(world: World) -> None:
    """Upstream treats any error as a missing Lease."""
    world.faults.add(Rule(fail(500), verb="get", resource="leases", times=3))
    await version(world, s1="v1", s4="v2")
    await asyncio.sleep(5)
    assert await servers_and_common_version(world) == (["s1"], "v1")


async def test_failed_update_of_one_object_does_not_block_others(world: World) -> None:
    for name in ("a", "b", "c"):
        await version(world, name, s1="v1", s2="v2")
    await asyncio.sleep(1)
    world.faults.add(Rule(fail(500), verb="update", resource="storageversions", name="a", times=1))
    await world.delete(f"{LEASES}/s1")
    await asyncio.sleep(0.001)
    await asyncio.sleep(5)
    assert [await servers_and_common_version(world, name) for name in ("a", "b", "c")] == [(["s2"], "v2")] * 3
