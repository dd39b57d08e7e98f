"""The manager with the rights of upstream's v1.36 roles, and no others, in front of a real kube-apiserver."""

import re
from pathlib import Path

import pytest
from tests.programs import pilothouse, until
from tests.real.cluster_view import View, replica_set, three_ready
from tests.real.conftest import role_of_v1_36
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.usefixtures("machines")

ROLE = "system:controller:replicaset-controller"
LOCKING = "system::leader-locking-kube-controller-manager"


def refused(cluster: RealCluster) -> int:
    """How many requests the API server has answered with 403 so far, whoever sent them."""
    lines = cluster.request("GET", "/metrics").splitlines()
    counts = [line for line in lines if line.startswith("apiserver_request_total{") and 'code="403"' in line]
    return sum(int(float(line.rpartition(" ")[2])) for line in counts)


def test_a_refusal_would_be_counted(real_cluster: RealCluster) -> None:
    """The measure of the other tests can fail."""
    before = refused(real_cluster)
    with pytest.raises(AssertionError, match="cannot list"):
        real_cluster.kubectl("get", "secrets", kubeconfig=real_cluster.user("nobody"))
    assert refused(real_cluster) == before + 1


def tell_its_story(view: View) -> None:
    """Create, replace, adopt, scale: whatever needs a right is asked for."""
    view.create(replica_set("web", 3))
    first = three_ready(view)
    view.kubectl("delete", "pod", sorted(first)[0], "--wait=true")
    until(lambda: len(view.ready()) == 3, "the deleted pod is replaced")
    view.kubectl("label", "pod", sorted(view.ready())[0], "app=other", "--overwrite")
    until(lambda: len(view.ready()) == 4 and view.status("web").get("readyReplicas") == 3, "one is released")
    view.kubectl("label", "pods", "--all", "app=web", "--overwrite")
    until(lambda: len(view.pods()) == 3, "it is adopted again, and is one too many")
    view.scale("web", 1)
    until(lambda: len(view.pods()) == 1 and view.status("web").get("replicas") == 1, "one pod is left")
    until(lambda: view.events("SuccessfulDelete"), "events arrive")


def test_the_replica_set_controllers_role_is_enough(view: View, directory: Path) -> None:
    cluster = view.cluster
    user = cluster.user("only-replicaset", rules=role_of_v1_36("clusterroles", ROLE)["rules"])
    before = refused(cluster)
    flags = ["--controllers=replicaset", "--leader-elect=false", "--secure-port=0", "--v=4"]
    with pilothouse(directory, "manager", f"--kubeconfig={user}", *flags) as manager:
        tell_its_story(view)
        assert manager.stop() == 0
    assert refused(cluster) == before
    assert not re.search(r"^[EW]\d{4} ", manager.log, re.MULTILINE)


def test_with_leader_election_the_locking_role_is_enough_too(view: View, directory: Path) -> None:
    cluster = view.cluster
    rules = role_of_v1_36("clusterroles", ROLE)["rules"]
    user = cluster.user("replicaset-leader", rules=rules)
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
    role = role_of_v1_36("roles", LOCKING)
    name = f"v1.36{LOCKING}"
    cluster.request("POST", f"{rbac}/roles", {"metadata": {"name": name}, "rules": role["rules"]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "replicaset-leader"}],
    }
    cluster.request("POST", f"{rbac}/rolebindings", binding)
    before = refused(cluster)
    flags = ["--controllers=replicaset", "--secure-port=0", "--v=4"]
    with pilothouse(directory, "manager", f"--kubeconfig={user}", *flags) as manager:
        tell_its_story(view)
        assert manager.stop() == 0
    assert "Successfully acquired lease" in manager.log
    assert "Released lease" in manager.log
    assert refused(cluster) == before
    assert not re.search(r"^[EW]\d{4} ", manager.log, re.MULTILINE)
