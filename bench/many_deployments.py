"""``pilothouse up``: 600 Deployments of one pod each, from the first request until the last is ready.

One process with the settings of a user: API server with TLS, scheduler, simulated nodes with the default profile, all
controllers. This process creates the Deployments one after the other on one connection. Figures: wall seconds, CPU and
resident memory of the process.

``python -m bench.many_deployments [DEPLOYMENTS] [ROUNDS]`` runs it alone.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.deployments import deployment, is_rolled_out
from bench.processes import cpu_seconds, pilothouse, resident_bytes, started, wait_for_line
from bench.report import Figure, figure
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops

COUNT = 600
ROUNDS = 3
PODS_PER_NODE = 100
"""A simulated node takes 110."""
BUDGET_SECONDS, AIM_SECONDS = 60.0, 20.0
_PATIENCE_SECONDS = 300.0
_LOOK_SECONDS = 0.2


async def _until_ready(kubeconfig: Path, count: int) -> float:
    """Make them and wait; the seconds it took."""
    env = Env()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    began = time.perf_counter()
    for number in range(count):
        await client.create(DEPLOYMENTS.raw, deployment(f"web-{number}", 1), "default")
    while True:
        answer = await client.request("GET", "/apis/apps/v1/namespaces/default/deployments")
        done = sum(map(is_rolled_out, msgspec.json.decode(answer.body)["items"]))
        took = time.perf_counter() - began
        if done == count:
            await client.close()
            return took
        assert took < _PATIENCE_SECONDS, f"after {took:.0f} s {done} of {count} Deployments are ready"
        await asyncio.sleep(_LOOK_SECONDS)


def measure(count: int) -> dict[str, float]:
    """One life of ``pilothouse up``."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        kubeconfig, log = directory / ".pilothouse" / "kubeconfig", directory / "log"
        nodes = 1 + (count - 1) // PODS_PER_NODE
        with started(pilothouse("up", f"--nodes={nodes}", "--port=0"), log, cwd=directory) as process:
            wait_for_line(process, "is ready", log)
            before = cpu_seconds(process.pid)
            seconds = loops.run(_until_ready(kubeconfig, count))
            return {
                "seconds": seconds,
                "cpu": (cpu_seconds(process.pid) - before) / count * 1e6,
                "resident": resident_bytes(process.pid) / 1e6,
            }


def figures(count: int = COUNT, rounds: int = ROUNDS) -> list[Figure]:
    """Seconds until all are ready, and what that costs."""
    runs = [measure(count) for _round in range(rounds)]
    what = f"pilothouse up, {count} Deployments"
    return [
        figure(f"{what} to ready", "s", [run["seconds"] for run in runs], budget=BUDGET_SECONDS, aim=AIM_SECONDS),
        figure(f"{what}: CPU per Deployment", "µs", [run["cpu"] for run in runs]),
        figure(f"{what}: resident memory", "MB", [run["resident"] for run in runs]),
    ]


def main() -> None:
    from bench.report import table

    print(table(figures(*map(int, sys.argv[1:]))))


if __name__ == "__main__":
    main()
