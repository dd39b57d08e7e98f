"""A simulated driver and simulated nodes with the controllers that need them, in virtual time.

What is attached when, and when pods start.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import NODES, PODS, Doc, World
from tests.controllers.persistentvolume_binder.world import CLAIMS, CLASSES, VOLUMES, create_claim

from pilothouse.client import Client
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.volumes.persistentvolume_attach_detach import DESCRIPTOR as ATTACH_DETACH
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR as BINDER
from pilothouse.env import Env
from pilothouse.nodes import NodeSimulator, Profile
from pilothouse.nodes.driver import SimulatedDriver
from pilothouse.nodes.provisioner import PROVISIONER
from pilothouse.runtime import InformerFactory

ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
FINALIZER = "external-attacher/simulated-pilothouse-dev"


@contextlib.asynccontextmanager
async def driven(
    env: Env, *, attach: bool = True, controllers: tuple[Any, ...] = (BINDER, ATTACH_DETACH)
) -> AsyncIterator[tuple[World, NodeSimulator]]:
    """Two nodes, a driver, a binder, and usually an attach/detach controller."""
    async with node_world.world(env) as running:
        client = Client(running.faults, env)
        informers = InformerFactory(client, env)
        nodes = NodeSimulator(
            env,
            names=["a", "b"],
            informers=informers,
            client_for=lambda _name: client,
            profile=Profile(start_delay=0.0, stop_delay=0.5),
            storage=True,
        )
        driver = SimulatedDriver(env, client=client, informers=informers, attach=attach)
        informers.start(running._group)
        running._group.start(nodes.run(), name="nodes")
        running._group.start(driver.run(), name="driver")
        await nodes.ready.wait()
        await driver.ready.wait()
        for descriptor in controllers:
            await running.start(descriptor)
        yield running, nodes


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[tuple[World, NodeSimulator]]:
    """The usual one."""
    async with driven(env) as running:
        yield running


@pytest.fixture
async def world(cluster: tuple[World, NodeSimulator]) -> World:
    return cluster[0]


async def wait_for_sync(seconds: float = 3.0) -> None:
    await asyncio.sleep(seconds)


async def pod(world: World, name: str, node: str, claim: str = "c") -> None:
    spec: Doc = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "pause"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }
    await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})


async def phase(world: World, name: str) -> str:
    return str((await world.must_get(f"{PODS}/{name}"))["status"]["phase"])


async def volumes_of(world: World, node: str) -> tuple[list[str], list[str]]:
    """The node's ``volumesAttached`` and ``volumesInUse``."""
    status = (await world.must_get(f"{NODES}/{node}"))["status"]
    return [item["name"] for item in status.get("volumesAttached") or []], status.get("volumesInUse") or []


async def attachments(world: World) -> dict[str, bool]:
    return {
        item["spec"]["nodeName"]: item["status"]["attached"] for item in (await world.must_get(ATTACHMENTS))["items"]
    }


async def test_a_pod_starts_when_its_volume_is_attached(world: World) -> None:
    assert (await world.must_get(f"{DRIVERS}/{PROVISIONER}"))["spec"]["attachRequired"] is True
    await create_claim(world)
    await wait_for_sync()
    rule = Rule(fail(500), verb="create", resource="volumeattachments.storage.k8s.io")
    world.faults.add(rule)
    await pod(world, "p", "a")
    await wait_for_sync()
    assert await phase(world, "p") == "Pending"
    name = (await world.must_get(f"{CLAIMS}/c"))["spec"]["volumeName"]
    unique = f"kubernetes.io/csi/{PROVISIONER}^{name}"
    assert await volumes_of(world, "a") == ([], [unique])
    world.faults.remove(rule)
    await wait_for_sync(10)
    assert await phase(world, "p") == "Running"
    assert await volumes_of(world, "a") == ([unique], [unique])
    (attachments,) = (await world.must_get(ATTACHMENTS))["items"]
    assert attachments["metadata"]["finalizers"] == [FINALIZER]
    assert attachments["metadata"]["annotations"] == {"csi.alpha.kubernetes.io/node-id": "a"}
    assert FINALIZER in (await world.must_get(f"{VOLUMES}/{name}"))["metadata"]["finalizers"]


async def test_the_volume_of_a_deleted_pod_is_detached(world: World) -> None:
    await create_claim(world)
    await wait_for_sync()
    await pod(world, "p", "a")
    await wait_for_sync()
    assert await attachments(world) == {"a": True}
    await world.delete(f"{PODS}/p")
    await pod(world, "q", "b")
    await wait_for_sync(10)
    assert await attachments(world) == {"b": True}
    assert await phase(world, "q") == "Running"
    assert await volumes_of(world, "a") == ([], [])


async def test_a_pod_that_never_started_is_deleted_too(world: World) -> None:
    await create_claim(world)
    await wait_for_sync()
    world.faults.add(Rule(fail(500), verb="create", resource="volumeattachments.storage.k8s.io"))
    await pod(world, "p", "a")
    await wait_for_sync()
    await world.delete(f"{PODS}/p")
    await wait_for_sync()
    assert await world.get(f"{PODS}/p") is None
    assert await volumes_of(world, "a") == ([], [])


async def test_a_silent_node_reports_no_volumes_until_it_is_back(cluster: tuple[World, NodeSimulator]) -> None:
    world, nodes = cluster
    await create_claim(world)
    await wait_for_sync()
    await pod(world, "p", "a")
    await wait_for_sync()
    nodes.silence("a")
    await world.delete(f"{PODS}/p", grace=0)
    await wait_for_sync(60)
    assert len((await volumes_of(world, "a"))[1]) == 1
    assert await attachments(world) == {"a": True}
    nodes.revive("a")
    await wait_for_sync()
    assert await volumes_of(world, "a") == ([], [])
    assert await attachments(world) == {}


@pytest.mark.parametrize("attach", [True, False])
async def test_pods_wait_only_for_a_driver_that_requires_attachment(env: Env, attach: bool) -> None:
    async with driven(env, attach=attach, controllers=(BINDER,)) as (world, _nodes):
        await create_claim(world)
        await wait_for_sync()
        await pod(world, "p", "a")
        await wait_for_sync()
        assert await phase(world, "p") == ("Pending" if attach else "Running")
        assert await attachments(world) == {}


async def test_a_recreated_node_reports_volumes_in_use(world: World) -> None:
    await create_claim(world)
    await wait_for_sync()
    await pod(world, "p", "a")
    await wait_for_sync()
    before = await volumes_of(world, "a")
    await world.merge(f"{NODES}/a/status", {"status": {"volumesInUse": None}})
    await wait_for_sync()
    assert await volumes_of(world, "a") == before


async def test_claim_is_expanded(world: World) -> None:
    assert (await world.must_get(f"{CLASSES}/standard"))["allowVolumeExpansion"] is True
    await create_claim(world)
    await wait_for_sync()
    world.faults.add(Rule(conflict(), verb="patch", resource="persistentvolumes", times=1))
    await world.merge(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
    await wait_for_sync(10)
    claim = await world.must_get(f"{CLAIMS}/c")
    assert claim["status"]["capacity"] == {"storage": "5Gi"}
    assert claim["status"]["allocatedResources"] == {"storage": "5Gi"}
    assert not claim["status"].get("conditions")
    assert not claim["status"].get("allocatedResourceStatuses")
    volume = await world.must_get(f"{VOLUMES}/{claim['spec']['volumeName']}")
    assert volume["spec"]["capacity"] == {"storage": "5Gi"}
    message = f"External resizer is resizing volume {claim['spec']['volumeName']}"
    assert f"PersistentVolumeClaim/c {message}" in await world.events("Resizing")
    assert await world.events("VolumeResizeSuccessful") == ["PersistentVolumeClaim/c Resize volume succeeded"]


async def test_attached_volumes_are_not_deleted(world: World) -> None:
    await create_claim(world)
    await wait_for_sync()
    await pod(world, "p", "a")
    await wait_for_sync()
    name = (await world.must_get(f"{CLAIMS}/c"))["spec"]["volumeName"]
    path = f"{VOLUMES}/{name}"
    await world.merge(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
    await world.delete(f"{CLAIMS}/c")
    await wait_for_sync()
    volume = await world.must_get(path)
    assert volume["status"]["phase"] == "Released"
    assert "deletionTimestamp" not in volume["metadata"]
    await world.delete(f"{PODS}/p")
    await wait_for_sync()
    assert await attachments(world) == {}
    remaining = (await world.must_get(path))["metadata"]
    assert remaining["finalizers"] == ["kubernetes.io/pv-protection"], "what is left is another's"
    assert "deletionTimestamp" in remaining
