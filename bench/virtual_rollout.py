"""Virtual time: 5,000 nodes register, a DaemonSet is created on them, one rolling update replaces all pods.

API server, nodes, scheduler and manager run in this process; seconds are CPU time.

``python -m bench.virtual_rollout [NODES] [--profile]`` runs it once and prints a profile. The benchmark runs it
``RUNS`` times, each in its own process.
"""

import argparse
import asyncio
import cProfile
import pstats
import subprocess
import sys
import time
from typing import Any

import msgspec

from bench.processes import environment, peak_resident_bytes
from bench.report import Figure, figure
from pilothouse.api.apps import DAEMON_SETS, DaemonSet
from pilothouse.client import Client, merge_patch
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

NODES = 5000
MAX_UNAVAILABLE = "20%"
"""So many daemons are down at a time: five rounds for all."""
BUDGET_SECONDS = 30.0
RUNS = 3
PARTS = ("registration", "creation", "rolling update", "the rollout")


def daemon_set(name: str, image: str = "app:v1") -> dict[str, Any]:
    """One small container on every node, tolerating nothing in particular."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": MAX_UNAVAILABLE}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def new_image(image: str) -> Any:
    """A patch that starts a rolling update."""
    containers = [{"name": "main", "image": image}]
    return merge_patch({"spec": {"template": {"spec": {"containers": containers}}}})


async def rolled_out(client: Client, name: str, nodes: int) -> None:
    """Wait until the status says that every node has an available daemon of the newest template."""
    while True:
        seen: DaemonSet = await client.get(DAEMON_SETS, name, "default")
        status = seen.status
        if status.observed_generation == seen.metadata.generation and (
            status.desired_number_scheduled
            == status.updated_number_scheduled
            == status.number_available
            == status.current_number_scheduled
            == nodes
        ):
            return
        await asyncio.sleep(0.5)


def roll_out(nodes: int = NODES) -> dict[str, float]:
    """Processor seconds by phase, and the virtual seconds that the two rollouts took."""

    async def main(env: Env) -> dict[str, float]:
        took: dict[str, float] = {}
        manager = Options(leader_election=LeaderElection(enabled=False))
        plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=nodes, manager=manager))
        client = plane.client()
        async with TaskGroup("bench") as group:
            began = time.process_time()
            group.start(plane.run())
            await plane.wait_ready()
            took["registration"] = time.process_time() - began

            began, started = time.process_time(), env.monotonic()
            await client.create(DAEMON_SETS, daemon_set("daemon"), "default")
            await rolled_out(client, "daemon", nodes)
            took["creation"] = time.process_time() - began
            took["creation, virtual"] = env.monotonic() - started

            began, started = time.process_time(), env.monotonic()
            await client.patch(DAEMON_SETS, "daemon", new_image("app:v2"), "default")
            await rolled_out(client, "daemon", nodes)
            took["rolling update"] = time.process_time() - began
            took["rolling update, virtual"] = env.monotonic() - started
            group.cancel()
        return took

    return virtual.run(main)


def _run(nodes: int) -> dict[str, float]:
    program = f"import json, bench.virtual_rollout as it; print(json.dumps(it.measured({nodes})))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=dict(environment()), stdout=subprocess.PIPE, text=True, check=True)
    return msgspec.json.decode(done.stdout, type=dict[str, float])


def measured(nodes: int) -> dict[str, float]:
    """``roll_out``, with both rollouts together, and what the process needed."""
    took = roll_out(nodes)
    whole = took["creation"] + took["rolling update"]
    return {**took, "the rollout": whole, "peak memory": peak_resident_bytes() / 1e6}


def figures(nodes: int = NODES) -> list[Figure]:
    """The phases, and the rollout, which is held to the budget: from a manifest to the last daemon of its second
    template, on nodes that are there. By the best run, as a second of the processor is not always worth the same."""
    runs = [_run(nodes) for _ in range(RUNS)]
    rows = []
    for part, unit in (*((part, "s CPU") for part in PARTS), ("peak memory", "MB")):
        budget = BUDGET_SECONDS if part == "the rollout" else None
        name = f"{nodes:,} nodes in virtual time: {part}"
        rows.append(figure(name, unit, [run[part] for run in runs], budget=budget, by_best=True))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes", nargs="?", type=int, default=NODES)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    profiler = cProfile.Profile() if arguments.profile else None
    took = profiler.runcall(roll_out, arguments.nodes) if profiler else roll_out(arguments.nodes)
    for name, seconds in took.items():
        print(f"{name:<26}{seconds:8.2f} s")
    print(f"{'peak memory':<26}{peak_resident_bytes() / 1e6:8.0f} MB")
    if profiler:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(60)


if __name__ == "__main__":
    main()
