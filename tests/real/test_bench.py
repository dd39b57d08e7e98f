"""The bench of Deployments in small, so that it still runs when somebody wants to measure."""

import sys

import pytest
from bench.deployments import measure
from bench.light_kubelet import READY
from bench.managers import compared
from bench.processes import ROOT, started, wait_for_line
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.usefixtures("swept")


def test_deployments_come_roll_and_go_with_their_namespace(real_cluster: RealCluster) -> None:
    """Two of two pods, with our manager. The namespace waits five seconds before it begins to go."""
    log = real_cluster.directory / "light-kubelet.log"
    command = [sys.executable, "-m", "bench.light_kubelet", f"--kubeconfig={real_cluster.kubeconfig}", "--nodes=2"]
    with started(command, log, cwd=ROOT) as process:
        wait_for_line(process, READY, log)
        found = measure(real_cluster, "ours", 2, 2, "bench-small")
    assert all(value > 0 for value in found.values())
    figures = [compared("small", name, {"ours": [found], "go": [found]}) for name in found]
    assert [one.ratio for one in figures] == [1.0] * 8
    for number in range(2):
        real_cluster.request("DELETE", f"/api/v1/nodes/node-{number}")
