"""The controller on the embedded server in virtual time: requests, failures, restarts, a lagging watch."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import NODES, Doc, World, fixture_of
from tests.tables import cases

from pilothouse.client import Client
from pilothouse.client.interceptor import Action, Rule, conflict, delay, fail, lose_answer, lose_request, time_out
from pilothouse.controllers.node.node_ipam import DESCRIPTOR, NodeIpamOptions
from pilothouse.env import Env
from pilothouse.runtime import ControllerContext, InformerFactory
from pilothouse.runtime.errors import CannotRun

FOUR = NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/24", mask_size=26)
ONE = NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/26", mask_size=26)
BOTH = NodeIpamOptions(
    allocate=True, cluster_cidr="10.0.0.0/16,2001:db8::/48", service_ranges="10.0.0.0/20,2001:db8::/50"
)


async def new_node(world: World, name: str, *ranges: str, **metadata: Any) -> Doc:
    """A Node as a kubelet registers it, with podCIDRs if they are given."""
    spec = {"podCIDR": ranges[0], "podCIDRs": list(ranges)} if ranges else {}
    return await world.request("POST", NODES, {"metadata": {"name": name, **metadata}, "spec": spec})


async def ranges_of(world: World, name: str) -> list[str]:
    node: list[str] = (await world.must_get(f"{NODES}/{name}"))["spec"].get("podCIDRs", [])
    return node


async def all_ranges(world: World) -> dict[str, list[str]]:
    return {
        item["metadata"]["name"]: item["spec"].get("podCIDRs", []) for item in (await world.must_get(NODES))["items"]
    }


@contextlib.asynccontextmanager
async def managed(env: Env, options: NodeIpamOptions = FOUR) -> AsyncIterator[World]:
    """With the controller started on an empty cluster."""
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR, options)
        await asyncio.sleep(1)
        yield world


world = fixture_of(managed)


def used(world: World, cluster: str = "10.0.0.0/24") -> float:
    return world.metrics.value("node_ipam_controller_cidrset_usage_cidrs", cluster)


async def test_every_node_gets_a_pod_cidr_with_one_request(world: World) -> None:
    created_nodes = [await new_node(world, name) for name in ("a", "b")]
    await asyncio.sleep(1)
    assert await all_ranges(world) == {"a": ["10.0.0.0/26"], "b": ["10.0.0.64/26"]}
    assert (await world.must_get(f"{NODES}/a"))["spec"]["podCIDR"] == "10.0.0.0/26"
    assert world.requests() == ["patch nodes a", "patch nodes b"]
    body = {
        "metadata": {"uid": created_nodes[0]["metadata"]["uid"]},
        "spec": {"podCIDR": "10.0.0.0/26", "podCIDRs": ["10.0.0.0/26"]},
    }
    assert world.bodies("patch", "nodes")[0] == body
    assert world.seen[-1].request.headers["content-type"] == "application/strategic-merge-patch+json"
    await world.report_node("a", {"Ready": "True"})
    await asyncio.sleep(3600)
    assert len(world.requests()) == 2, "that was all"
    assert await world.events() == []


@cases(
    "options, expected",
    {
        "IPv4 first, after the services": (BOTH, ["10.0.16.0/24", "2001:db8:0:4000::/64"]),
        "IPv6 first": (
            NodeIpamOptions(allocate=True, cluster_cidr="2001:db8::/48,10.0.0.0/16", mask_size_ipv6=56),
            ["2001:db8::/56", "10.0.0.0/24"],
        ),
    },
)
async def test_dual_stack_node_gets_a_cidr_of_each_family(
    env: Env, options: NodeIpamOptions, expected: list[str]
) -> None:
    async with managed(env, options) as world:
        await new_node(world, "a")
        await asyncio.sleep(1)
        spec = (await world.must_get(f"{NODES}/a"))["spec"]
        assert (spec["podCIDR"], spec["podCIDRs"]) == (expected[0], expected)


async def test_existing_pod_cidrs_are_occupied_at_startup(env: Env) -> None:
    async with node_world.world(env) as world:
        await new_node(world, "a", "10.0.0.0/26")
        await new_node(world, "b")
        await new_node(world, "c", "10.0.0.128/26")
        manager = await world.start(DESCRIPTOR, FOUR)
        await asyncio.sleep(1)
        expected = {"a": ["10.0.0.0/26"], "b": ["10.0.0.64/26"], "c": ["10.0.0.128/26"]}
        assert await all_ranges(world) == expected
        manager.cancel()
        await asyncio.sleep(1)
        await world.start(DESCRIPTOR, FOUR)
        await new_node(world, "d")
        await asyncio.sleep(1)
        assert await all_ranges(world) == expected | {"d": ["10.0.0.192/26"]}


async def test_pod_cidrs_are_read_live_after_a_leader_change(env: Env) -> None:
    async with node_world.world(env) as world:
        for name in ("a", "b"):
            await new_node(world, name)
        first_list = world.faults.add(Rule(fail(503), verb="list", resource="nodes", times=1))
        await world.start(DESCRIPTOR, FOUR)
        with world.faults.hold(resource="nodes"):
            await world.merge(f"{NODES}/b", {"spec": {"podCIDR": "10.0.0.0/26", "podCIDRs": ["10.0.0.0/26"]}})
            await asyncio.sleep(20)
            assert first_list.hits == 1
            assert await all_ranges(world) == {"a": ["10.0.0.64/26"], "b": ["10.0.0.0/26"]}
        await asyncio.sleep(1)
        assert world.requests() == ["patch nodes a"]


async def test_stale_deleted_node_does_not_release_the_cidr_of_its_successor(env: Env) -> None:
    async with node_world.world(env) as world:
        for name in ("a", "waiting"):
            await new_node(world, name)
        world.faults.add(Rule(fail(503), verb="list", resource="nodes", times=1))
        await world.start(DESCRIPTOR, ONE)
        with world.faults.hold(resource="nodes") as hold:
            await world.delete(f"{NODES}/a")
            await new_node(world, "a", "10.0.0.0/26")
            await asyncio.sleep(60)
            assert await all_ranges(world) == {"a": ["10.0.0.0/26"], "waiting": []}
            hold.release(1)  # that the previous node was deleted
            await asyncio.sleep(60)
            assert await all_ranges(world) == {"a": ["10.0.0.0/26"], "waiting": []}
        await asyncio.sleep(1100)
        assert await all_ranges(world) == {"a": ["10.0.0.0/26"], "waiting": []}
        assert world.requests() == []


@cases(
    "action, freed",
    {
        "response lost": (lose_answer(), False),
        "timeout": (time_out(sent=True), False),
        "request lost": (lose_request(), False),
        "server error": (fail(500), False),
        "forbidden": (fail(403), True),
        "conflicts": (conflict(), True),
    },
)
async def test_cidr_is_released_only_if_the_write_certainly_failed(world: World, action: Action, freed: bool) -> None:
    rule = world.faults.add(Rule(action, verb="patch", resource="nodes", name="a", times=3))
    with world.faults.hold(resource="nodes") as hold:
        await new_node(world, "a")
        await new_node(world, "b")
        hold.release(2)  # the nodes are observed, the writes to them are not
        await asyncio.sleep(5)
    await asyncio.sleep(5)
    assert rule.hits == 3
    assert await world.events() == ["Node/a Node a status is now: CIDRAssignmentFailed"]
    first, *_rest = await ranges_of(world, "a")
    assert (first != "10.0.0.0/26") is freed
    assert await ranges_of(world, "b") == ["10.0.0.64/26"]
    assert used(world) == 0.5


@pytest.mark.parametrize("code", [403, 404])
async def test_rejected_retry_does_not_release_the_cidr_of_an_earlier_attempt(env: Env, code: int) -> None:
    """Nor does a 404 without the node's details, as from a proxy."""
    async with managed(env, NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/24", mask_size=25)) as world:
        world.faults.add(Rule(lose_answer(), verb="patch", resource="nodes", name="a", times=3))
        world.faults.add(Rule(fail(code), verb="patch", resource="nodes", name="a"))
        with world.faults.hold(resource="nodes") as hold:
            for name in ("a", "b", "c"):
                await new_node(world, name)
            hold.release(3)  # the writes to them are not observed
            await asyncio.sleep(60)
            assert await all_ranges(world) == {"a": ["10.0.0.0/25"], "b": ["10.0.0.128/25"], "c": []}


async def test_two_conflicts_cause_three_identical_patches(world: World) -> None:
    world.faults.add(Rule(conflict(), verb="patch", resource="nodes", times=2))
    await new_node(world, "a")
    await asyncio.sleep(5)
    assert await ranges_of(world, "a") == ["10.0.0.0/26"]
    assert world.requests() == ["patch nodes a"] * 3
    assert len({str(body) for body in world.bodies("patch", "nodes")}) == 1
    assert await world.events() == []


async def test_node_deleted_during_the_update_releases_its_cidr(world: World) -> None:
    world.faults.add(Rule(delay(2.0), verb="patch", resource="nodes"))
    await new_node(world, "a")
    await asyncio.sleep(1)
    await world.delete(f"{NODES}/a")
    await asyncio.sleep(5)
    assert used(world) == 0
    assert world.requests() == ["patch nodes a"]
    assert await world.events() == []


async def test_late_update_does_not_apply_to_a_recreated_node(world: World) -> None:
    world.faults.add(Rule(delay(2.0), verb="patch", resource="nodes", times=1))
    await new_node(world, "a")
    await asyncio.sleep(1)
    await world.delete(f"{NODES}/a")
    await new_node(world, "a")
    await new_node(world, "b")
    await asyncio.sleep(0.5)
    assert await all_ranges(world) == {"a": [], "b": ["10.0.0.64/26"]}, "the new a waits for the old one's write"
    await asyncio.sleep(10)
    assert await all_ranges(world) == {"a": ["10.0.0.128/26"], "b": ["10.0.0.64/26"]}
    assert used(world) == 0.5


async def test_node_without_a_cidr_gets_the_next_released_one(world: World) -> None:
    """Upstream's node would wait for its backoff of several minutes."""
    for number in range(4):
        await new_node(world, f"n{number}")
    await asyncio.sleep(1)
    await new_node(world, "late")
    await new_node(world, "later")
    await asyncio.sleep(3600)
    events = await world.events("CIDRNotAvailable")
    assert set(events) == {f"Node/{n} Node {n} status is now: CIDRNotAvailable" for n in ("late", "later")}
    assert used(world) == 1
    for deleted_name, gets in (("n2", "late"), ("n0", "later")):
        freed = await ranges_of(world, deleted_name)
        await world.delete(f"{NODES}/{deleted_name}")
        await asyncio.sleep(0.1)
        assert await ranges_of(world, gets) == freed


async def test_cidr_of_a_node_deleted_while_the_watch_was_broken_is_released(world: World) -> None:
    for number in range(4):
        await new_node(world, f"n{number}")
    await asyncio.sleep(1)
    with world.faults.hold(resource="nodes"):
        for number in (0, 1, 2):
            await world.delete(f"{NODES}/n{number}")
        await new_node(world, "n1")  # of the same name, and another one
        world.faults.end_watches(resource="nodes")
    await asyncio.sleep(30)
    assert await ranges_of(world, "n1") == ["10.0.0.0/26"]
    assert used(world) == 0.5


async def test_cidr_of_a_node_deleted_before_the_first_watch_is_released(env: Env) -> None:
    """It was in the initial list, and no event reports its deletion."""
    async with node_world.world(env) as world:
        world.faults.add(Rule(fail(503), verb="list", resource="nodes", times=1))
        await world.start(DESCRIPTOR, ONE)
        with world.faults.hold(resource="nodes"):
            await new_node(world, "ghost", "10.0.0.0/26")
            await asyncio.sleep(15)
            assert used(world, "10.0.0.0/26") == 1
            await world.delete(f"{NODES}/ghost")
            world.faults.end_watches(resource="nodes")
        await asyncio.sleep(5)
        await new_node(world, "a")
        await asyncio.sleep(5)
        assert await ranges_of(world, "a") == ["10.0.0.0/26"]
        assert await world.events() == []


async def test_terminating_node_with_a_finalizer_keeps_its_cidr(env: Env) -> None:
    """Upstream releases its CIDR when it is marked for deletion, and allocates it to another node."""
    async with managed(env, ONE) as world:
        await new_node(world, "a", finalizers=["example.com/hold"])
        await asyncio.sleep(1)
        await world.delete(f"{NODES}/a")
        await new_node(world, "b")
        await asyncio.sleep(100)
        assert await all_ranges(world) == {"a": ["10.0.0.0/26"], "b": []}
        await world.merge(f"{NODES}/a", {"metadata": {"finalizers": None}})
        await asyncio.sleep(1)
        assert await all_ranges(world) == {"b": ["10.0.0.0/26"]}


async def test_terminating_node_gets_no_cidr(env: Env) -> None:
    async with node_world.world(env) as world:
        await new_node(world, "a", finalizers=["example.com/hold"])
        await world.delete(f"{NODES}/a")
        await world.start(DESCRIPTOR, FOUR)
        await asyncio.sleep(10)
        assert world.requests() == []


async def test_node_with_cidrs_outside_the_cluster_cidr_does_not_affect_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await new_node(world, "stranger", "172.16.0.0/26")
    await new_node(world, "a")
    await new_node(world, "twin", "10.0.0.0/26")
    await asyncio.sleep(3600)
    assert await ranges_of(world, "a") == ["10.0.0.0/26"]
    messages = [record.getMessage() for record in caplog.records]
    assert sum("is out the range of cluster cidr 10.0.0.0/24" in str(record.__dict__) for record in caplog.records) == 1
    assert any("Nodes have the same pod addresses" in message for message in messages)


async def run_alone(world: World) -> None:
    """The controller as a program would run it, until it ends by itself."""
    client = Client(world.faults, world.env)
    informers = InformerFactory(client, world.env)
    context = ControllerContext(
        env=world.env, client=client, informers=informers, metadata_informers=informers, options=FOUR
    )
    controller = DESCRIPTOR.build(context)
    watching = asyncio.create_task(informers.informer(DESCRIPTOR.watches[0].kind).run())
    try:
        await controller.run()
    finally:
        watching.cancel()


async def test_unoccupiable_pod_cidrs_fail_startup(env: Env) -> None:
    """TestOccupyPreExistingCIDR: the allocator cannot be created."""
    async with node_world.world(env) as world:
        await new_node(world, "stranger", "172.16.0.0/26")
        with pytest.raises(CannotRun) as caught:
            await run_alone(world)
        assert "failed to mark cidr[172.16.0.0/26] at idx [0] as occupied for node: stranger" in str(caught.value)


async def test_initial_node_list_is_retried_for_ten_minutes(env: Env) -> None:
    async with node_world.world(env) as world:
        rule = world.faults.add(Rule(fail(500), verb="list", resource="nodes"))
        began = world.env.monotonic()
        with pytest.raises(CannotRun, match="failed to list all nodes in 10m0s"):
            await run_alone(world)
        assert rule.hits == 61
        assert world.env.monotonic() - began == pytest.approx(600, abs=1)


async def test_invalid_settings_fail_construction(env: Env) -> None:
    async with node_world.world(env) as world:
        with pytest.raises(ValueError, match="Must specify --cluster-cidr"):
            await world.start(DESCRIPTOR, NodeIpamOptions(allocate=True))
