"""ClusterRole aggregation on kube-apiserver, with the rights of the controller's role, by server-side apply."""

from pathlib import Path

from tests.programs import pilothouse, until
from tests.real_cluster import RealCluster

NEEDED = ("system:kube-controller-manager", "system:controller:clusterrole-aggregation-controller")
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
FLAGS = ("--controllers=clusterrole-aggregation", "--leader-elect=false", "--secure-port=0")
POD_READERS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def test_aggregated_role_follows_selected_roles(real_cluster: RealCluster, tmp_path: Path) -> None:
    kubeconfig = real_cluster.user("aggregation", cluster_roles=NEEDED)
    whole, part = f"{ROLES}/aggregation-whole", f"{ROLES}/aggregation-part"
    picks = {"clusterRoleSelectors": [{"matchLabels": {"aggregation": "part"}}]}

    def rules(path: str) -> object:
        return real_cluster.request("GET", path).get("rules") or []

    def write(path: str, rules: list[object]) -> None:
        real_cluster.request("PATCH", path, {"rules": rules}, content_type="application/merge-patch+json")

    try:
        real_cluster.request(
            "POST", ROLES, {"metadata": {"name": "aggregation-whole"}, "aggregationRule": picks, "rules": [ALL]}
        )
        with pilothouse(tmp_path, "manager", f"--kubeconfig={kubeconfig}", *FLAGS) as manager:
            until(lambda: bool(rules(f"{ROLES}/admin")), "admin is filled")
            assert rules(whole) == [ALL], "an apply without rules leaves those of another manager"
            labels = {"aggregation": "part"}
            metadata = {"name": "aggregation-part", "labels": labels}
            real_cluster.request("POST", ROLES, {"metadata": metadata, "rules": [POD_READERS]})
            until(lambda: rules(whole) == [POD_READERS], "the part's rules are the whole's")
            write(whole, [ALL])
            until(lambda: rules(whole) == [POD_READERS], "what is written by hand is replaced")
            managers = real_cluster.request("GET", whole)["metadata"]["managedFields"]
            assert ("clusterrole-aggregation-controller", "Apply") in {(m["manager"], m["operation"]) for m in managers}
            for role in ("view", "edit"):
                assert rules(f"{ROLES}/{role}"), role
            real_cluster.request("DELETE", part)
            until(lambda: rules(whole) == [], "they go with the part")
            assert manager.stop() == 0
        assert "Reconcile failed" not in manager.log
    finally:
        for path in (whole, part):
            if real_cluster.try_request("GET", path)[0] == 200:
                real_cluster.request("DELETE", path)
