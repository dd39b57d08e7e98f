"""What simulated nodes and the scheduler cost: CPU per heartbeat, per pod life, per decision. In this process, the
embedded server included.
"""

import asyncio
import time

import msgspec

from bench.report import Figure, figure
from pilothouse.api.core import PODS, Node, Pod
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.nodes import Profile
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.scheduler.placement import place, wish_of
from pilothouse.scheduler.snapshot import Snapshot
from pilothouse.storage import MemoryStore

ROUNDS = 3
_NODES = 100
_PODS = 300
_SECONDS = 500.0
_CONTAINER = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}


def lives() -> tuple[float, float, float]:
    """Microseconds of CPU per registered node, per heartbeat, and per pod from its creation to its end."""

    async def main(env: Env) -> tuple[float, float, float]:
        profile = Profile(events=False)
        plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=_NODES, manager=None, profile=profile))
        async with TaskGroup("bench") as group:
            began = time.process_time()
            group.start(plane.run())
            await plane.wait_ready()
            registered = (time.process_time() - began) / _NODES
            await asyncio.sleep(20)
            began = time.process_time()
            await asyncio.sleep(_SECONDS)
            beat = (time.process_time() - began) / (_NODES * _SECONDS / (profile.lease_period * 1.02))
            client = plane.client()
            began = time.process_time()
            for number in range(_PODS):
                pod = {"metadata": {"name": f"p{number}"}, "spec": {"containers": [_CONTAINER]}}
                await client.create(PODS.raw, pod, "default")
            await asyncio.sleep(2)
            for number in range(_PODS):
                await client.delete(PODS, f"p{number}", "default")
            await asyncio.sleep(3)
            life = (time.process_time() - began) / _PODS
            left = (await client.list(PODS, "default")).items
            assert not left, f"{len(left)} pods are left"
            group.cancel()
        return registered * 1e6, beat * 1e6, life * 1e6

    return virtual.run(main)


def decision(nodes: int, count: int = 300) -> float:
    """Microseconds per placement on that many equal nodes."""
    snapshot = Snapshot()
    allocatable = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    for number in range(nodes):
        node = {"metadata": {"name": f"n{number}"}, "status": {"allocatable": allocatable}}
        snapshot.set_node(msgspec.convert(node, Node))
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": {"containers": [_CONTAINER]}}, Pod)
    start = 0
    began = time.perf_counter()
    for number in range(count):
        wish = wish_of(pod)
        placement = place(wish, snapshot.order, start)
        assert placement.node_name is not None
        start = placement.next_start
        snapshot.assume(f"default/p{number}", "u", placement.node_name, wish.demand)
    return (time.perf_counter() - began) / count * 1e6


def figures() -> list[Figure]:
    """One row each; nothing is promised for them, they are here to be watched."""
    runs = [lives() for _ in range(ROUNDS)]
    rows = ("nodes: registration", "nodes: heartbeat", "nodes and scheduler: a pod's life")
    return [
        *[figure(name, "µs CPU", [run[index] for run in runs]) for index, name in enumerate(rows)],
        *[
            figure(f"scheduler: decision at {nodes} nodes", "µs", [decision(nodes) for _ in range(ROUNDS)])
            for nodes in (100, 1000, 5000)
        ],
    ]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
