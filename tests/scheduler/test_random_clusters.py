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

    def __init__(self, w: World, rng: random.Random) -> None:
        self.w = w
        self.rng = rng
        self.nodes: list[str] = []
        self.pods: list[str] = []
        self.count = 0

    def new_name(self, kind: list[str]) -> str:
        self.count += 1
        kind.append(f"x{self.count}")
        return kind[-1]

    def pod(self, name: str) -> Awaitable[Any]:
        app, other = self.rng.choice(APPS), self.rng.choice(APPS)
        zone, rack = self.rng.choice((ZONE, "rack")), self.rng.choice("ab")
        parts: list[dict[str, Any]] = [
            {"topologySpreadConstraints": [spread(zone, app=app, nodeTaintsPolicy="Honor")]},
            {"topologySpreadConstraints": [spread(zone, app=app, minDomains=2)]},
            {"affinity": anti_affinity(term(self.rng.choice((ZONE, HOSTNAME)), app=other))},
            {"affinity": affinity(term(zone, app=other))},
            {"nodeSelector": {"rack": rack}},
            {"tolerations": [{"key": "k", "operator": "Exists"}]},
            {"priorityClassName": self.rng.choice(("high", "middle", "polite"))},
            {},
            {},
        ]
        cpu = self.rng.choice(("", "1", "2", "3"))
        return self.w.create_pod(name, cpu=cpu, metadata={"labels": {"app": app}}, **self.rng.choice(parts))

    async def node(self) -> None:
        name = self.new_name(self.nodes)
        await self.w.create_node(name, cpu="4")
        labels = {HOSTNAME: name, ZONE: self.rng.choice("xyz"), "rack": self.rng.choice("ab")}
        await self.change_node(name, {"metadata": {"labels": labels}})

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        await self.w.client.patch(NODES.raw, name, merge_patch(change))

    async def change_pod(self, name: str, change: dict[str, Any], subresource: str = "") -> None:
        await self.w.client.patch(PODS.raw, name, merge_patch(change), "default", subresource=subresource)

    async def step(self) -> None:
        rng, nodes, pods = self.rng, self.nodes, self.pods
        drawn = rng.randrange(20)
        if drawn < 2 and len(nodes) < 6:
            await self.node()
        elif drawn < 10:
            await self.pod(self.new_name(pods))
        elif drawn < 12 and nodes:
            label = {rng.choice((ZONE, "rack")): rng.choice(("x", "y", "a", "b", None))}
            await self.change_node(rng.choice(nodes), {"metadata": {"labels": label}})
        elif drawn < 13 and nodes:
            taints = rng.choice((None, [{"key": "k", "effect": "NoSchedule"}]))
            spec = {"unschedulable": rng.choice((True, None)), "taints": taints}
            await self.change_node(rng.choice(nodes), {"spec": spec})
        elif drawn < 14 and nodes:
            await self.w.client.delete(NODES, nodes.pop(rng.randrange(len(nodes))))
        elif drawn < 16 and pods:
            await self.w.delete(pods.pop(rng.randrange(len(pods))), grace=0)
        elif drawn < 17 and pods:
            await self.change_pod(rng.choice(pods), {"status": {"phase": "Succeeded"}}, "status")
        elif drawn < 18 and pods:
            await self.change_pod(rng.choice(pods), {"metadata": {"labels": {"app": rng.choice(APPS)}}})
        elif drawn < 19 and pods:
            name = rng.choice(pods)
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
    rng = random.Random(seed)
    async with world(env) as w:
        await create_priority_classes(w)
        client = Client(w.scheduler_faults, env)
        informers = InformerFactory(client, env)
        scheduler = Scheduler(env, client=client, informers=informers)
        informers.start(w.group)
        w.group.start(scheduler.run(), name="scheduler")
        if rng.random() < 0.5:
            w.scheduler_faults.add(Rule(delay(0.0, 1.5), verb="watch"))
        if rng.random() < 0.3:
            w.scheduler_faults.add(Rule(lose_answer(), resource="pods", subresource="binding", probability=0.2))
        chaos = Chaos(w, rng)
        for _ in range(rng.randrange(30, 80)):
            try:
                await chaos.step()
            except ApiError:
                pass  # the object does not exist any more, or the change is invalid
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.3, 3.0)))
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
