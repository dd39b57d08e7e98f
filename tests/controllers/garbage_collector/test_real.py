"""The garbage collector and the namespace controller on kube-apiserver, with the rights of upstream's roles."""

import asyncio
import contextlib
import os
import time
from typing import Any

import pytest
from tests.controllers.real_world import RealWorld
from tests.custom_resources import DEFINITIONS, definition
from tests.real_cluster import RealCluster

from pilothouse.controllers.cleanup import garbage_collector, namespace
from pilothouse.controllers.shared.monitors import SYNC_SECONDS
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import Descriptor

pytestmark = pytest.mark.real_loop

GARBAGE_COLLECTOR = (garbage_collector.DESCRIPTOR, "generic-garbage-collector")


def running(world: RealWorld, descriptor: Descriptor, role: str) -> contextlib.AbstractAsyncContextManager[TaskGroup]:
    """The controller works within the block."""
    roles = ["system:kube-controller-manager", f"system:controller:{role}"]
    return world.controllers((descriptor, None), user=f"{descriptor.client_name}-{os.getpid()}", roles=roles)


def owned(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references, **metadata}}


async def test_propagation_policies(env: Env, real_cluster: RealCluster) -> None:
    world = RealWorld(env, real_cluster)
    path = f"/api/v1/namespaces/{real_cluster.namespace('gc')}/configmaps"

    async def create(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        created: dict[str, Any] = await world.request("POST", path, owned(name, *owners, **metadata))
        return {"apiVersion": "v1", "kind": "ConfigMap", **created}

    def names() -> list[str]:
        return sorted(world.names(path, without="kube-root-ca.crt"))

    async def delete(name: str, policy: str) -> None:
        await world.request("DELETE", f"{path}/{name}", {"propagationPolicy": policy})

    async with running(world, *GARBAGE_COLLECTOR):
        background, foreground, orphan = await create("background"), await create("foreground"), await create("orphan")
        await create("child-b", background)
        middle = await create("middle", foreground)
        await create("leaf", middle, finalizers=["example.com/hold"])
        await create("child-o", orphan)
        await create("both", background, orphan)
        await asyncio.sleep(1)
        await delete("background", "Background")
        await delete("foreground", "Foreground")
        expected_names = ["both", "child-o", "foreground", "leaf", "middle", "orphan"]
        await world.until(
            lambda: names() == expected_names, "in the background; in the foreground a finalizer holds all three"
        )
        await world.request("PATCH", f"{path}/leaf", {"metadata": {"finalizers": None}})
        await world.until(lambda: names() == ["both", "child-o", "orphan"], "in the foreground")
        await delete("orphan", "Orphan")
        await world.until(lambda: names() == ["both", "child-o"], "the owner only")
        assert not any(item["metadata"].get("ownerReferences") for item in world.items(path))


async def test_custom_resources_get_a_json_merge_patch(env: Env, real_cluster: RealCluster) -> None:
    """A strategic one is rejected with 415."""
    world = RealWorld(env, real_cluster)
    group, space = f"g{os.getpid()}.example.com", real_cluster.namespace("gc")
    maps, things = f"/api/v1/namespaces/{space}/configmaps", f"/apis/{group}/v1/namespaces/{space}/things"

    async def create(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", **await world.request("POST", maps, owned(name))}

    def owners() -> list[str]:
        [owners_found] = world.items(things)
        return [ref["name"] for ref in owners_found["metadata"].get("ownerReferences", [])]

    await world.request("POST", DEFINITIONS, definition("Thing", group=group))
    try:
        await world.until(lambda: world.succeeds("GET", things), "the resource is served")
        async with running(world, *GARBAGE_COLLECTOR):
            first, second = await create("first"), await create("second")
            thing = {"apiVersion": f"{group}/v1", "kind": "Thing", **owned("t", first, second)}
            await world.request("POST", things, thing)
            await asyncio.sleep(1)
            await world.request("DELETE", f"{maps}/first")
            await world.until(lambda: owners() == ["second"], "the second owner is left")
            await world.request("DELETE", f"{maps}/second", {"propagationPolicy": "Orphan"})
            await world.until(lambda: owners() == [], "no owner is left")
    finally:
        await world.request("DELETE", f"{DEFINITIONS}/things.{group}")


async def test_dependents_of_a_new_definition_are_deleted_before_the_next_sync(
    env: Env, real_cluster: RealCluster
) -> None:
    """The definition is created while the controller runs, and discovered after its events."""
    world = RealWorld(env, real_cluster)
    group, space = f"fresh{os.getpid()}.example.com", real_cluster.namespace("gc")
    maps, things = f"/api/v1/namespaces/{space}/configmaps", f"/apis/{group}/v1/namespaces/{space}/things"

    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", **owned("t")}

    try:
        async with running(world, *GARBAGE_COLLECTOR):
            await asyncio.sleep(2)
            await world.request("POST", DEFINITIONS, definition("Thing", group=group))
            await world.until(lambda: world.succeeds("POST", things, thing), "the resource is served")
            owner = {**thing, **await world.request("GET", f"{things}/t")}
            await world.request("POST", maps, owned("child", owner))
            await world.request("DELETE", f"{things}/t")
            began = time.monotonic()
            await world.until(lambda: world.names(maps, without="kube-root-ca.crt") == [], "the child is deleted")
            assert time.monotonic() - began < SYNC_SECONDS / 2
    finally:
        await world.request("DELETE", f"{DEFINITIONS}/things.{group}")


async def test_namespace_is_deleted_with_its_content(env: Env, real_cluster: RealCluster) -> None:
    world = RealWorld(env, real_cluster)
    path = f"/api/v1/namespaces/{real_cluster.namespace('going')}"

    def reported() -> bool:
        conditions = real_cluster.request("GET", path)["status"].get("conditions", [])
        return any(c["type"] == "NamespaceFinalizersRemaining" and c["status"] == "True" for c in conditions)

    async with running(world, namespace.DESCRIPTOR, "namespace-controller"):
        await world.request("POST", f"{path}/secrets", {"metadata": {"name": "s"}})
        metadata = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await world.request("POST", f"{path}/configmaps", metadata)
        await world.request("DELETE", path)
        await world.until(reported, "the condition of the finalizers that remain")
        assert world.items(f"{path}/secrets") == []
        await world.request("PATCH", f"{path}/configmaps/held", {"metadata": {"finalizers": None}})
        await world.until(lambda: real_cluster.try_request("GET", path)[0] == 404, "the namespace is deleted")
