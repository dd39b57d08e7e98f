"""The bench of Deployments in small, so that it still runs when somebody wants to measure."""

import pytest
from bench.deployments import measure
from bench.managers import comparisons
from bench.rollouts import light_nodes, requests_answered
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.usefixtures("swept")


def test_deployments_come_roll_and_go_with_their_namespace(real_cluster: RealCluster) -> None:
    """Two of two pods, with our manager. The namespace waits five seconds before it begins to go."""
    before = requests_answered(real_cluster)
    with light_nodes(real_cluster, 2) as check:
        found = measure(real_cluster, 2, 2, "ours", "bench-small")
        check()
    assert all(value > 0 for value in found.values())
    figures = comparisons("small", {"ours": [found], "go": [found]})
    assert [one.ratio for one in figures] == [1.0] * 8
    made = requests_answered(real_cluster) - before
    assert made["POST pods 201"] == 8, "four at first, four of the other image"
    assert made["POST deployments 201"] == 2
    for number in range(2):
        real_cluster.request("DELETE", f"/api/v1/nodes/node-{number}")
