"""Ours beside the Go manager: a DaemonSet over N nodes on one real API server, created, then updated from node to node.

``maxUnavailable`` is 20 %, so the update takes five rounds. Each manager in turn, as in ``bench.side_by_side``; nodes
and pods are served by ``bench.light_kubelet``, for both the same. Figures: wall seconds until the status says that all
is updated and available, CPU microseconds of the manager per pod, its resident memory with all pods there. Between two
runs the pods are deleted while no manager runs.
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

from tests.real_cluster import RealCluster, missing_programs, running

from bench.light_kubelet import READY
from bench.managers import ORDER, command, compared, running_manager
from bench.processes import ROOT, cpu_seconds, resident_bytes, started, wait_for_line
from bench.report import Figure
from bench.virtual_rollout import daemon_set

_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
"""Nodes are ready when they are made; nobody would take the taint off that admission puts on new ones."""
_PATIENCE_SECONDS = 400.0
_MANY = 2000
_COLLECTION = "/apis/apps/v1/namespaces/default/daemonsets"
_PODS = "/api/v1/namespaces/default/pods"


def _wait_rolled_out(cluster: RealCluster, path: str, nodes: int, began: float) -> float:
    """Seconds since ``began`` until every node has an available daemon of the newest template."""
    while True:
        found = cluster.request("GET", path)
        status = found.get("status", {})
        seen = [status.get(name, 0) for name in ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")]
        took = time.perf_counter() - began
        if status.get("observedGeneration") == found["metadata"]["generation"] and seen == [nodes] * 3:
            return took
        assert took < _PATIENCE_SECONDS, f"not rolled out after {took:.0f} s: {status}"
        time.sleep(0.05)


def measure(cluster: RealCluster, who: str, nodes: int, name: str) -> dict[str, float]:
    """One manager, one DaemonSet: creation and rolling update."""
    path = f"{_COLLECTION}/{name}"
    with running_manager(command(cluster, who, "daemonset"), cluster.directory / f"{name}.log") as pid:
        before = cpu_seconds(pid)
        began = time.perf_counter()
        cluster.request("POST", _COLLECTION, daemon_set(name))
        creation = _wait_rolled_out(cluster, path, nodes, began)
        created = cpu_seconds(pid)
        time.sleep(1)
        resident = resident_bytes(pid)
        update_from = cpu_seconds(pid)
        began = time.perf_counter()
        image: Any = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:v2"}]}}}}
        cluster.request("PATCH", path, image, content_type="application/merge-patch+json")
        update = _wait_rolled_out(cluster, path, nodes, began)
        updated = cpu_seconds(pid)
        time.sleep(1)
        afterwards = resident_bytes(pid)
    _clean_up(cluster, path)
    return {
        "creation, wall s": creation,
        "update, wall s": update,
        "CPU per pod created µs": (created - before) / nodes * 1e6,
        "CPU per pod updated µs": (updated - update_from) / nodes * 1e6,
        "resident memory MB": resident / 1e6,
        "resident memory after the update MB": afterwards / 1e6,
    }


def _clean_up(cluster: RealCluster, path: str) -> None:
    cluster.request("DELETE", path, {"propagationPolicy": "Orphan"})
    cluster.request("DELETE", _PODS, {"gracePeriodSeconds": 0})
    while cluster.request("GET", f"{_PODS}?limit=1")["items"]:
        time.sleep(0.2)


def figures(nodes: int = 5000, order: Sequence[str] = ()) -> list[Figure]:
    """Both managers in turn, three times each, or twice where it takes minutes. Nothing without the real programs."""
    order = order or (ORDER if nodes < _MANY else ORDER[:4])
    if missing_programs():
        return []
    runs: dict[str, list[dict[str, float]]] = {"ours": [], "go": []}
    with running(_FLAGS) as cluster:
        log = cluster.directory / "light-kubelet.log"
        kubelet = [
            sys.executable, "-m", "bench.light_kubelet", f"--kubeconfig={cluster.kubeconfig}", f"--nodes={nodes}"
        ]  # fmt: skip
        with started(kubelet, log, cwd=ROOT) as process:
            wait_for_line(process, READY, log)
            for number, who in enumerate(order):
                runs[who].append(measure(cluster, who, nodes, f"bench-{number}"))
                assert process.poll() is None, f"the nodes are gone: {log.read_text()[-2000:]}"
    return [compared(f"DaemonSet on {nodes:,} nodes", name, runs) for name in runs["ours"][0]]


def main() -> None:
    from bench.report import table

    for nodes in [int(word) for word in sys.argv[1:]] or [1000, 5000]:
        print(table(figures(nodes)))


if __name__ == "__main__":
    main()
