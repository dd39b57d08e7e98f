"""``pilothouse manager`` on kube-apiserver, with simulated nodes and our scheduler."""

import re
from collections.abc import Iterator

import pytest
from tests.programs import Program, pilothouse, until
from tests.real.cluster_view import PodHistory, View, replica_set, three_ready
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.usefixtures("machines")


@pytest.fixture(scope="module")
def manager(real_cluster: RealCluster, machines: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    flags = [f"--kubeconfig={real_cluster.kubeconfig}", "--secure-port=0", "--leader-elect=false", "--v=2"]
    controllers = "--controllers=replicaset,garbagecollector,namespace"
    with pilothouse(tmp_path_factory.mktemp("manager"), "manager", controllers, *flags) as program:
        yield program


def test_pods_are_created_and_keep_running(view: View, manager: Program) -> None:
    with PodHistory(view) as history:
        view.create(replica_set("web", 3))
        first = three_ready(view)
        deleted_pod = sorted(first)[0]
        view.kubectl("delete", "pod", deleted_pod, "--wait=true")
        until(lambda: len(view.ready()) == 3, "the deleted pod is replaced")
        assert deleted_pod not in view.ready()
        assert len(view.ready() & first) == 2
        assert history.most == 3
    until(lambda: len(view.events("SuccessfulCreate")) == 4, "each creation has its event")
    described = view.kubectl("describe", "rs", "web")
    assert re.search(r"3 current / 3 desired", described)
    assert re.search(r"3 Running / 0 Waiting / 0 Succeeded / 0 Failed", described)
    assert len(re.findall(r"Normal\s+SuccessfulCreate\s.*\sreplicaset-controller\s+Created pod: web-", described)) == 4


def test_scaling_up_and_down(view: View, manager: Program) -> None:
    view.create(replica_set("web", 3))
    three_ready(view)
    view.kubectl("scale", "rs", "web", "--replicas=5")
    until(lambda: len(view.ready()) == 5, "five pods are ready")
    view.kubectl("scale", "rs", "web", "--replicas=1")
    until(lambda: len(view.pods()) == 1 and view.status("web").get("replicas") == 1, "one pod is left")
    until(lambda: len(view.events("SuccessfulDelete")) == 4, "each deletion has its event")


def test_orphans_are_adopted_by_a_new_replica_set(view: View, manager: Program) -> None:
    view.create(replica_set("web", 3))
    first = three_ready(view)
    view.kubectl("delete", "rs", "web", "--cascade=orphan", "--wait=true")
    assert view.ready() == first
    assert all("ownerReferences" not in pod["metadata"] for pod in view.pods().values())
    view.create(replica_set("web", 3))
    three_ready(view)
    assert view.ready() == first
    owners = {pod["metadata"]["ownerReferences"][0]["name"] for pod in view.pods().values()}
    assert owners == {"web"}


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_deleting_the_replica_set_deletes_its_pods(view: View, manager: Program, cascade: str) -> None:
    view.create(replica_set("web", 3))
    three_ready(view)
    view.kubectl("delete", "rs", "web", f"--cascade={cascade}", "--wait=true")
    until(lambda: not view.cluster.request("GET", view.pods_path)["items"], "no pod is left")


def test_deleting_a_namespace_removes_its_content(view: View, manager: Program) -> None:
    view.create(replica_set("web", 3))
    three_ready(view)
    view.kubectl("create", "configmap", "some", "--from-literal=key=value")
    view.kubectl("delete", "namespace", view.namespace, "--wait=true", "--timeout=30s")
    assert view.namespace not in view.cluster.kubectl("get", "namespaces", "-o", "name")
    assert view.cluster.request("GET", view.pods_path)["items"] == []


def test_manager_logged_no_unexpected_errors(manager: Program) -> None:
    """All of the above without errors, except those that upstream logs too: a status of a deleted ReplicaSet, and pods
    that remain after the first sync of their namespace."""
    assert manager.code is None
    usual = re.compile(r"web\W+ not found|UID in precondition|unexpected items still remain in namespace")
    complaints = [line for line in manager.log.splitlines() if re.match(r"[EW]\d{4} ", line)]
    assert [line for line in complaints if not usual.search(line)] == []
    assert "Traceback" not in manager.log
