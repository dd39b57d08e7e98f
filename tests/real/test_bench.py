"""Small versions of the benchmarks against kube-controller-manager, so that they keep working."""

import pytest
from bench.deployments import measure
from bench.managers import comparisons
from bench.rollouts import light_nodes, requests_answered
from tests.real_cluster import RealCluster

from bench import claims, namespaces

pytestmark = pytest.mark.usefixtures("swept")


def test_bench_of_deployments(real_cluster: RealCluster) -> None:
    """Two Deployments of two pods, with our manager. The namespace controller waits five seconds."""
    before = requests_answered(real_cluster)
    with light_nodes(real_cluster, 2) as check:
        result = measure(real_cluster, 2, 2, "pilothouse", "bench-small")
        check()
    assert all(value > 0 for value in result.values())
    figures = comparisons("small", {"pilothouse": [result], "upstream": [result]})
    assert [figure.ratio for figure in figures] == [1.0] * 8
    requests = requests_answered(real_cluster) - before
    assert requests["POST pods 201"] == 8, "four at first, four of the other image"
    assert requests["POST deployments 201"] == 2
    for number in range(2):
        real_cluster.request("DELETE", f"/api/v1/nodes/node-{number}")


def test_bench_of_namespaces(real_cluster: RealCluster) -> None:
    result = namespaces.measure(real_cluster, "pilothouse", 2, "bench-filled")
    assert len(result) == 4
    assert all(value > 0 for value in result.values())


def test_bench_of_claims_binds_each_in_four_writes(real_cluster: RealCluster) -> None:
    """To volumes of their own."""
    name = "bench-bound"
    result = claims.measure(real_cluster, "pilothouse", 2, name)
    paths, volumes = f"/api/v1/namespaces/{name}/persistentvolumeclaims", "/api/v1/persistentvolumes"
    bound = [f"{volumes}/{item['spec']['volumeName']}" for item in real_cluster.request("GET", paths)["items"]]
    assert sorted(bound) == [f"{volumes}/{name}-0", f"{volumes}/{name}-1"]
    for path in (f"{paths}/data-0", f"{paths}/data-1", *bound):
        real_cluster.request(
            "PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json"
        )
        real_cluster.request("DELETE", path)
    assert result.pop("sent per claim writes") == 4
    assert len(result) == 6
    assert all(value > 0 for value in result.values())
