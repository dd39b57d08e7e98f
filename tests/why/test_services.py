"""Services that lead nowhere."""

from tests.why.cluster import Cluster, roots, texts


async def test_the_deployment_of_the_pods_was_scaled_to_zero(cluster: Cluster) -> None:
    await cluster.deployment("web")
    await cluster.deployment("other")
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    await cluster.create({**manifest, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
    await cluster.scale("web", 0)
    found = await cluster.why("services", "web")
    assert found.state == "no endpoints"
    assert texts(found.steps[0].because) == ["deployment/web would have such pods, and spec.replicas is 0"]
    assert roots(found) == [
        "deployment/web changed: spec.replicas: 2 -> 0, by kubernetes-admin with pilothouse-testing"
    ]
    assert found.steps[0].table == []
