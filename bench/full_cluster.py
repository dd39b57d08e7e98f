"""``pilothouse up``: a full cluster in one process; how the pace changes, and what it takes at rest.

Services and Deployments are created; this process watches how many pods are ready. The first and the last
fifth are compared: 1 is a pace that does not change. The first Services each select the pods of one Deployment, the
others select none. One run, of some minutes.

``python -m bench.full_cluster --nodes 5000 --deployments 100 --pods-per 500 --services 0`` runs it alone.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.deployments import deployment
from bench.processes import (
    cpu_seconds_of_all,
    peak_bytes_of,
    pilothouse,
    resident_bytes_of_all,
    started,
    wait_for_line,
    with_children,
)
from bench.report import Figure, figure, table
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import SERVICES
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops
from pilothouse.runtime import SharedInformer

NODES, DEPLOYMENTS_COUNT, PODS_PER, SERVICES_COUNT = 5_000, 100, 500, 0
_PATIENCE_SECONDS = 1_800.0
_LOOK_SECONDS = 1.0
_SETTLE_SECONDS = 30.0
_REST_SECONDS = 60.0
_CONNECTIONS = 8

Seen = list[tuple[float, float, int]]
"""Seconds, CPU seconds and ready pods, from the first request until all are ready."""


class Size(msgspec.Struct, frozen=True):
    """How large the cluster is."""

    nodes: int = NODES
    deployments: int = DEPLOYMENTS_COUNT
    pods_per: int = PODS_PER
    services: int = SERVICES_COUNT
    processes: int = 1
    """As ``up --processes``."""

    @property
    def pods(self) -> int:
        """All of them."""
        return self.deployments * self.pods_per

    def __str__(self) -> str:
        services = f", {self.services:,} Services" if self.services else ""
        processes = f", {self.processes} processes" if self.processes > 1 else ""
        return f"{self.pods:,} pods of {self.deployments:,} Deployments on {self.nodes:,} nodes{services}{processes}"

    @property
    def flags(self) -> list[str]:
        """The flags of ``up``."""
        return [f"--nodes={self.nodes}", "--port=0", f"--processes={self.processes}"]


def service(name: str, app: str) -> dict[str, Any]:
    """A Service for the pods of one Deployment."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
    }


async def create(client: Client, size: Size) -> None:
    """All Services and Deployments, several at a time."""
    made = [(SERVICES.raw, service(f"web-{number}", f"web-{number}")) for number in range(size.services)]
    made += [(DEPLOYMENTS.raw, deployment(f"web-{number}", size.pods_per)) for number in range(size.deployments)]
    left = iter(made)

    async def some() -> None:
        for kind, obj in left:
            await client.create(kind, obj, "default")

    await asyncio.gather(*(some() for _ in range(_CONNECTIONS)))


async def fill(kubeconfig: Path, pid: int, size: Size) -> Seen:
    """Create everything and wait until all pods are ready."""
    env = Env()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    began, cpu = time.perf_counter(), cpu_seconds_of_all(pid)
    seen = [(0.0, 0.0, 0)]
    creating = asyncio.create_task(create(client, size))
    # Lists of thousands of Deployments were a twentieth of what the server did.
    informer = SharedInformer(client, env, DEPLOYMENTS)
    watching = asyncio.create_task(informer.run())
    while seen[-1][2] < size.pods:
        await asyncio.sleep(_LOOK_SECONDS)
        ready = sum(each.status.ready_replicas for each in informer.cache.list())
        seen.append((time.perf_counter() - began, cpu_seconds_of_all(pid) - cpu, ready))
        assert seen[-1][0] < _PATIENCE_SECONDS, f"after {seen[-1][0]:.0f} s {ready} pods are ready"
    await creating
    watching.cancel()
    await asyncio.wait([watching])
    await client.close()
    return seen


def growth(seen: Seen) -> float | None:
    """CPU per pod in the last fifth divided by that in the first; None if it was over too soon to tell."""
    total = seen[-1][2]
    begin = _cpu_between(seen, total * 0.0, total * 0.2)
    end = _cpu_between(seen, total * 0.8, total)
    return end / begin if begin and end else None


def _cpu_between(seen: Seen, first: float, last: float) -> float | None:
    """CPU per pod while the ready pods went from one number to another."""
    begin = next(each for each in seen if each[2] >= first)
    end = next(each for each in seen if each[2] >= last)
    return (end[1] - begin[1]) / (end[2] - begin[2]) if end[2] > begin[2] else None


def at_rest(pid: int) -> float:
    """What a process takes that has nothing to do, in per cent of a core."""
    before = cpu_seconds_of_all(pid)
    time.sleep(_REST_SECONDS)
    return (cpu_seconds_of_all(pid) - before) / _REST_SECONDS * 100


def measure(size: Size) -> dict[str, float | None]:
    """One life of ``pilothouse up``."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        kubeconfig, log = directory / ".pilothouse" / "kubeconfig", directory / "log"
        with started(pilothouse("up", *size.flags), log, cwd=directory) as process:
            wait_for_line(process, "is ready", log)
            empty = resident_bytes_of_all(process.pid)
            seen = loops.run(fill(kubeconfig, process.pid, size))
            memory = resident_bytes_of_all(process.pid)
            time.sleep(_SETTLE_SECONDS)
            rest = at_rest(process.pid)
            return {
                "seconds": seen[-1][0],
                "cpu": seen[-1][1] / seen[-1][2] * 1e3,
                "growth": growth(seen),
                "memory": memory / 1e6,
                "peak": sum(map(peak_bytes_of, with_children(process.pid))) / 1e6,
                "each": (memory - empty) / size.pods / 1e3,
                "rest": rest,
            }


def figures(
    nodes: int = NODES,
    deployments: int = DEPLOYMENTS_COUNT,
    pods_per: int = PODS_PER,
    services: int = SERVICES_COUNT,
    processes: int = 1,
) -> list[Figure]:
    """Seconds until all are ready, what that costs, and what rest does."""
    size = Size(nodes, deployments, pods_per, services, processes)
    run = measure(size)
    what = f"pilothouse up, {size}"
    limits: dict[str, Any] = {}
    if size == Size():
        limits = {
            "seconds": {"budget": 120, "aim": 100},
            "growth": {"budget": 1.5, "aim": 1.2},
            "memory": {"budget": 1_200, "aim": 1_000},
            "rest": {"budget": 8, "aim": 5},
        }
    rows = [
        ("seconds", "to ready", "s"),
        ("cpu", "CPU per pod", "ms"),
        ("growth", "CPU per pod, last fifth by first", ""),
        ("memory", "resident memory", "MB"),
        ("peak", "peak of resident memory", "MB"),
        ("each", "memory per pod, above that of the empty cluster", "kB"),
        ("rest", "at rest", "% of a core"),
    ]
    found = [(name, text, unit, run[name]) for name, text, unit in rows]
    return [
        figure(f"{what}: {text}", unit, [value], **limits.get(name, {}))
        for name, text, unit, value in found
        if value is not None
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--deployments", type=int, default=DEPLOYMENTS_COUNT)
    parser.add_argument("--pods-per", type=int, default=PODS_PER, help="pods of each Deployment")
    parser.add_argument("--services", type=int, default=SERVICES_COUNT)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    print(table(figures(given.nodes, given.deployments, given.pods_per, given.services, given.processes)))


if __name__ == "__main__":
    main()
