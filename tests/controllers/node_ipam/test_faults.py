"""Nodes are added and deleted under faults: no two nodes ever have the same CIDR, none changes its CIDR, and in the end
every node has one."""

import asyncio
import random

import pytest
from tests.controllers.node_ipam.test_controller import all_ranges, new_node
from tests.controllers.node_world import NODES, World

from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Action, Rule, conflict, delay, fail, lose_answer, lose_request, time_out
from pilothouse.controllers.node.node_ipam import DESCRIPTOR, NodeIpamOptions
from pilothouse.machinery.cidrs import parse_cidr, prefixes_overlap
from pilothouse.machinery.splice import take_field
from pilothouse.storage import Change

NAMES = tuple(f"n{number}" for number in range(6))
FAMILIES = {
    "eight blocks": NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/24", mask_size=27),
    "four blocks": NodeIpamOptions(allocate=True, cluster_cidr="10.0.0.0/25", mask_size=27),
    "two families": NodeIpamOptions(
        allocate=True, cluster_cidr="10.0.0.0/24,2001:db8::/60", mask_size_ipv4=27, mask_size_ipv6=63,
        service_ranges="10.0.0.0/28",
    ),
}  # fmt: skip


class DisjointRanges:
    """Checks every write against the podCIDRs that existing nodes have and had."""

    def __init__(self, world: World) -> None:
        self.nodes: dict[str, tuple[bytes, bytes]] = {}
        self.wrong: list[str] = []
        self.given = 0
        world.store.on_commit.append(self.observe)

    def observe(self, changes: list[Change]) -> None:
        for change in changes:
            if not change.key.startswith("/nodes/"):
                continue
            if change.type == "DELETED":
                self.nodes.pop(change.key, None)
                continue
            uids = (
                bytes(take_field(change.value, "metadata.uid") or b""),
                bytes(take_field(change.value, "spec.podCIDRs") or b""),
            )
            before = self.nodes.get(change.key)
            if before is not None and before[0] == uids[0] and before[1] not in (b"", uids[1]):
                self.wrong.append(f"{change.key} had {before[1]!r} and has {uids[1]!r}")
            if uids[1] and (before is None or before[1] != uids[1]):
                self.given += 1
                twins = [key for key, other in self.nodes.items() if key != change.key and other[1] == uids[1]]
                self.wrong += [f"{change.key} and {twin} have {uids[1]!r}" for twin in twins]
            self.nodes[change.key] = uids


def trouble(rng: random.Random) -> list[Rule]:
    """Three kinds of it."""
    kinds: tuple[tuple[Action, str, float], ...] = (
        (lose_answer(), "patch", 0.5),
        (lose_request(), "patch", 0.4),
        (time_out(sent=True), "patch", 0.4),
        (conflict(), "patch", 0.5),
        (fail(500), "patch", 0.5),
        (fail(403), "patch", 0.5),
        (delay(0.0, 3.0), "patch", 1.0),
        (delay(0.0, 20.0), "watch", 1.0),
        (fail(503), "list", 0.5),
    )
    chosen = rng.sample(kinds, 3)
    return [Rule(action, verb=verb, probability=probability) for action, verb, probability in chosen]


async def run_random_actions(world: World, rng: random.Random, options: NodeIpamOptions) -> None:
    """Create and delete nodes, and restart the manager."""
    manager = await world.start(DESCRIPTOR, options)
    for _ in range(40):
        name = rng.choice(NAMES)
        act = rng.randrange(10)
        try:
            if act < 4:
                finalizers = ["example.com/hold"] if rng.random() < 0.2 else []
                await new_node(world, name, finalizers=finalizers)
            elif act < 6:
                await world.delete(f"{NODES}/{name}")
            elif act < 7:
                await world.merge(f"{NODES}/{name}", {"metadata": {"finalizers": None}})
            elif act < 8:
                await world.report_node(name, {"Ready": rng.choice(("True", "False"))})
            elif act < 9:
                world.faults.end_watches(resource="nodes")
            else:
                manager.cancel()
                await asyncio.wait_for(asyncio.gather(manager, return_exceptions=True), 60)
                manager = await world.start(DESCRIPTOR, options)
        except ApiError:
            pass  # there is such a node already, or none; users live with that
        await asyncio.sleep(rng.choice((0, 0, 0.01, 1.0, 15.0)))


@pytest.mark.parametrize("case", sorted(FAMILIES))
async def test_pod_cidrs_are_unique_under_faults(world: World, case: str, seed: int) -> None:
    options = FAMILIES[case]
    rng = random.Random(seed)
    judge = DisjointRanges(world)
    for rule in trouble(rng):
        world.faults.add(rule)
    await run_random_actions(world, rng, options)
    world.faults.clear()
    for name in NAMES:
        if await world.get(f"{NODES}/{name}") is not None:
            await world.merge(f"{NODES}/{name}", {"metadata": {"finalizers": None}})
    for name in NAMES[4:]:
        if await world.get(f"{NODES}/{name}") is not None:
            await world.delete(f"{NODES}/{name}")
    for name in NAMES[:4]:
        if await world.get(f"{NODES}/{name}") is None:
            await new_node(world, name)
    await asyncio.sleep(1100)  # longer than any back-off
    result = await all_ranges(world)
    count = len(options.cluster_cidr.split(","))
    assert {name: len(ranges) for name, ranges in result.items()} == dict.fromkeys(NAMES[:4], count)
    services = [parse_cidr(text) for text in options.service_ranges.split(",") if text]
    ranges = [parse_cidr(text) for value in result.values() for text in value]
    assert not any(prefixes_overlap(item, service) for item in ranges for service in services)
    world.seen.clear()
    await asyncio.sleep(1100)
    assert world.requests() == [], "the end is quiet"
    assert judge.wrong == []
    assert judge.given >= 4
