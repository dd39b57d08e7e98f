"""What simulated nodes cost: CPU per heartbeat and per pod life. In this process, the embedded server included."""

import asyncio
import time

from bench.report import Figure, figure
from pilothouse.api.core import PODS
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.nodes import Profile
from pilothouse.plane import Plane, PlaneOptions
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


def figures() -> list[Figure]:
    """One row each; nothing is promised for them, they are here to be watched."""
    runs = [lives() for _ in range(ROUNDS)]
    rows = ("nodes: registration", "nodes: heartbeat", "nodes and scheduler: a pod's life")
    return [figure(name, "µs CPU", [run[index] for run in runs]) for index, name in enumerate(rows)]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
