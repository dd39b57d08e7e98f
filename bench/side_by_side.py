"""Ours beside the Go manager: a ReplicaSet 0→N→0 on one real API server, both without client throttling.

Each manager in turn, in the order ours, Go, Go, ours, ours, Go, so that a machine that gets slower or faster hurts both
alike. Wall times and CPU are compared by the best run of each: what else runs here only makes a run longer. Figures:
wall seconds up and down, CPU microseconds of the manager per pod, its resident memory with all pods there. At several
sizes, the last rows show whether the cost per pod is flat.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.real_cluster import RealCluster, missing_programs, running

from bench.managers import ORDER, command, compared, running_manager
from bench.processes import cpu_seconds, resident_bytes
from bench.report import Figure

_SECONDS_PER_POD = 0.1
_LEAST_SECONDS = 300.0
"""How long a scaling may take: a hundred times what it takes on a quiet machine."""


def _replica_set(name: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
            },
        },
    }


def _scale(cluster: RealCluster, path: str, wanted: int, seconds: float) -> float:
    """Scale, and return how long it took until the status says so."""
    began = time.perf_counter()
    cluster.request("PATCH", path, {"spec": {"replicas": wanted}}, content_type="application/merge-patch+json")
    while True:
        found = cluster.request("GET", path)
        status = found.get("status", {})
        if status.get("observedGeneration") == found["metadata"]["generation"] and status.get("replicas", 0) == wanted:
            return time.perf_counter() - began
        assert time.perf_counter() - began < seconds, f"not at {wanted} replicas after {seconds} s: {status}"
        time.sleep(0.02)


def measure(cluster: RealCluster, who: str, pods: int, name: str) -> dict[str, float]:
    """One manager, one ReplicaSet, up and down."""
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    patience = max(_LEAST_SECONDS, pods * _SECONDS_PER_POD)
    cluster.request("POST", "/apis/apps/v1/namespaces/default/replicasets", _replica_set(name))
    with running_manager(command(cluster, who, "replicaset"), cluster.directory / f"{name}.log") as pid:
        before = cpu_seconds(pid)
        up = _scale(cluster, path, pods, patience)
        middle = cpu_seconds(pid)
        time.sleep(1)
        resident = resident_bytes(pid)
        down_from = cpu_seconds(pid)
        down = _scale(cluster, path, 0, patience)
        after = cpu_seconds(pid)
    cluster.request("DELETE", path)
    return {
        "wall up s": up,
        "wall down s": down,
        "CPU per pod created µs": (middle - before) / pods * 1e6,
        "CPU per pod deleted µs": (after - down_from) / pods * 1e6,
        "resident memory MB": resident / 1e6,
    }


def figures(pods: int = 5000, order: Sequence[str] = ORDER) -> list[Figure]:
    """Both managers in turn. Nothing without the real programs."""
    if missing_programs():
        return []
    runs: dict[str, list[dict[str, float]]] = {"ours": [], "go": []}
    with running() as cluster:
        for number, who in enumerate(order):
            runs[who].append(measure(cluster, who, pods, f"bench-{number}"))
            # A run of many pods takes minutes: whoever waits wants to see it move.
            shown = ", ".join(f"{name} {value:.3g}" for name, value in runs[who][-1].items())
            print(f"{pods:,} pods, {who}: {shown}", file=sys.stderr, flush=True)
    what = f"ReplicaSet 0→{pods:,}→0"
    return [compared(what, name, runs, series="ReplicaSet 0→N→0", size=pods) for name in runs["ours"][0]]


def main() -> None:
    from bench.report import growth, table

    measured = [one for word in sys.argv[1:] or ["500", "5000", "20000"] for one in figures(int(word))]
    print(table([*measured, *growth(measured)]))


if __name__ == "__main__":
    main()
