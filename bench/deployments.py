"""Manager compared with kube-controller-manager: many Deployments are created, rolled and deleted.

They are rolled to another image with the default strategy (25 % surge, 25 % unavailable), and deleted with their
namespace, on one real API server. Managers run alternately, as in ``bench.side_by_side``; ``bench.light_kubelet`` makes
pods ready for both. The controllers of Deployments, ReplicaSets and namespaces and the garbage collector run. Figures:
wall seconds until the status of every Deployment shows that all pods are updated and available, and until the namespace
is gone (both managers wait five seconds before they start); CPU microseconds of the manager per pod, where a roll
creates one pod and deletes one; its resident memory.

The requests during the deletion are shown, too: since v1.33 the pods of a namespace are deleted first, before that the
order was random. If Deployments are deleted first, the manager writes no more statuses.

``python -m bench.deployments [DEPLOYMENTS] [REPLICAS]`` runs it alone.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.real_cluster import RealCluster, missing_programs

from bench.managers import ORDER, command, comparisons, in_turn, running_manager
from bench.report import Figure
from bench.rollouts import Phases, cluster_of, image_change, requests_answered, wait_until

DEPLOYMENTS = 100
REPLICAS = 50
NODES = 100
_CONTROLLERS = "deployment,replicaset,namespace,garbagecollector"
_PATIENCE_SECONDS = 600.0
_LOOK_SECONDS = 0.2
_SHOWN = 12
"""How many sorts of requests."""


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


def measure(
    cluster: RealCluster, deployments: int, replicas: int, who: str, name: str, *, show: bool = False
) -> dict[str, float]:
    """One manager, one namespace full of Deployments, from its beginning to its end."""
    namespace = f"/api/v1/namespaces/{name}"
    collection = f"/apis/apps/v1/namespaces/{name}/deployments"
    names = [f"web-{number}" for number in range(deployments)]

    def rolling() -> int:
        return deployments - sum(map(is_rolled_out, cluster.request("GET", collection)["items"]))

    def remaining() -> object:
        status, found = cluster.try_request("GET", namespace)
        return None if status == 404 else found.get("status")

    wait = partial(wait_until, patience=_PATIENCE_SECONDS, look=_LOOK_SECONDS)
    with running_manager(command(cluster, who, _CONTROLLERS), cluster.directory / f"{name}.log") as pid:
        phases = Phases(pid, deployments * replicas)
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        with phases.phase("creation", "created"):
            for each in names:
                cluster.request("POST", collection, deployment(each, replicas))
            wait(rolling)
        phases.rest()
        with phases.phase("roll", "rolled"):
            for each in names:
                cluster.request(
                    "PATCH",
                    f"{collection}/{each}",
                    image_change("app:v2"),
                    content_type="application/strategic-merge-patch+json",
                )
            wait(rolling)
        phases.rest("after the roll")
        before = requests_answered(cluster)
        with phases.phase("deletion", "deleted"):
            cluster.request("DELETE", namespace)
            wait(remaining)
    if show:
        most = (requests_answered(cluster) - before).most_common(_SHOWN)
        print(f"deletion, {who}: {', '.join(f'{sort}: {count}' for sort, count in most)}", file=sys.stderr, flush=True)
    return phases.figures


def figures(
    deployments: int = DEPLOYMENTS, replicas: int = REPLICAS, nodes: int = NODES, order: Sequence[str] = ORDER[:4]
) -> list[Figure]:
    """Both managers in turn, twice each. Nothing without the real programs."""
    if missing_programs():
        return []
    what = f"{deployments} Deployments × {replicas} pods"

    with cluster_of(nodes) as (cluster, check):

        def one(who: str, name: str) -> dict[str, float]:
            found = measure(cluster, deployments, replicas, who, name, show=True)
            check()
            return found

        return comparisons(what, in_turn(what, order, one))


def main() -> None:
    from bench.report import table

    given = [int(word) for word in sys.argv[1:]]
    deployments, replicas = (*given, *(DEPLOYMENTS, REPLICAS)[len(given) :])
    print(table(figures(deployments, replicas)))


if __name__ == "__main__":
    main()
