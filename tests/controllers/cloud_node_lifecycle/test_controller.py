"""The controller between the embedded API server and a simulated cloud, in virtual time.

Cases of ``Test_NodesDeleted``, ``Test_NodesShutdown`` and ``Test_GetProviderID``, k8s.io/cloud-provider v0.36
``controllers/nodelifecycle/node_lifecycle_controller_test.go``, in our own words.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.controllers import node_world
from tests.controllers.node_world import HEALTHY, NODES, World, fixture_of
from tests.tables import cases

from pilothouse.api.core import Node
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.cloud.cloud_node_lifecycle import DESCRIPTOR, CloudNodeLifecycleOptions
from pilothouse.controllers.shared.simulated_cloud import INSTANCE, SimulatedCloud
from pilothouse.env import Env

UNREADY = {"Ready": "False"}
TAINT = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"


class Unreachable:
    """A cloud that fails for some nodes."""

    async def exists(self, node: Node) -> bool:
        if node.metadata.name == "mute":
            raise OSError("unreachable")
        return False

    async def is_shut_down(self, node: Node) -> bool:
        raise OSError("unreachable")


class Machines:
    """A cloud that has all machines, or none."""

    present = True

    async def exists(self, node: Node) -> bool:
        return self.present

    async def is_shut_down(self, node: Node) -> bool:
        return False


@contextlib.asynccontextmanager
async def watching(env: Env, cloud: SimulatedCloud | None = None) -> AsyncIterator[World]:
    """A world in which the controller runs."""
    async with node_world.world(env) as world:
        provider = cloud or SimulatedCloud(world.env)
        await world.start(DESCRIPTOR, CloudNodeLifecycleOptions(provider=provider))
        yield world


world = fixture_of(watching)


async def wait_for_sync(seconds: float = 6.0) -> None:
    await asyncio.sleep(seconds)


@cases(
    "conditions, instance, stays, taints",
    {
        "node is not ready and does not exist": (UNREADY, "gone", False, []),
        "node is unknown and does not exist": ({"Ready": "Unknown"}, "gone", False, []),
        "node has no Ready condition and does not exist": ({}, "gone", False, []),
        "node is ready, for any instance state": (HEALTHY, "gone", True, []),
        "node is not ready, but exists": (UNREADY, "", True, []),
        "node is unknown, but exists": ({"Ready": "Unknown"}, "", True, []),
        "node is not ready and was shut down, but exists": (UNREADY, "stopped", True, [TAINT]),
        "node is ready, and its instance is shut down": (HEALTHY, "stopped", True, []),
    },
)
async def test_node_by_instance_state(
    world: World, conditions: dict[str, str], instance: str, stays: bool, taints: list[str]
) -> None:
    await world.node("n", conditions=conditions, annotations={INSTANCE: instance})
    await wait_for_sync()
    obj = await world.get(f"{NODES}/n")
    assert (obj is not None) is stays
    events = await world.events("DeletingNode")
    assert events == ([] if stays else ["Node/n Deleting node n because it does not exist in the cloud provider"])
    if stays:
        assert await world.taints("n") == taints
        requests = len(world.requests())
        await wait_for_sync(600)
        writes = [text for text in world.requests()[requests:] if not text.startswith("get")]
        assert writes == []


async def test_shutdown_taint_is_removed_when_the_instance_runs_again(world: World) -> None:
    await world.node("n", conditions=UNREADY, annotations={INSTANCE: "stopped"})
    await world.taint("n", {"key": "other", "effect": "NoSchedule"})
    await wait_for_sync()
    assert await world.taints("n") == ["other:NoSchedule", TAINT]
    await world.report_node("n", HEALTHY)
    await wait_for_sync()
    assert await world.taints("n") == ["other:NoSchedule"]


async def test_node_that_is_ready_on_the_server_is_not_deleted(env: Env) -> None:
    """The cache is stale. Upstream uses the cache."""
    async with node_world.world(env) as world:
        cloud, machines = SimulatedCloud(world.env), Machines()
        cloud.instances = machines
        await world.node("n", conditions=UNREADY)
        await world.start(DESCRIPTOR, CloudNodeLifecycleOptions(provider=cloud))
        with world.faults.hold(resource="nodes"):
            await world.report_node("n", HEALTHY)
            machines.present = False
            await wait_for_sync(60)
            assert await world.get(f"{NODES}/n") is not None
        await wait_for_sync(60)
        assert await world.get(f"{NODES}/n") is not None
        await world.report_node("n", UNREADY)
        await wait_for_sync(60)
        assert await world.get(f"{NODES}/n") is None


async def test_cloud_provider_error_skips_only_one_node(env: Env) -> None:
    async with node_world.world(env) as world:
        cloud = SimulatedCloud(world.env)
        cloud.instances = Unreachable()
        for name in ("a", "mute", "z"):
            await world.node(name, conditions=UNREADY)
        await world.start(DESCRIPTOR, CloudNodeLifecycleOptions(provider=cloud))
        await wait_for_sync(60)
        items = (await world.must_get(NODES))["items"]
        assert [item["metadata"]["name"] for item in items] == ["mute"]


async def test_failed_writes_are_retried_in_the_next_pass(world: World) -> None:
    world.faults.add(Rule(conflict(), verb="patch", resource="nodes", times=2))
    world.faults.add(Rule(fail(500), verb="delete", resource="nodes", times=2))
    await world.node("off", conditions=UNREADY, annotations={INSTANCE: "stopped"})
    await world.node("gone", conditions=UNREADY, annotations={INSTANCE: "gone"})
    await wait_for_sync(30)
    assert await world.taints("off") == [TAINT]
    assert await world.get(f"{NODES}/gone") is None
    failed = await world.events("DeletingNodeFailed")
    assert failed
    assert failed[0].startswith("Node/gone Failed deleting node gone: ")
