"""Random clusters: finally no pending pod fits a node, and no state of deleted objects remains."""

import asyncio
import random
from collections.abc import Awaitable
from typing import Any

import pytest
from tests.nodes.world import World, world
from tests.scheduler.build import HOSTNAME, ZONE, affinity, anti_affinity, spread, term
from tests.scheduler.conftest import create_priority_classes

from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, delay, gone, lose_answer
from pilothouse.env import Env
from pilothouse.runtime import InformerFactory
from pilothouse.scheduler import Scheduler
from pilothouse.scheduler.framework.fit_error import FitError
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.scheduler import MAX_CONCURRENT_WRITES

APPS = ("web", "db", "mq")


class Chaos:
    """Makes random changes to one cluster."""

    def __init__(self, w: World, chance: random.Random) -> None:
        self.w = w
        self.chance = chance
        self.nodes: list[str] = []
        self.pods: list[str] = []
        self.count = 0

    def new_name(self, kind: list[str]) -> str:
        self.count += 1
        kind.append(f"x{self.count}")
        return kind[-1]

    def pod(self, name: str) -> Awaitable[Any]:
        app, other = self.chance.choice(APPS), self.chance.choice(APPS)
        zone, rack = self.chance.choice((ZONE, "rack")), self.chance.choice("ab")
        parts: list[dict[str, Any]] = [
            {"topologySpreadConstraints": [spread(zone, app=app, nodeTaintsPolicy="Honor")]},
            {"topologySpreadConstraints": [spread(zone, app=app, minDomains=2)]},
            {"affinity": anti_affinity(term(self.chance.choice((ZONE, HOSTNAME)), app=other))},
            {"affinity": affinity(term(zone, app=other))},
            {"nodeSelector": {"rack": rack}},
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            {"priorityClassName": self.chance.choice(("high", "middle", "polite"))},
            {},
            {},
        ]
        cpu = self.chance.choice(("", "1", "2", "3"))
        return self.w.create_pod(name, cpu=cpu, metadata={"labels": {"app": app}}, **self.chance.choice(parts))

    async def node(self) -> None:
        name = self.new_name(self.nodes)
        await self.w.create_node(name, cpu="4")
        labels = {HOSTNAME: name, ZONE: self.chance.choice("xyz"), "rack": self.chance.choice("ab")}
        await self.change_node(name, {"metadata": {"labels": labels}})

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        await self.w.client.patch(NODES.raw, name, merge_patch(change))

    async def change_pod(self, name: str, change: dict[str, Any], subresource: str = "") -> None:
        await self.w.client.patch(PODS.raw, name, merge_patch(change), "default", subresource=subresource)

    async def step(self) -> None:
        chance, nodes, pods = self.chance, self.nodes, self.pods
        drawn = chance.randrange(20)
        if drawn < 2 and len(nodes) < 6:
            await self.node()
        elif drawn < 10:
            await self.pod(self.new_name(pods))
        elif drawn < 12 and nodes:
            label = {chance.choice((ZONE, "rack")): chance.choice(("x", "y", "a", "b", None))}
            await self.change_node(chance.choice(nodes), {"metadata": {"labels": label}})
        elif drawn < 13 and nodes:
            taints = chance.choice((None, [{"key": "k", "effect": "NoSchedule"}]))
            spec = {"unschedulable": chance.choice((True, None)), "taints": taints}
            await self.change_node(chance.choice(nodes), {"spec": spec})
        elif drawn < 14 and nodes:
            await self.w.client.delete(NODES, nodes.pop(chance.randrange(len(nodes))))
        elif drawn < 16 and pods:
            await self.w.delete(pods.pop(chance.randrange(len(pods))), grace=0)
        elif drawn < 17 and pods:
            await self.change_pod(chance.choice(pods), {"status": {"phase": "Succeeded"}}, "status")
        elif drawn < 18 and pods:
            await self.change_pod(chance.choice(pods), {"metadata": {"labels": {"app": chance.choice(APPS)}}})
        elif drawn < 19 and pods:
            name = chance.choice(pods)
            await self.w.delete(name, grace=0)
            await self.pod(name)
        else:
            self.w.scheduler_faults.end_watches(with_=gone())


async def wait_until_idle(w: World) -> None:
    """Complete the deletion of victims, as kubelets would, and wait until all backoffs have ended."""
    for _ in range(6):
        for pod in (await w.client.list(PODS, "default")).items:
            if pod.metadata.deletion_timestamp is not None:
                await w.delete(pod.metadata.name, grace=0)
        await asyncio.sleep(12)


@pytest.mark.parametrize("seed", [*range(8), 142, 148, 260, 274])
async def test_no_pod_that_fits_a_node_stays_pending(env: Env, seed: int) -> None:
    chance = random.Random(seed)
    async with world(env) as w:
        await create_priority_classes(w)
        client = Client(w.scheduler_faults, env)
        informers = InformerFactory(client, env)
        scheduler = Scheduler(env, client=client, informers=informers)
        informers.start(w.group)
        w.group.start(scheduler.run(), name="scheduler")
        if chance.random() < 0.5:
            w.scheduler_faults.add(Rule(delay(0.0, 1.5), verb="watch"))
        if chance.random() < 0.3:
            w.scheduler_faults.add(Rule(lose_answer(), resource="pods", subresource="binding", probability=0.2))
        chaos = Chaos(w, chance)
        for _ in range(chance.randrange(30, 80)):
            try:
                await chaos.step()
            except ApiError:
                pass  # the object does not exist any more, or the change is invalid
            await asyncio.sleep(chance.choice((0.0, 0.0, 0.3, 3.0)))
        w.scheduler_faults.clear()
        await wait_until_idle(w)
        pods = (await w.client.list(PODS, "default")).items
        waiting = [pod for pod in pods if not pod.spec.node_name and pod.status.phase == "Pending"]
        for pod in waiting:
            result = scheduler._algorithm.schedule_pod(PodInfo(pod))
            assert isinstance(result, FitError), f"{pod.metadata.name} could be scheduled"
        scheduled = {f"default/{pod.metadata.name}" for pod in pods}
        cache, queue = scheduler._cache, scheduler._queue
        kept = [*cache._pod_states, *cache.nominator._nominated_pod_to_node]
        for pods_without_node in cache._pods_without_node.values():
            kept += pods_without_node
        assert set(kept) <= scheduled
        assert sorted(queue._pods) == sorted(f"default/{pod.metadata.name}" for pod in waiting)
        assert scheduler._write_slots._value == MAX_CONCURRENT_WRITES - 1, "one slot is held for the next pod"
