"""API server compared with kube-apiserver: pods created per second over HTTPS on several connections.

Ours stores durably in SQLite. kube-apiserver uses an etcd with ``--unsafe-no-fsync``, so that the disk is not compared.
One load generator for both: our client, in this process, with 32 connections. Both servers run during the whole
benchmark and are used alternately.
"""

import asyncio
import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real_cluster import missing_programs, running

from bench.processes import cpu_seconds, pilothouse, started, wait_for_line
from bench.report import Figure, figure
from pilothouse.api.core import PODS
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops

CONCURRENCY = 32
PODS_PER_RUN = 3000
ROUNDS = 5

_names = itertools.count()


def pod(name: str) -> dict[str, Any]:
    """A pod as somebody might write it."""
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "MODE", "value": "bench"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "web"}},
        "spec": {"containers": [container]},
    }


async def _create(kubeconfig: Path, count: int) -> float:
    """Create pods on ``CONCURRENCY`` connections; the seconds it took."""
    env = Env()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    bodies = [pod(f"pod-{next(_names)}") for _ in range(count + CONCURRENCY)]

    async def worker() -> None:
        while bodies:
            await client.create(PODS.raw, bodies.pop(), "default")

    warm = [client.create(PODS.raw, bodies.pop(), "default") for _ in range(CONCURRENCY)]
    await asyncio.gather(*warm)
    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    took = time.perf_counter() - began
    await client.close()
    return took


@contextlib.contextmanager
def _pilothouse(directory: Path) -> Iterator[tuple[Path, int]]:
    kubeconfig, log = directory / "kubeconfig", directory / "log"
    command = pilothouse("apiserver", f"--data-dir={directory}/data", "--port=0", f"--kubeconfig={kubeconfig}")
    with started(command, log, cwd=directory) as process:
        wait_for_line(process, "API server ready", log)
        yield kubeconfig, process.pid


def figures() -> list[Figure]:
    """Creates per second on both, and what one costs our server."""
    rates: dict[str, list[float]] = {"pilothouse": [], "upstream": []}
    server: list[float] = []
    generator: list[float] = []
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pilothouse-bench-")))
        kubeconfig, pid = stack.enter_context(_pilothouse(directory))
        other_kubeconfig = None if missing_programs() else stack.enter_context(running()).kubeconfig
        for _round in range(ROUNDS):
            before, own = cpu_seconds(pid), cpu_seconds(os.getpid())
            rates["pilothouse"].append(PODS_PER_RUN / loops.run(_create(kubeconfig, PODS_PER_RUN)))
            server.append((cpu_seconds(pid) - before) / PODS_PER_RUN * 1e6)
            generator.append((cpu_seconds(os.getpid()) - own) / PODS_PER_RUN * 1e6)
            if other_kubeconfig is not None:
                rates["upstream"].append(PODS_PER_RUN / loops.run(_create(other_kubeconfig, PODS_PER_RUN)))
    return [
        figure(
            "durable pod creates", "per s", rates["pilothouse"], rates["upstream"], other_name="kube-apiserver",
            budget=2.0, aim=5.0, more_is_better=True, by_best=True,
        ),
        figure("  server CPU per create", "µs", server),
        figure("  load generator CPU per create", "µs", generator),
    ]  # fmt: skip


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
