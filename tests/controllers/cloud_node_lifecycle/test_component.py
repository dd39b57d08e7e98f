"""The controller between the embedded API server and a simulated cloud, in virtual time.

Cases of ``Test_NodesDeleted``, ``Test_NodesShutdown`` and ``Test_GetProviderID``, k8s.io/cloud-provider v0.36
``controllers/nodelifecycle/node_lifecycle_controller_test.go``, in our own words.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.controllers.node_world import HEALTHY, NODES, World, play

from pilothouse.api.core import Node
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.cloud.cloud_node_lifecycle import DESCRIPTOR, CloudNodeLifecycleOptions
from pilothouse.controllers.shared.simulated_cloud import INSTANCE, SimulatedCloud

Story = Callable[[World], Awaitable[None]]
UNREADY = {"Ready": "False"}
TAINT = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule"


class Unreachable:
    """A cloud that does not answer about some nodes."""

    async def exists(self, node: Node) -> bool:
        if node.metadata.name == "mute":
            raise OSError("unreachable")
        return False

    async def is_shut_down(self, node: Node) -> bool:
        raise OSError("unreachable")


class Machines:
    """A cloud that has all machines, or none."""

    there = True

    async def exists(self, node: Node) -> bool:
        return self.there

    async def is_shut_down(self, node: Node) -> bool:
        return False


def watching(story: Story, cloud: SimulatedCloud | None = None) -> None:
    """Tell a story in which the controller runs."""

    async def with_controller(world: World) -> None:
        provider = cloud or SimulatedCloud(world.env)
        await world.start(DESCRIPTOR, CloudNodeLifecycleOptions(provider=provider))
        await story(world)

    play(with_controller)


async def soon(seconds: float = 6.0) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.parametrize(
    ("conditions", "instance", "stays", "taints"),
    [
        pytest.param(UNREADY, "gone", False, [], id="node is not ready and does not exist"),
        pytest.param({"Ready": "Unknown"}, "gone", False, [], id="node is unknown and does not exist"),
        pytest.param({}, "gone", False, [], id="node has no Ready condition and does not exist"),
        pytest.param(HEALTHY, "gone", True, [], id="node is ready, whatever the cloud says"),
        pytest.param(UNREADY, "", True, [], id="node is not ready, but exists"),
        pytest.param({"Ready": "Unknown"}, "", True, [], id="node is unknown, but exists"),
        pytest.param(UNREADY, "stopped", True, [TAINT], id="node is not ready and was shut down, but exists"),
        pytest.param(HEALTHY, "stopped", True, [], id="node is ready, and its machine is said to be off"),
    ],
)
def test_what_becomes_of_a_node(conditions: dict[str, str], instance: str, stays: bool, taints: list[str]) -> None:
    async def story(world: World) -> None:
        await world.node("n", conditions=conditions, annotations={INSTANCE: instance})
        await soon()
        found = await world.get(f"{NODES}/n")
        assert (found is not None) is stays
        told = await world.events("DeletingNode")
        assert told == ([] if stays else ["Node/n Deleting node n because it does not exist in the cloud provider"])
        if stays:
            assert await world.taints("n") == taints
            asked = len(world.requests())
            await soon(600)
            writes = [text for text in world.requests()[asked:] if not text.startswith("get")]
            assert writes == []

    watching(story)


def test_a_machine_that_is_switched_on_again_loses_the_taint() -> None:
    async def story(world: World) -> None:
        await world.node("n", conditions=UNREADY, annotations={INSTANCE: "stopped"})
        await world.taint("n", {"key": "other", "effect": "NoSchedule"})
        await soon()
        assert await world.taints("n") == ["other:NoSchedule", TAINT]
        await world.report_node("n", HEALTHY)
        await soon()
        assert await world.taints("n") == ["other:NoSchedule"]

    watching(story)


def test_a_node_that_is_ready_by_now_is_not_deleted() -> None:
    """The cache does not know yet. Upstream goes by the cache."""

    async def with_controller(world: World) -> None:
        cloud, machines = SimulatedCloud(world.env), Machines()
        cloud.instances = machines
        await world.node("n", conditions=UNREADY)
        await world.start(DESCRIPTOR, CloudNodeLifecycleOptions(provider=cloud))
        with world.faults.hold(resource="nodes"):
            await world.report_node("n", HEALTHY)
            machines.there = False
            await soon(60)
            assert await world.get(f"{NODES}/n") is not None
        await soon(60)
        assert await world.get(f"{NODES}/n") is not None
        await world.report_node("n", UNREADY)
        await soon(60)
        assert await world.get(f"{NODES}/n") is None

    play(with_controller)


def test_a_cloud_that_does_not_answer_costs_one_node_its_turn() -> None:
    async def with_controller(world: World) -> None:
        cloud = SimulatedCloud(world.env)
        cloud.instances = Unreachable()
        for name in ("a", "mute", "z"):
            await world.node(name, conditions=UNREADY)
        await world.start(DESCRIPTOR, CloudNodeLifecycleOptions(provider=cloud))
        await soon(60)
        items = (await world.see(NODES))["items"]
        assert [item["metadata"]["name"] for item in items] == ["mute"]

    play(with_controller)


def test_writes_that_fail_are_made_in_the_next_pass() -> None:
    async def story(world: World) -> None:
        world.faults.add(Rule(conflict(), verb="patch", resource="nodes", times=2))
        world.faults.add(Rule(fail(500), verb="delete", resource="nodes", times=2))
        await world.node("off", conditions=UNREADY, annotations={INSTANCE: "stopped"})
        await world.node("gone", conditions=UNREADY, annotations={INSTANCE: "gone"})
        await soon(30)
        assert await world.taints("off") == [TAINT]
        assert await world.get(f"{NODES}/gone") is None
        failed = await world.events("DeletingNodeFailed")
        assert failed
        assert failed[0].startswith("Node/gone Failed deleting node gone: ")

    watching(story)
