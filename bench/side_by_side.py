"""Ours beside the Go manager: a ReplicaSet 0→N→0 on one real API server, both without client throttling.

``python -m bench.side_by_side [N ...]`` with ``KUBEBUILDER_ASSETS`` set. Each manager in turn, twice, in the order
ours, Go, Go, ours, so that a machine that gets slower or faster hurts both alike; the better run of each counts.
Figures: wall seconds up and down, CPU microseconds of the manager per pod, its resident memory with all pods there.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.real_cluster import RealCluster, running

_TICKS = os.sysconf("SC_CLK_TCK")
_BUDGETS = {"wall": 1.1, "cpu": 1.2, "memory": 0.7}


def _ours(cluster: RealCluster) -> list[str]:
    return [
        sys.executable, "-m", "pilothouse", "manager", f"--kubeconfig={cluster.kubeconfig}", "--controllers=replicaset",
        "--kube-api-qps=100000", "--kube-api-burst=100000", "--leader-elect=false", "--secure-port=0",
    ]  # fmt: skip


def _go(cluster: RealCluster) -> list[str]:
    return [
        str(cluster.assets / "kube-controller-manager"), f"--kubeconfig={cluster.kubeconfig}",
        "--controllers=replicaset", "--kube-api-qps=100000", "--kube-api-burst=100000", "--leader-elect=false",
        "--port=0", "--secure-port=0", f"--cert-dir={cluster.directory}",
        f"--authentication-kubeconfig={cluster.kubeconfig}", f"--authorization-kubeconfig={cluster.kubeconfig}",
    ]  # fmt: skip


@contextlib.contextmanager
def _running_manager(command: list[str], log: Path) -> Iterator[int]:
    with log.open("ab") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as process:
        try:
            time.sleep(4)
            assert process.poll() is None, f"{command[0]} ended: {log.read_text()[-2000:]}"
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no VmRSS for {pid}")


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


def measure(cluster: RealCluster, command: list[str], pods: int, name: str) -> dict[str, float]:
    """One manager, one ReplicaSet, up and down."""
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    cluster.request("POST", "/apis/apps/v1/namespaces/default/replicasets", _replica_set(name))
    with _running_manager(command, cluster.directory / f"{name}.log") as pid:
        before = _cpu_seconds(pid)
        up = _scale(cluster, path, pods, 300)
        middle = _cpu_seconds(pid)
        time.sleep(1)
        resident = _resident(pid)
        down_from = _cpu_seconds(pid)
        down = _scale(cluster, path, 0, 300)
        after = _cpu_seconds(pid)
    cluster.request("DELETE", path)
    return {
        "up s": up,
        "down s": down,
        "cpu µs per pod created": (middle - before) / pods * 1e6,
        "cpu µs per pod deleted": (after - down_from) / pods * 1e6,
        "resident MB": resident / 1e6,
    }


def compare(pods: int) -> dict[str, Any]:
    """Both managers, ours first and last."""
    runs: dict[str, list[dict[str, float]]] = {"ours": [], "go": []}
    with running() as cluster:
        for number, who in enumerate(("ours", "go", "go", "ours")):
            command = _ours(cluster) if who == "ours" else _go(cluster)
            runs[who].append(measure(cluster, command, pods, f"bench-{number}"))
    best = {who: {key: min(run[key] for run in found) for key in found[0]} for who, found in runs.items()}
    ratios = {key: best["ours"][key] / best["go"][key] for key in best["ours"]}
    return {"pods": pods, "ours": best["ours"], "go": best["go"], "ratio": ratios}


def _budget_of(figure: str) -> float:
    return _BUDGETS["cpu" if figure.startswith("cpu") else "memory" if figure.startswith("resident") else "wall"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pods", nargs="*", type=int, default=[1000, 5000])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for pods in arguments.pods:
        result = compare(pods)
        if arguments.json:
            print(json.dumps(result))
            continue
        print(f"ReplicaSet 0→{pods}→0{'':<18}ours      Go   ratio  budget")
        for figure, ratio in result["ratio"].items():
            ours, go = result["ours"][figure], result["go"][figure]
            print(f"  {figure:<34}{ours:>8.2f}{go:>8.2f}{ratio:>8.2f}{_budget_of(figure):>8.1f}")


if __name__ == "__main__":
    main()
