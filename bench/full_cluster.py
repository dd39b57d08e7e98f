"""``pilothouse up``: 50,000 pods on 5,000 nodes, all in one process; how the pace changes, and what it takes at rest.

100 Deployments of 500 pods are created; this process asks now and then how many pods are ready. The first and the last
fifth are compared: 1 is a pace that does not change. One run, of some minutes.

``python -m bench.full_cluster [NODES] [DEPLOYMENTS]`` runs it alone, with the pods of so many Deployments.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.deployments import deployment
from bench.processes import cpu_seconds, pilothouse, resident_bytes, started, wait_for_line
from bench.report import Figure, figure
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops

NODES = 5_000
SETS = 100
_PODS_PER_SET = 500
_PATIENCE_SECONDS = 1_800.0
_LOOK_SECONDS = 1.0
_SETTLE_SECONDS = 30.0
_REST_SECONDS = 60.0


async def _fill(kubeconfig: Path, pid: int, sets: int) -> list[tuple[float, float, int]]:
    """Seconds, CPU seconds and ready pods, from the first request until all are ready."""
    env = Env()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    seen = [(0.0, 0.0, 0)]
    for number in range(sets):
        await client.create(DEPLOYMENTS.raw, deployment(f"web-{number}", _PODS_PER_SET), "default")
    while seen[-1][2] < sets * _PODS_PER_SET:
        await asyncio.sleep(_LOOK_SECONDS)
        answer = await client.request("GET", "/apis/apps/v1/namespaces/default/deployments")
        ready = sum(each["status"].get("readyReplicas", 0) for each in msgspec.json.decode(answer.body)["items"])
        seen.append((time.perf_counter() - began, cpu_seconds(pid) - cpu, ready))
        assert seen[-1][0] < _PATIENCE_SECONDS, f"after {seen[-1][0]:.0f} s {ready} pods are ready"
    await client.close()
    return seen


def _cpu_between(seen: list[tuple[float, float, int]], first: float, last: float) -> float:
    """CPU per pod while the ready pods went from one share of all to another."""
    total = seen[-1][2]
    begin = next(each for each in seen if each[2] >= total * first)
    end = next(each for each in seen if each[2] >= total * last)
    return (end[1] - begin[1]) / (end[2] - begin[2])


def measure(nodes: int, sets: int) -> dict[str, float]:
    """One life of ``pilothouse up``."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        kubeconfig, log = directory / ".pilothouse" / "kubeconfig", directory / "log"
        with started(pilothouse("up", f"--nodes={nodes}", "--port=0"), log, cwd=directory) as process:
            wait_for_line(process, "is ready", log)
            seen = loops.run(_fill(kubeconfig, process.pid, sets))
            memory = resident_bytes(process.pid) / 1e6
            time.sleep(_SETTLE_SECONDS)
            before = cpu_seconds(process.pid)
            time.sleep(_REST_SECONDS)
            return {
                "seconds": seen[-1][0],
                "cpu": seen[-1][1] / seen[-1][2] * 1e3,
                "growth": _cpu_between(seen, 0.8, 1.0) / _cpu_between(seen, 0.0, 0.2),
                "memory": memory,
                "rest": (cpu_seconds(process.pid) - before) / _REST_SECONDS * 100,
            }


def figures(nodes: int = NODES, sets: int = SETS) -> list[Figure]:
    """Seconds until all are ready, what that costs, and what rest does."""
    run = measure(nodes, sets)
    what = f"pilothouse up, {sets * _PODS_PER_SET:,} pods on {nodes:,} nodes"
    return [
        figure(f"{what}: to ready", "s", [run["seconds"]], budget=300, aim=120),
        figure(f"{what}: CPU per pod", "ms", [run["cpu"]]),
        figure(f"{what}: CPU per pod, last fifth by first", "", [run["growth"]], budget=1.5, aim=1.2),
        figure(f"{what}: resident memory", "MB", [run["memory"]], budget=2_000, aim=1_200),
        figure(f"{what}: at rest", "% of a core", [run["rest"]], budget=31, aim=8),
    ]


def main() -> None:
    from bench.report import table

    print(table(figures(*map(int, sys.argv[1:3]))))


if __name__ == "__main__":
    main()
