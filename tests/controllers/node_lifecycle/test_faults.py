"""Nodes are added, deleted and unreachable while requests fail and caches lag: no pod is deleted wrongly.

Three controllers together: node lifecycle, taint eviction, pod garbage collection.
"""

import asyncio
import random

import msgspec
from tests.controllers.node_world import HEALTHY, NODES, PODS, World, toleration

from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Observation, Rule, Sent, conflict, delay, fail, lose_answer
from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR as POD_GARBAGE_COLLECTOR
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR as NODE_LIFECYCLE
from pilothouse.controllers.node.taint_eviction import DESCRIPTOR as TAINT_EVICTION
from pilothouse.env import TaskGroup

NAMES = ("n0", "n1", "n2", "n3")
OUT = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
LIVE_SECONDS = 1.0


class RandomFaults:
    """Random faults of four nodes and their pods by seed, and invariants.

    A pod is named ``<kind>-<node>-<serial>``.
    """

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.alive: dict[str, None] = {}
        self.deleted_nodes: dict[str, None] = {}
        """Deleted nodes, and nodes that are out of service while they do not report."""
        self.recovered_at: dict[str, float] = {}
        self.serial = 0
        self.wrong: list[str] = []
        world.faults.observer = self.observe

    def observe(self, change: Observation) -> None:
        self.world._observe(change)
        if isinstance(change, Sent) and change.call.verb == "delete":
            kind, node, _serial = change.call.name.split("-")
            forced = msgspec.json.decode(change.request.body).get("gracePeriodSeconds") == 0
            since = self.world.env.monotonic() - self.recovered_at.get(node, -1e9)
            if forced and node not in self.deleted_nodes and since > LIVE_SECONDS:
                self.wrong.append(
                    f"{change.call.name} was forced off a node that is there, {since} s after it came back"
                )
            if not forced and kind == "forever":
                self.wrong.append(f"{change.call.name} was evicted and tolerates everything")

    async def renew(self) -> None:
        while True:
            for name in list(self.alive):
                await self.world.renew(name)
            await asyncio.sleep(10)

    async def kubelets(self) -> None:
        """Pods that are being deleted end, on nodes that are alive."""
        while True:
            for pod in (await self.world.must_get(PODS))["items"]:
                meta = pod["metadata"]
                if "deletionTimestamp" in meta and pod["spec"]["nodeName"] in self.alive:
                    await self.world.delete(f"{PODS}/{meta['name']}", grace=0)
            await asyncio.sleep(3)

    async def start_pod(self, name: str) -> None:
        self.serial += 1
        kind, tolerations = self.rng.choice(
            (
                ("forever", ({"operator": "Exists"},)),
                ("while", tuple(toleration(f"node.kubernetes.io/{key}", 40) for key in ("unreachable", "not-ready"))),
                ("none", ()),
            )
        )
        await self.world.pod(f"{kind}-{name}-{self.serial}", node=name, ready=True, tolerations=tolerations)

    async def stop_heartbeats(self, name: str) -> None:
        self.alive.pop(name, None)

    async def recover(self, name: str) -> None:
        world = self.world
        if await world.get(f"{NODES}/{name}") is None:
            await world.node(name)
        else:
            taints = (await world.must_get(f"{NODES}/{name}"))["spec"].get("taints") or []
            await world.taint(name, *[taint for taint in taints if taint["key"] != OUT["key"]])
            await world.report_node(name, HEALTHY)
        await world.renew(name)
        if name in self.deleted_nodes:
            del self.deleted_nodes[name]
            self.recovered_at[name] = world.env.monotonic()
        self.alive[name] = None

    async def delete_node(self, name: str) -> None:
        if name in self.alive or await self.world.get(f"{NODES}/{name}") is None:
            return
        self.deleted_nodes[name] = None
        if self.rng.random() < 0.5:
            await self.world.delete(f"{NODES}/{name}")
        else:
            await self.world.taint(name, OUT)

    async def run(self) -> None:
        acts = (self.start_pod, self.start_pod, self.stop_heartbeats, self.recover, self.recover, self.delete_node)
        for _ in range(40):
            try:
                await self.rng.choice(acts)(self.rng.choice(NAMES))
            except ApiError:
                pass  # somebody was faster; users live with that
            await asyncio.sleep(self.rng.uniform(1, 40))


def trouble(rng: random.Random) -> list[Rule]:
    share = rng.choice((0.0, 0.05, 0.3))
    return [
        Rule(fail(500), verb="patch", probability=share),
        Rule(fail(500), verb="delete", probability=share),
        Rule(fail(503), verb="get", probability=share),
        Rule(conflict(), verb="update", probability=share),
        Rule(lose_answer(), probability=share / 2, resource="pods"),
        Rule(delay(0.0, rng.choice((0.1, 5.0, 60.0))), verb="watch", resource="nodes"),
        Rule(delay(0.0, rng.choice((0.1, 5.0))), verb="watch", resource="pods"),
    ]


async def test_only_pods_of_unreachable_nodes_are_deleted_under_faults(world: World, seed: int) -> None:
    rng = world.env.stream("story")
    story = RandomFaults(world, rng)
    for name in NAMES:
        await world.node(name)
        await world.renew(name)
        story.alive[name] = None
    for descriptor in (NODE_LIFECYCLE, TAINT_EVICTION, POD_GARBAGE_COLLECTOR):
        await world.start(descriptor)
    async with TaskGroup("kubelets") as group:
        group.start(story.renew())
        group.start(story.kubelets())
        for rule in trouble(rng):
            world.faults.add(rule)
        await story.run()
        world.faults.clear()
        for name in NAMES:
            await story.recover(name)
        await asyncio.sleep(400)
        world.seen.clear()
        await asyncio.sleep(300)
        assert world.requests(reads=False) == [], "the end is quiet"
        assert [await world.taints(name) for name in NAMES] == [[], [], [], []]
        assert all("deletionTimestamp" not in pod["metadata"] for pod in (await world.must_get(PODS))["items"])
        group.cancel()
    assert story.wrong == []
