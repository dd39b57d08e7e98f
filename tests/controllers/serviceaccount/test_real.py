"""The default account and root CA of each namespace on kube-apiserver, with the rights of the controllers' roles."""

from pathlib import Path

from tests.programs import pilothouse, until
from tests.real_cluster import RealCluster

ROLES = (
    "system:kube-controller-manager",
    "system:controller:service-account-controller",
    "system:controller:root-ca-cert-publisher",
)
FLAGS = (
    "--controllers=serviceaccount,root-ca-cert-publisher",
    "--leader-elect=false",
    "--secure-port=0",
)


def test_namespace_gets_account_and_root_ca_and_both_are_recreated(real_cluster: RealCluster, tmp_path: Path) -> None:
    kubeconfig = real_cluster.user("identity", cluster_roles=ROLES)
    namespace = real_cluster.namespace("identity")
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    authority = f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"

    def are_there() -> bool:
        return all(real_cluster.try_request("GET", path)[0] == 200 for path in (account, authority))

    with pilothouse(tmp_path, "manager", f"--kubeconfig={kubeconfig}", *FLAGS) as manager:
        until(are_there, "both are made")
        # The kubeconfig names the file, and its content is what pods are to trust.
        assert real_cluster.request("GET", authority)["data"] == {"ca.crt": real_cluster.ca_file.read_text()}
        for path in (account, authority):
            real_cluster.request("DELETE", path)
        until(are_there, "both come back")
        assert manager.stop() == 0
    assert "Reconcile failed" not in manager.log
