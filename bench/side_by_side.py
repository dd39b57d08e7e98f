"""Manager compared with kube-controller-manager: a ReplicaSet is scaled from 0 to N and back to 0.

Both run on one real API server without client throttling, alternately (``managers.ORDER``), so that changes in the
speed of the machine affect both. Wall times and CPU are compared by the best run of each, because other load only
makes a run longer. Figures: wall seconds up and down, CPU microseconds of the manager per pod, its resident memory
with all pods. With several sizes, the last rows show whether the cost per pod grows.
"""

import sys
from collections.abc import Sequence
from typing import Any

from tests.real_cluster import RealCluster, missing_programs, running

from bench.managers import ORDER, command, comparisons, in_turn, running_manager
from bench.report import Figure
from bench.rollouts import Phases, wait_until

_SECONDS_PER_POD = 0.1
_LEAST_SECONDS = 300.0
"""How long a scaling may take: a hundred times what it takes on a quiet machine."""
_LOOK_SECONDS = 0.02


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


def _scale(cluster: RealCluster, path: str, wanted: int, seconds: float) -> None:
    """Scale, and wait until the status says so."""

    def missing() -> object:
        found = cluster.request("GET", path)
        status = found.get("status", {})
        done = status.get("observedGeneration") == found["metadata"]["generation"]
        return None if done and status.get("replicas", 0) == wanted else status or "a status"

    cluster.request("PATCH", path, {"spec": {"replicas": wanted}}, content_type="application/merge-patch+json")
    wait_until(missing, patience=seconds, look=_LOOK_SECONDS)


def measure(cluster: RealCluster, who: str, pods: int, name: str) -> dict[str, float]:
    """One manager, one ReplicaSet, up and down."""
    path = f"/apis/apps/v1/namespaces/default/replicasets/{name}"
    patience = max(_LEAST_SECONDS, pods * _SECONDS_PER_POD)
    cluster.request("POST", "/apis/apps/v1/namespaces/default/replicasets", _replica_set(name))
    with running_manager(command(cluster, who, "replicaset"), cluster.directory / f"{name}.log") as pid:
        phases = Phases(pid, pods)
        with phases.phase("up", "created"):
            _scale(cluster, path, pods, patience)
        phases.rest()
        with phases.phase("down", "deleted"):
            _scale(cluster, path, 0, patience)
    cluster.request("DELETE", path)
    return phases.figures


def figures(pods: int = 5000, order: Sequence[str] = ORDER) -> list[Figure]:
    """Both managers in turn. Nothing without the real programs."""
    if missing_programs():
        return []
    what = f"ReplicaSet 0→{pods:,}→0"
    with running() as cluster:
        runs = in_turn(what, order, lambda who, name: measure(cluster, who, pods, name))
    return comparisons(what, runs, series="ReplicaSet 0→N→0", size=pods)


def main() -> None:
    from bench.report import growth, table

    measured = [one for word in sys.argv[1:] or ["500", "5000", "20000"] for one in figures(int(word))]
    print(table([*measured, *growth(measured)]))


if __name__ == "__main__":
    main()
