"""Ours beside the Go manager: many Deployments on one real API server, created, rolled to another image, and deleted
with their namespace.

Deployments roll as they do by default, a quarter more and a quarter fewer at a time. Each manager in turn, as in
``bench.side_by_side``; pods are made ready by ``bench.light_kubelet``, for both the same. At work are the controllers
of Deployments, ReplicaSets and namespaces and the garbage collector. Figures: wall seconds until the status of every
Deployment says that all is updated and available, and until the namespace is gone (either manager waits five seconds
before it begins); CPU microseconds of the manager per pod, where a roll makes one and deletes one; its resident memory.

``python -m bench.deployments [DEPLOYMENTS] [REPLICAS]`` runs it alone.
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

DEPLOYMENTS = 100
REPLICAS = 50
NODES = 100
_CONTROLLERS = "deployment,replicaset,namespace,garbagecollector"
_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
"""Nodes are ready when they are made; nobody would take the taint off that admission puts on new ones."""
_PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.2


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """A Deployment of one small container."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "app:v1"}], "terminationGracePeriodSeconds": 1},
            },
        },
    }


def is_rolled_out(found: dict[str, Any]) -> bool:
    """Whether all pods are of the newest template and available, and no others left, as ``kubectl rollout`` asks."""
    status, wanted = found.get("status", {}), found["spec"]["replicas"]
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")}
    return status.get("observedGeneration") == found["metadata"]["generation"] and counts == {wanted}


def _wait_rolled_out(cluster: RealCluster, path: str, count: int, began: float) -> float:
    """Seconds since ``began`` until all Deployments there are rolled out."""
    while True:
        items = cluster.request("GET", path)["items"]
        done = sum(map(is_rolled_out, items))
        took = time.perf_counter() - began
        if done == count:
            return took
        assert took < _PATIENCE_SECONDS, f"after {took:.0f} s {done} of {count} Deployments are rolled out"
        time.sleep(_LOOK_SECONDS)


def _wait_gone(cluster: RealCluster, path: str, began: float) -> float:
    while True:
        status, found = cluster.ask("GET", path)
        took = time.perf_counter() - began
        if status == 404:
            return took
        assert took < _PATIENCE_SECONDS, f"not gone after {took:.0f} s: {found.get('status')}"
        time.sleep(_LOOK_SECONDS)


def measure(cluster: RealCluster, who: str, deployments: int, replicas: int, name: str) -> dict[str, float]:
    """One manager, one namespace full of Deployments, from its beginning to its end."""
    pods = deployments * replicas
    namespace = f"/api/v1/namespaces/{name}"
    collection = f"/apis/apps/v1/namespaces/{name}/deployments"
    names = [f"web-{number}" for number in range(deployments)]
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:v2"}]}}}}
    with running_manager(command(cluster, who, _CONTROLLERS), cluster.directory / f"{name}.log") as pid:
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        at_first = cpu_seconds(pid)
        began = time.perf_counter()
        for each in names:
            cluster.request("POST", collection, deployment(each, replicas))
        creation = _wait_rolled_out(cluster, collection, deployments, began)
        created = cpu_seconds(pid)
        time.sleep(1)
        resident = resident_bytes(pid)
        before_roll = cpu_seconds(pid)
        began = time.perf_counter()
        for each in names:
            cluster.request(
                "PATCH", f"{collection}/{each}", image, content_type="application/strategic-merge-patch+json"
            )
        roll = _wait_rolled_out(cluster, collection, deployments, began)
        rolled = cpu_seconds(pid)
        time.sleep(1)
        afterwards = resident_bytes(pid)
        before_end = cpu_seconds(pid)
        began = time.perf_counter()
        cluster.request("DELETE", namespace)
        deletion = _wait_gone(cluster, namespace, began)
        deleted = cpu_seconds(pid)
    return {
        "creation, wall s": creation,
        "roll, wall s": roll,
        "deletion, wall s": deletion,
        "CPU per pod created µs": (created - at_first) / pods * 1e6,
        "CPU per pod rolled µs": (rolled - before_roll) / pods * 1e6,
        "CPU per pod deleted µs": (deleted - before_end) / pods * 1e6,
        "resident memory MB": resident / 1e6,
        "resident memory after the roll MB": afterwards / 1e6,
    }


def figures(
    deployments: int = DEPLOYMENTS, replicas: int = REPLICAS, nodes: int = NODES, order: Sequence[str] = ORDER[:4]
) -> list[Figure]:
    """Both managers in turn, twice each. Nothing without the real programs."""
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
                runs[who].append(measure(cluster, who, deployments, replicas, f"bench-{number}"))
                shown = ", ".join(f"{name} {value:.3g}" for name, value in runs[who][-1].items())
                print(f"{deployments} × {replicas}, {who}: {shown}", file=sys.stderr, flush=True)
                assert process.poll() is None, f"the nodes are gone: {log.read_text()[-2000:]}"
    what = f"{deployments} Deployments × {replicas} pods"
    return [compared(what, name, runs) for name in runs["ours"][0]]


def main() -> None:
    from bench.report import table

    given = [int(word) for word in sys.argv[1:]]
    deployments, replicas = (*given, *(DEPLOYMENTS, REPLICAS)[len(given) :])
    print(table(figures(deployments, replicas)))


if __name__ == "__main__":
    main()
