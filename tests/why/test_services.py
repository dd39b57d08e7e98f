"""Services without endpoints."""

import asyncio

from tests.why.cluster import Cluster, roots, texts


async def test_deployment_scaled_to_zero(cluster: Cluster) -> None:
    await cluster.deployment("web")
    await cluster.deployment("other")
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    await cluster.create({**manifest, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
    await cluster.scale("web", 0)
    explanation = await cluster.why("services", "web")
    assert explanation.state == "no endpoints"
    assert texts(explanation.steps[0].because) == ["deployment/web would have such pods, and spec.replicas is 0"]
    assert roots(explanation) == [
        "deployment/web changed: spec.replicas: 2 -> 0, by kubernetes-admin with pilothouse-testing"
    ]
    assert explanation.steps[0].table == []


async def test_target_port_missing_in_all_pods(cluster: Cluster) -> None:
    await cluster.deployment("web")
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    ports = [{"port": 80, "targetPort": "http"}]
    await cluster.create({**manifest, "spec": {"selector": {"app": "web"}, "ports": ports}})
    await asyncio.sleep(10)
    explanation = await cluster.why("services", "web")
    assert explanation.state == "no endpoints"
    assert texts(explanation.steps) == [
        "service/web selects ready pods, and none of them has a container port named http"
    ]
    assert roots(explanation) == ["service/web was created, by kubernetes-admin with pilothouse-testing"]
