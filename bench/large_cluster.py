"""``pilothouse up`` with 150,000 pods, 10,000 Services and 3,000 Deployments on 5,000 nodes, and what one does with it.

After the cluster has filled (``bench.full_cluster``): lists by kubectl and by requests, decisions of the scheduler, a
rollout of 3,000 pods, a deleted node until its pods are replaced. One run, of a quarter of an hour; not run unless it
is named.

``python -m bench.large_cluster --nodes … --deployments … --pods-per … --services …`` runs it alone. ``--kubeconfig``
and ``--pid`` measure a cluster that is there and full instead.
"""

import argparse
import asyncio
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.full_cluster import Size, at_rest, fill, growth
from bench.processes import cpu_seconds_of_all, pilothouse, resident_bytes_of_all, started, wait_for_line
from bench.report import Figure, figure, table
from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops

SIZE = Size(5_000, 3_000, 50, 10_000)
_ROLLED = 60
"""So many Deployments are rolled to another image."""
_PATIENCE_SECONDS = 600.0
_SETTLE_SECONDS = 30.0
_DEPLOYMENTS_PATH = "/apis/apps/v1/namespaces/default/deployments"

Row = tuple[str, str, float]
"""What, in which unit, how much."""


@contextmanager
def highest_memory(pid: int) -> Iterator[Callable[[], float]]:
    """The most that a process has in memory meanwhile, above what it had, in MB."""
    before = peak = resident_bytes_of_all(pid)
    ended = threading.Event()

    def look() -> None:
        nonlocal peak
        while not ended.wait(0.02):
            peak = max(peak, resident_bytes_of_all(pid))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield lambda: (peak - before) / 1e6
    finally:
        ended.set()
        watcher.join()


def kubectl_get(kubeconfig: Path, pid: int) -> list[Row]:
    """``kubectl get pods -A``: until the first byte, whole, and what the server needs for it meanwhile."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return []
    command = [f"{assets}/kubectl", f"--kubeconfig={kubeconfig}", "get", "pods", "-A"]
    began, cpu = time.perf_counter(), cpu_seconds_of_all(pid)
    with highest_memory(pid) as highest, subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        first = time.perf_counter() - began
        lines = process.stdout.read().count(b"\n")
        took = time.perf_counter() - began
        name = f"kubectl get pods -A, {lines - 1:,} lines"
        return [
            (f"{name}: first byte", "s", first),
            (f"{name}: whole", "s", took),
            (f"{name}: CPU of the server", "s", cpu_seconds_of_all(pid) - cpu),
            (f"{name}: memory of the server", "MB", highest()),
        ]


async def lists(client: Client, pid: int) -> list[Row]:
    """All pods at once, and in pages of 500; all of one namespace's Deployments."""
    rows = []
    for name, path in (("GET of all pods", "/api/v1/pods"), ("GET of all Deployments", _DEPLOYMENTS_PATH)):
        began, cpu = time.perf_counter(), cpu_seconds_of_all(pid)
        with highest_memory(pid) as highest:
            body = (await client.request("GET", path)).body
            name = f"{name}, {len(body) / 1e6:,.0f} MB"
            rows += [
                (name, "s", time.perf_counter() - began),
                (f"{name}: CPU of the server", "s", cpu_seconds_of_all(pid) - cpu),
                (f"{name}: memory of the server", "MB", highest()),
            ]
        del body
    began, cpu = time.perf_counter(), cpu_seconds_of_all(pid)
    with highest_memory(pid) as highest:
        found = await client.list_all(PODS)
        rows += [
            (f"{len(found.items):,} pods in pages of 500", "s", time.perf_counter() - began),
            ("pages of 500: CPU of the server", "s", cpu_seconds_of_all(pid) - cpu),
            ("pages of 500: memory of the server", "MB", highest()),
        ]
    return rows


async def rollout(client: Client, pid: int, size: Size) -> list[Row]:
    """Another image for some Deployments, until all their pods are updated and available."""
    count = min(_ROLLED, size.deployments)
    names = [f"web-{number}" for number in range(count)]
    began, cpu = time.perf_counter(), cpu_seconds_of_all(pid)
    change = merge_patch({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:v2"}]}}}})
    for name in names:
        await client.patch(DEPLOYMENTS.raw, name, change, "default")
    left = set(names)
    while left:
        for name in sorted(left):
            answer = await client.request("GET", f"{_DEPLOYMENTS_PATH}/{name}")
            found = msgspec.json.decode(answer.body)
            status, wanted = found["status"], found["spec"]["replicas"]
            counts = {status.get(each, 0) for each in ("replicas", "updatedReplicas", "availableReplicas")}
            if status["observedGeneration"] == found["metadata"]["generation"] and counts == {wanted}:
                left.discard(name)
        await asyncio.sleep(0.5)
        assert time.perf_counter() - began < _PATIENCE_SECONDS, f"not rolled out: {sorted(left)}"
    pods = count * size.pods_per
    return [
        (f"rollout of {pods:,} pods", "s", time.perf_counter() - began),
        ("rollout: CPU per pod", "ms", (cpu_seconds_of_all(pid) - cpu) / pods * 1e3),
    ]


async def lost_node(client: Client, size: Size) -> list[Row]:
    """A Node is deleted; until as many pods are ready as before."""
    before = await _ready(client)
    node = (await client.list(PODS, limit=1)).items[0].spec.node_name
    lost = await _pods_of(client, node)
    began = time.perf_counter()
    await client.delete(NODES, node)
    while await _pods_of(client, node) or await _ready(client) < before:
        await asyncio.sleep(1.0)
        assert time.perf_counter() - began < _PATIENCE_SECONDS, f"the pods of {node} are not replaced"
    return [(f"a node with {lost} pods is deleted: until they are replaced", "s", time.perf_counter() - began)]


async def _pods_of(client: Client, node: str) -> int:
    answer = await client.request("GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
    return len(msgspec.json.decode(answer.body)["items"])


async def _ready(client: Client) -> int:
    answer = await client.request("GET", _DEPLOYMENTS_PATH)
    return sum(each["status"].get("readyReplicas", 0) for each in msgspec.json.decode(answer.body)["items"])


async def decisions(client: Client) -> list[Row]:
    """What the scheduler's decisions took so far."""
    text = (await client.request("GET", "/metrics?component=kube-scheduler")).body.decode()
    found: dict[str, float] = {}
    for part in ("sum", "count"):
        name = f"scheduler_scheduling_algorithm_duration_seconds_{part}"
        found[part] = sum(float(each) for each in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE))
    if not found["count"]:
        return []
    return [(f"a decision of the scheduler, mean of {found['count']:,.0f}", "us", found["sum"] / found["count"] * 1e6)]


async def use(kubeconfig: Path, pid: int, size: Size) -> list[Row]:
    """Everything, one after the other."""
    env = Env()
    client = Client(connect(env, kubeconfig=str(kubeconfig)), env)
    rows: list[Row] = []
    steps: list[Callable[[], Awaitable[list[Row]]]] = [
        lambda: asyncio.to_thread(kubectl_get, kubeconfig, pid),
        lambda: lists(client, pid),
        lambda: decisions(client),
        lambda: rollout(client, pid, size),
        lambda: lost_node(client, size),
    ]
    for step in steps:
        found = await step()
        for what, unit, value in found:
            print(f"{what}: {value:.4g} {unit}", flush=True)
        rows += found
    rows.append(("resident memory at the end", "MB", resident_bytes_of_all(pid) / 1e6))
    await client.close()
    return rows


def figures(size: Size = SIZE) -> list[Figure]:
    """One life of ``pilothouse up``."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-bench-") as name:
        directory = Path(name)
        kubeconfig, log = directory / ".pilothouse" / "kubeconfig", directory / "log"
        with started(pilothouse("up", *size.flags), log, cwd=directory) as process:
            wait_for_line(process, "is ready", log)
            seen = loops.run(fill(kubeconfig, process.pid, size))
            rows: list[Row] = [
                ("to ready", "s", seen[-1][0]),
                ("CPU per pod", "ms", seen[-1][1] / size.pods * 1e3),
                ("resident memory", "MB", resident_bytes_of_all(process.pid) / 1e6),
            ]
            pace = growth(seen)
            if pace is not None:
                rows.append(("CPU per pod, last fifth by first", "", pace))
            time.sleep(_SETTLE_SECONDS)
            rows.append(("at rest", "% of a core", at_rest(process.pid)))
            rows += loops.run(use(kubeconfig, process.pid, size))
    limits: dict[str, dict[str, Any]] = {}
    if msgspec.structs.replace(size, processes=1) == SIZE:
        limits = {
            "to ready": {"budget": 360},
            "resident memory": {"budget": 3_000},
            "at rest": {"budget": 10, "aim": 5},
        }
    return [figure(f"{size}: {what}", unit, [value], **limits.get(what, {})) for what, unit, value in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=SIZE.nodes)
    parser.add_argument("--deployments", type=int, default=SIZE.deployments)
    parser.add_argument("--pods-per", type=int, default=SIZE.pods_per, help="pods of each Deployment")
    parser.add_argument("--services", type=int, default=SIZE.services)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kubeconfig", type=Path, help="a cluster that is full already")
    parser.add_argument("--pid", type=int, default=0, help="the process of that cluster")
    given = parser.parse_args()
    size = Size(given.nodes, given.deployments, given.pods_per, given.services, given.processes)
    if given.kubeconfig is not None:
        loops.run(use(given.kubeconfig, given.pid, size))
    else:
        print(table(figures(size)))


if __name__ == "__main__":
    main()
