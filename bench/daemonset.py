"""Manager compared with kube-controller-manager: a DaemonSet on N nodes is created and updated.

``maxUnavailable`` is 20 %, so the update takes five rounds. Managers run alternately on one real API server, as in
``bench.side_by_side``; ``bench.light_kubelet`` simulates nodes and pods for both. Figures: wall seconds until the
status shows that all pods are updated and available, CPU microseconds of the manager per pod, its resident memory with
all pods. Between two runs the pods are deleted while no manager runs.
"""

import sys
import time
from collections.abc import Sequence
from functools import partial

from tests.real_cluster import RealCluster, missing_programs

from bench.managers import ORDER, command, comparisons, in_turn, running_manager
from bench.report import Figure
from bench.rollouts import Phases, cluster_of, image_change, wait_until
from bench.virtual_rollout import daemon_set

_PATIENCE_SECONDS = 400.0
_LOOK_SECONDS = 0.05
_MANY = 2000
_COLLECTION = "/apis/apps/v1/namespaces/default/daemonsets"
_PODS = "/api/v1/namespaces/default/pods"


def measure(cluster: RealCluster, nodes: int, who: str, name: str) -> dict[str, float]:
    """One manager, one DaemonSet: creation and rolling update."""
    path = f"{_COLLECTION}/{name}"

    def rolling() -> object:
        """The status, until every node has an available daemon of the newest template."""
        found = cluster.request("GET", path)
        status = found.get("status", {})
        seen = [status.get(name, 0) for name in ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable")]
        done = status.get("observedGeneration") == found["metadata"]["generation"] and seen == [nodes] * 3
        return None if done else status or "a status"

    wait = partial(wait_until, rolling, patience=_PATIENCE_SECONDS, look=_LOOK_SECONDS)
    with running_manager(command(cluster, who, "daemonset"), cluster.directory / f"{name}.log") as pid:
        phases = Phases(pid, nodes)
        with phases.phase("creation", "created"):
            cluster.request("POST", _COLLECTION, daemon_set(name))
            wait()
        phases.rest()
        with phases.phase("update", "updated"):
            cluster.request("PATCH", path, image_change("app:v2"), content_type="application/merge-patch+json")
            wait()
        phases.rest("after the update")
    _clean_up(cluster, path)
    return phases.figures


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
    what = f"DaemonSet on {nodes:,} nodes"
    with cluster_of(nodes) as (cluster, check):

        def one(who: str, name: str) -> dict[str, float]:
            found = measure(cluster, nodes, who, name)
            check()
            return found

        return comparisons(what, in_turn(what, order, one))


def main() -> None:
    from bench.report import table

    for nodes in [int(word) for word in sys.argv[1:]] or [1000, 5000]:
        print(table(figures(nodes)))


if __name__ == "__main__":
    main()
