"""Simulated nodes: CPU per registration, heartbeat, pod start and stop, and memory, at 100 and 5,000 nodes.

In this process, with the embedded server and the scheduler, in virtual time. ``--profile`` prints a profile.
"""

import asyncio
import gc
import sys
import time

from bench.report import Figure, figure
from pilothouse.api.core import PODS
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.nodes import Profile
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

_CONTAINER = {"name": "c", "image": "app:v1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
_ROWS = ("registration", "heartbeat", "a pod's start", "a pod's stop")


def _resident_kilobytes() -> float:
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        return float(next(line.split()[1] for line in status if line.startswith("VmRSS:")))


def lives(nodes: int, pods: int, seconds: float) -> tuple[float, ...]:
    """Microseconds of CPU per registered node, per heartbeat, per pod from its creation to Ready, and from its deletion
    to its end; kilobytes of memory per node, and per pod.
    """

    async def main(env: Env) -> tuple[float, ...]:
        profile = Profile(events=False)
        plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=nodes, manager=None, profile=profile))
        async with TaskGroup("bench") as group:
            empty = _resident_kilobytes()
            began = time.process_time()
            group.start(plane.run())
            await plane.wait_ready()
            registered = (time.process_time() - began) / nodes
            await asyncio.sleep(20)
            with_nodes = _resident_kilobytes()
            began = time.process_time()
            await asyncio.sleep(seconds)
            beat = (time.process_time() - began) / (nodes * seconds / (profile.lease_period * 1.02))
            client = plane.client()
            # Bound at once: the scheduler has a benchmark of its own.
            began = time.process_time()
            for number in range(pods):
                spec = {"nodeName": f"node-{number % nodes}", "containers": [_CONTAINER]}
                await client.create(PODS.raw, {"metadata": {"name": f"p{number}"}, "spec": spec}, "default")
            await asyncio.sleep(2)
            start = (time.process_time() - began) / pods
            with_pods = _resident_kilobytes()
            began = time.process_time()
            for number in range(pods):
                await client.delete(PODS, f"p{number}", "default")
            await asyncio.sleep(3)
            stop = (time.process_time() - began) / pods
            left = (await client.list(PODS, "default")).items
            assert not left, f"{len(left)} pods are left"
            group.cancel()
        memory = ((with_nodes - empty) / nodes, (with_pods - with_nodes) / pods)
        return (*[cost * 1e6 for cost in (registered, beat, start, stop)], *memory)

    return virtual.run(main)


def figures() -> list[Figure]:
    """One row each; nothing is promised for them, they are here to be watched."""
    rows: list[Figure] = []
    for nodes, pods, seconds, rounds in ((100, 1000, 500.0, 3), (5000, 5000, 60.0, 1)):
        runs = [lives(nodes, pods, seconds) for _ in range(rounds)]
        rows += [
            figure(f"{nodes:,} nodes: {name}", "µs CPU", [run[index] for run in runs])
            for index, name in enumerate(_ROWS)
        ]
        if rounds == 1:
            rows += [
                figure(f"{nodes:,} nodes: memory per {thing}", "kB", [run[4 + index] for run in runs])
                for index, thing in enumerate(("node", "pod"))
            ]
    return rows


if __name__ == "__main__":
    from bench.report import table

    if "--profile" in sys.argv:
        import cProfile
        import pstats

        profiler = cProfile.Profile()
        profiler.runcall(lives, 1000, 2000, 60.0)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    else:
        print(table(figures()))
