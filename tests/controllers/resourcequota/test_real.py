"""Quotas on kube-apiserver, with its admission and the rights of the controller's role."""

from pathlib import Path

from tests.programs import pilothouse, until
from tests.real_cluster import RealCluster

NEEDED = ("system:kube-controller-manager", "system:controller:resourcequota-controller")
FLAGS = (
    "--controllers=resourcequota",
    "--leader-elect=false",
    "--secure-port=0",
    "--use-service-account-credentials=false",
)


def test_quota_is_enforced_and_released_on_deletion(real_cluster: RealCluster, tmp_path: Path) -> None:
    kubeconfig = real_cluster.user("quota", cluster_roles=NEEDED)
    namespace = real_cluster.namespace("quota")
    base = f"/api/v1/namespaces/{namespace}"

    def used() -> dict[str, str]:
        result: dict[str, str] = (
            real_cluster.request("GET", f"{base}/resourcequotas/q").get("status", {}).get("used", {})
        )
        return result

    def pod(name: str) -> int:
        resources = {"requests": {"cpu": "100m"}}
        spec = {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "automountServiceAccountToken": False,
            "schedulerName": "nobody",
        }
        return real_cluster.try_request("POST", f"{base}/pods", {"metadata": {"name": name}, "spec": spec})[0]

    with pilothouse(tmp_path, "manager", f"--kubeconfig={kubeconfig}", *FLAGS) as manager:
        hard = {"pods": "2", "requests.cpu": "1", "count/deployments.apps": "1", "configmaps": "9"}
        real_cluster.request("POST", f"{base}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        until(lambda: set(used()) == set(hard), "all limits are in force")
        maps = int(used()["configmaps"])
        assert [pod("a"), pod("b")] == [201, 201]
        # The server's admission gets the limits through its own watch. Pods that it admitted before are counted when
        # the controller observes them.
        until(lambda: used()["pods"] == "2", "both are charged")
        assert pod("c") == 403
        real_cluster.request("POST", f"{base}/configmaps", {"metadata": {"name": "m"}})
        charged = {"pods": "2", "requests.cpu": "200m", "count/deployments.apps": "0", "configmaps": str(maps + 1)}
        # A recount in progress may undo admission's charge; it is repeated at the object's event.
        until(lambda: used() == charged, "what came is charged")
        real_cluster.request("DELETE", f"{base}/pods/a", {"gracePeriodSeconds": 0})
        real_cluster.request("DELETE", f"{base}/configmaps/m")
        until(lambda: (used()["pods"], used()["configmaps"]) == ("1", str(maps)), "what went is given back")
        assert pod("c") == 201
        real_cluster.request(
            "PATCH",
            f"{base}/pods/c/status",
            {"status": {"phase": "Failed"}},
            content_type="application/merge-patch+json",
        )
        until(lambda: used()["pods"] == "1", "what is done uses nothing")
        assert manager.stop() == 0
