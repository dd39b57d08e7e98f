"""DaemonSets of ``pilothouse manager`` in front of a real kube-apiserver, with simulated nodes and our scheduler."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.programs import Program, pilothouse, until
from tests.real.cluster_view import View
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.usefixtures("machines")


@pytest.fixture(scope="module")
def manager(real_cluster: RealCluster, machines: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    flags = [f"--kubeconfig={real_cluster.kubeconfig}", "--secure-port=0", "--leader-elect=false", "--v=2"]
    with pilothouse(
        tmp_path_factory.mktemp("manager"), "manager", "--controllers=daemonset,garbagecollector", *flags
    ) as program:
        yield program


def daemon_set() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "main", "image": "pause:1"}]},
            },
        },
    }


def test_daemons_run_are_updated_and_go_back(view: View, manager: Program) -> None:
    nodes = 3
    until(lambda: len(view.kubectl("get", "nodes", "-o", "name").split()) == nodes, "the nodes have registered")
    view.cluster.request("POST", f"/apis/apps/v1/namespaces/{view.namespace}/daemonsets", daemon_set())
    until(lambda: len(view.ready()) == nodes, "every node has a ready pod")
    view.kubectl("rollout", "status", "ds/agent", "--timeout=30s")
    view.kubectl("set", "image", "ds/agent", "main=pause:2")
    view.kubectl("rollout", "status", "ds/agent", "--timeout=60s")
    images = {pod["spec"]["containers"][0]["image"] for pod in view.pods().values()}
    assert images == {"pause:2"}
    view.kubectl("rollout", "undo", "ds/agent")
    view.kubectl("rollout", "status", "ds/agent", "--timeout=60s")
    history = view.kubectl("rollout", "history", "ds/agent")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["2", "3"]
    assert "already matches revision 3" in view.kubectl("rollout", "undo", "ds/agent", "--to-revision=3")
    until(lambda: len(view.pods()) == nodes, "old pods are gone")
    places = sorted(pod["spec"]["nodeName"] for pod in view.pods().values())
    assert len(places) == len(set(places)) == nodes
