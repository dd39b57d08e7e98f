"""Explanations of HorizontalPodAutoscalers."""

import asyncio
import re
from typing import Any

from tests.why.cluster import Cluster, roots, text, texts

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from pilothouse.why import Step


def _autoscaler(**spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    utilization = {"type": "Utilization", "averageUtilization": 50}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics, **spec},
    }


async def test_before_the_first_sync(cluster: Cluster) -> None:
    await cluster.deployment()
    await cluster.create(_autoscaler())
    await asyncio.sleep(1)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert explanation.state == "not synced yet"
    assert [step.text for step in explanation.steps] == [
        "horizontalpodautoscaler/web waits for its first sync: horizontal-pod-autoscaler-controller syncs all of them "
        "every 15 s, or --horizontal-pod-autoscaler-sync-period"
    ]


async def test_deleted_scale_target(cluster: Cluster) -> None:
    await cluster.deployment()
    await cluster.create(_autoscaler())
    await cluster.plane.delete("apps/v1", "Deployment", "web")
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert explanation.state == "not scaling"
    assert explanation.steps[0].text.startswith("horizontalpodautoscaler/web can't scale: FailedGetScale: ")
    assert roots(explanation)[0] == "deployment/web was deleted, by kubernetes-admin with pilothouse-testing"


async def test_scale_target_with_zero_replicas(cluster: Cluster) -> None:
    await cluster.deployment()
    await cluster.create(_autoscaler())
    await cluster.scale("web", 0)
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert "can't scale: ScalingDisabled: " in explanation.steps[0].text
    assert (
        roots(explanation)[0]
        == "deployment/web changed: spec.replicas: 2 -> 0, by kubernetes-admin with pilothouse-testing"
    )


async def test_pods_that_do_not_run_yet(cluster: Cluster) -> None:
    await cluster.deployment(containers=[{"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "1000"}}}])
    await cluster.create(_autoscaler())
    await asyncio.sleep(40)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert "can't scale: FailedGetResourceMetric: " in explanation.steps[0].text
    assert any(line.startswith("3 nodes: Insufficient cpu") for line in _lines(explanation.steps)), text(explanation)


async def test_requested_load(cluster: Cluster) -> None:
    await cluster.deployment(containers=[{"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}])
    await cluster.create(_autoscaler())
    await asyncio.sleep(60)
    load = {"metadata": {"annotations": {"simulated.pilothouse.dev/cpu-load": "2"}}}
    await cluster.patch(DEPLOYMENTS, "web", load)
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    text_of_metric = texts(explanation.steps)[0].partition(", by ")[0]
    assert re.search(r": [\d.]+, times 3 replicas makes at most \d+$", text_of_metric), text_of_metric
    first, *_others = roots(explanation)
    assert first.startswith(
        'deployment/web changed: metadata.annotations["simulated.pilothouse.dev/cpu-load"] added'
    ), first


def _lines(steps: list[Step]) -> list[str]:
    return [line for step in steps for line in [*step.table, *_lines(step.because)]]


async def test_pods_without_requests(cluster: Cluster) -> None:
    await cluster.deployment()
    await cluster.create(_autoscaler())
    await asyncio.sleep(60)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert explanation.state == "not scaling"
    assert "FailedGetResourceMetric: the HPA was unable to compute the replica count" in texts(explanation.steps)[0]


async def test_metrics_and_limit(cluster: Cluster) -> None:
    manifest_requests = {"requests": {"cpu": "100m"}}
    await cluster.deployment(replicas=2, containers=[{"name": "app", "image": "nginx", "resources": manifest_requests}])
    await cluster.create(_autoscaler())
    for name in await cluster.pods():
        await cluster.plane.patch(
            "v1", "Pod", name, {"metadata": {"annotations": {"simulated.pilothouse.dev/cpu-usage": "200m"}}}
        )
    await asyncio.sleep(300)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    lines = texts(explanation.steps)
    assert any("compares cpu: " in item for item in lines), lines
    assert any("is limited: TooManyReplicas: " in item for item in lines), lines


async def test_load_that_was_requested_of_the_workload(cluster: Cluster) -> None:
    """The autoscaler measures the load, which is the cause unless the autoscaler was changed since."""
    resources = {"requests": {"cpu": "100m"}}
    await cluster.deployment(replicas=1, containers=[{"name": "app", "image": "nginx", "resources": resources}])
    await cluster.create(_autoscaler(maxReplicas=4))
    await asyncio.sleep(400)
    load = {"metadata": {"annotations": {"simulated.pilothouse.dev/cpu-load": "1"}}}
    await cluster.patch(DEPLOYMENTS, "web", load)
    await asyncio.sleep(60)
    (root,) = roots(await cluster.why("deployments.apps", "web"))
    assert root == (
        'deployment/web changed: metadata.annotations["simulated.pilothouse.dev/cpu-load"] added ("1"), '
        "by kubernetes-admin with pilothouse-testing"
    )
    await cluster.patch(HORIZONTAL_POD_AUTOSCALERS, "web", {"spec": {"maxReplicas": 6}})
    await asyncio.sleep(60)
    (root,) = roots(await cluster.why("deployments.apps", "web"))
    assert root.startswith("horizontalpodautoscaler/web changed: spec.maxReplicas: 4 -> 6")
