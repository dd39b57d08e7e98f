"""The controller on the embedded API server and a simulated cloud, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import NODES, Doc, World

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.cloud.node_route import DESCRIPTOR, NodeRouteOptions
from pilothouse.controllers.shared.cloud import Route
from pilothouse.controllers.shared.simulated_cloud import SimulatedCloud, SimulatedRoutes
from pilothouse.env import Env

A, B = "10.120.0.0/24", "10.120.1.0/24"


class Refusing(SimulatedRoutes):
    """Creates of routes fail until enabled."""

    refuses = True

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        if self.refuses:
            raise ValueError("no quota")
        await super().create(cluster, name_hint, route)


@contextlib.asynccontextmanager
async def routing(env: Env) -> AsyncIterator[tuple[World, SimulatedCloud]]:
    """A world in which the controller runs."""
    async with node_world.world(env) as world:
        cloud = SimulatedCloud(world.env)
        options = NodeRouteOptions(provider=cloud, allocate=True, cluster_cidr="10.120.0.0/16")
        await world.start(DESCRIPTOR, options)
        yield world, cloud


async def wait_for_sync(seconds: float = 11.0) -> None:
    await asyncio.sleep(seconds)


async def node(world: World, name: str, *ranges: str) -> None:
    await world.node(name)
    if ranges:
        await world.merge(f"{NODES}/{name}", {"spec": {"podCIDR": ranges[0], "podCIDRs": list(ranges)}})


async def network(world: World, name: str) -> Doc | None:
    return (await world.conditions(f"{NODES}/{name}")).get("NetworkUnavailable")


def destinations(cloud: SimulatedCloud) -> dict[str, str]:
    return {route.destination: route.node for route in cloud.known_routes.values()}


async def test_nodes_get_routes_and_network_available(env: Env) -> None:
    async with routing(env) as (world, cloud):
        await node(world, "a", A)
        await node(world, "b", B)
        await node(world, "c")
        await wait_for_sync()
        assert destinations(cloud) == {A: "a", B: "b"}
        result = await network(world, "a")
        assert result is not None
        assert (result["status"], result["reason"]) == ("False", "RouteCreated")
        assert result["message"] == "RouteController created a route"
        assert await network(world, "c") is None
        assert sorted(set(world.requests())) == ["patch nodes/status a", "patch nodes/status b"]
        await wait_for_sync(600)
        assert len(world.requests()) == 2, "and that is all"
        assert world.metrics.value("route_controller_route_sync_total") > 50
        await world.delete(f"{NODES}/b")
        await wait_for_sync()
        assert destinations(cloud) == {A: "a"}


async def test_failed_route_creation_emits_an_event_and_is_retried(world: World) -> None:
    cloud = SimulatedCloud(world.env)
    refusing = Refusing(cloud.known_routes)
    cloud.routes = refusing
    options = NodeRouteOptions(provider=cloud, allocate=True, cluster_cidr="10.120.0.0/16")
    await node(world, "a", A)
    await world.start(DESCRIPTOR, options)
    await wait_for_sync(25)
    result = await network(world, "a")
    assert result is not None
    assert (result["status"], result["reason"]) == ("True", "NoRouteCreated")
    (messages,) = set(await world.events("FailedToCreateRoute"))
    assert messages.startswith("Node/a Could not create route ")
    assert messages.endswith(f" {A} for node a after 0s: no quota")
    refusing.refuses = False
    await wait_for_sync()
    result = await network(world, "a")
    assert result is not None
    assert result["status"] == "False"


async def test_failed_status_update_is_retried_in_the_next_pass(env: Env) -> None:
    async with routing(env) as (world, _cloud):
        world.faults.add(Rule(fail(500), verb="patch", resource="nodes", times=2))
        await node(world, "a", A)
        await wait_for_sync(35)
        assert await network(world, "a") is not None


@pytest.mark.parametrize(
    "options",
    [
        {"allocate": False, "cluster_cidr": "10.120.0.0/16"},
        {"allocate": True, "cluster_cidr": "10.120.0.0/16", "configured": False},
    ],
    ids=["allocate-node-cidrs disabled", "configure-cloud-routes disabled"],
)
async def test_controller_is_disabled_without_routes_support(world: World, options: dict[str, bool | str]) -> None:
    cloud = SimulatedCloud(world.env)
    await world.start(DESCRIPTOR, NodeRouteOptions(provider=cloud, **options))  # type: ignore[arg-type]  # a table
    await node(world, "a", A)
    await wait_for_sync(60)
    assert cloud.known_routes == {}
