"""The real-cluster fixture: users have exactly the rights granted to them."""

import pytest
from tests.real_cluster import RealCluster


def test_administrator_has_all_rights(real_cluster: RealCluster) -> None:
    namespace = real_cluster.namespace()
    assert real_cluster.request("GET", f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace


def test_user_has_only_granted_rights(real_cluster: RealCluster) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    kubeconfig = real_cluster.user("reader", rules=rules)
    assert real_cluster.kubectl("get", "pods", kubeconfig=kubeconfig) == ""
    with pytest.raises(AssertionError, match="forbidden"):
        real_cluster.kubectl("get", "nodes", kubeconfig=kubeconfig)


def test_kubectl_connects(real_cluster: RealCluster) -> None:
    assert "Server Version" in real_cluster.kubectl("version")
