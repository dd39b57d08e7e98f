"""Scheduler compared with kube-scheduler: pods per second and CPU per pod at 1,000 and 5,000 nodes.

Both run without throttling on one real API server and etcd. Nodes are ready objects in five zones that are not
simulated. The pods exist before the scheduler starts; half of them belong to one ReplicaSet, so that default spreading
applies. Time is measured from the first scheduled pod to the last. Schedulers run alternately, as in
``bench.side_by_side``.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.real_cluster import RealCluster, missing_programs, running

from bench.managers import Runs, in_turn
from bench.processes import cpu_seconds, pilothouse, resident_bytes, started
from bench.report import Figure, figure
from pilothouse.api.core import NODES, PODS
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, loops

ORDER = ("pilothouse", "upstream", "upstream", "pilothouse")
PODS_PER_RUN = 2000
_ZONES = 5
_ALLOCATABLE = {"cpu": "32", "memory": "256Gi", "pods": "110"}
_HANDS = 32
_PATIENCE_SECONDS = 300.0


def _pilothouse(cluster: RealCluster) -> list[str]:
    return pilothouse(
        "scheduler", f"--kubeconfig={cluster.kubeconfig}", "--kube-api-qps=100000", "--kube-api-burst=100000"
    )


def _upstream(cluster: RealCluster) -> list[str]:
    return [
        str(cluster.assets / "kube-scheduler"), f"--kubeconfig={cluster.kubeconfig}", "--kube-api-qps=100000",
        "--kube-api-burst=100000", "--leader-elect=false", "--port=0", "--secure-port=0",
        f"--cert-dir={cluster.directory}", f"--authentication-kubeconfig={cluster.kubeconfig}",
        f"--authorization-kubeconfig={cluster.kubeconfig}",
    ]  # fmt: skip


async def _each(count: int, one: Any) -> None:
    """Call ``one(number)`` for every number, some at once."""
    numbers = iter(range(count))

    async def hand() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*[hand() for _ in range(_HANDS)])


def _with_client(cluster: RealCluster, work: Any) -> Any:
    async def main() -> Any:
        env = Env()
        client = Client(connect(env, kubeconfig=str(cluster.kubeconfig)), env, qps=1e6, burst=1_000_000)
        try:
            return await work(client)
        finally:
            await client.close()

    return loops.run(main())


def make_nodes(cluster: RealCluster, count: int) -> None:
    """Nodes that are ready, as far as a scheduler can tell."""

    async def work(client: Client) -> None:
        async def one(number: int) -> None:
            name = f"n{number:05}"
            labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % _ZONES}"}
            status = {
                "allocatable": _ALLOCATABLE,
                "capacity": _ALLOCATABLE,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            await client.create(NODES.raw, {"metadata": {"name": name, "labels": labels}, "status": status})

        await _each(count, one)

    _with_client(cluster, work)


def make_pods(cluster: RealCluster, namespace: str, count: int) -> None:
    """Pods that wait; every other one belongs to a ReplicaSet, which is there as well."""
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec()}
    spec = {"replicas": count // 2, "selector": {"matchLabels": labels}, "template": template}
    made = cluster.request("POST", path, {"metadata": {"name": "web"}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["metadata"]["uid"]}

    async def work(client: Client) -> None:
        async def one(number: int) -> None:
            metadata: dict[str, Any] = {"name": f"p{number:05}", "namespace": namespace}
            if number % 2:
                metadata |= {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}
            await client.create(PODS.raw, {"metadata": metadata, "spec": _pod_spec()}, namespace)

        await _each(count, one)

    _with_client(cluster, work)


def _pod_spec() -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "64Mi"}
    return {
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}]
    }


def _waiting(cluster: RealCluster, namespace: str) -> int:
    path = f"/api/v1/namespaces/{namespace}/pods?fieldSelector=spec.nodeName="
    return len(cluster.request("GET", path)["items"])


def measure(cluster: RealCluster, command: list[str], namespace: str, count: int) -> dict[str, float]:
    """One scheduler, one namespace of pods."""

    def is_placed(number: int) -> bool:
        pod = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods/p{number:05}")
        return bool(pod["spec"].get("nodeName"))

    def wait(number: int) -> None:
        until = time.perf_counter() + _PATIENCE_SECONDS
        while not is_placed(number):
            assert time.perf_counter() < until, f"pod {number} of {count} has no node: {log.read_text()[-2000:]}"
            time.sleep(0.02)

    log = Path(cluster.directory) / f"{namespace}.log"
    with started(command, log) as process:
        wait(0)
        began, cpu = time.perf_counter(), cpu_seconds(process.pid)
        left = _waiting(cluster, namespace)
        wait(count - 1)
        while _waiting(cluster, namespace):
            time.sleep(0.05)
        seconds, cpu = time.perf_counter() - began, cpu_seconds(process.pid) - cpu
        resident = resident_bytes(process.pid)
    return {
        "pods per second": left / seconds,
        "CPU per pod µs": cpu / left * 1e6,
        "resident memory MB": resident / 1e6,
    }


@contextlib.contextmanager
def _cluster(nodes: int) -> Iterator[RealCluster]:
    # Without somebody who watches over nodes nobody would take off the taint that they begin with.
    with running(["--disable-admission-plugins=TaintNodesByCondition"]) as cluster:
        make_nodes(cluster, nodes)
        yield cluster


def figures(nodes: int = 1000, pods: int = PODS_PER_RUN, order: Sequence[str] = ORDER) -> list[Figure]:
    """Both schedulers in turn. Nothing without the real programs."""
    if missing_programs():
        return []
    with _cluster(nodes) as cluster:

        def one(who: str, name: str) -> dict[str, float]:
            namespace = cluster.namespace(name)
            make_pods(cluster, namespace, pods)
            found = measure(
                cluster, _pilothouse(cluster) if who == "pilothouse" else _upstream(cluster), namespace, pods
            )
            # Every round begins with empty nodes.
            cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
            return found

        runs = in_turn(f"scheduler at {nodes:,} nodes", order, one)
    return [_figure(nodes, name, runs) for name in runs["pilothouse"][0]]


_HELD_TO: dict[str, tuple[str, float | None, float | None]] = {
    "pods per second": ("1/s", 0.5, 1.0),
    "CPU per pod µs": ("µs", 1.2, 0.6),
    "resident memory MB": ("MB", 0.7, 0.5),
}
"""Unit, budget and aim."""


def _figure(nodes: int, name: str, runs: Runs) -> Figure:
    unit, budget, aim = _HELD_TO[name]
    pilothouse, upstream = [run[name] for run in runs["pilothouse"]], [run[name] for run in runs["upstream"]]
    title = name.removesuffix(f" {unit}")
    return figure(
        f"scheduler at {nodes:,} nodes: {title}",
        unit,
        pilothouse,
        upstream,
        other_name="Go",
        budget=budget,
        aim=aim,
        more_is_better=unit == "1/s",
        by_best=unit != "MB",
    )


def main() -> None:
    from bench.report import table

    for nodes in [int(word) for word in sys.argv[1:]] or [1000, 5000]:
        print(table(figures(nodes)))


if __name__ == "__main__":
    main()
