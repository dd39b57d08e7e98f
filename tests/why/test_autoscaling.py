"""Explanations of HorizontalPodAutoscalers."""

import asyncio
import re
from typing import Any

from tests.why.cluster import NAMESPACE, Cluster, roots, text, texts

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.api.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from pilothouse.api.core import NODES, PODS
from pilothouse.why import Step
from pilothouse.why.states.autoscaling import metric_lines

SILENT = {"metadata": {"annotations": {"simulated.pilothouse.dev/fault": "silent"}}}


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
    assert re.search(r": [\d.]+, times 3 replicas makes \d+$", text_of_metric), text_of_metric
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


async def test_pods_of_a_silent_node_have_no_metrics(cluster: Cluster) -> None:
    """They count as idle when scaling up: the ratio of the measured pods alone would make more replicas."""
    container = {"name": "app", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}
    await cluster.deployment(replicas=6, containers=[container])
    pods = (await cluster.user.list(PODS, NAMESPACE)).items
    node = pods[0].spec.node_name
    assert sum(pod.spec.node_name == node for pod in pods) == 2
    await cluster.create(_autoscaler(minReplicas=6, maxReplicas=30))
    await asyncio.sleep(400)  # until the pods are no longer starting
    await cluster.patch(NODES, node, SILENT, "")
    await asyncio.sleep(100)
    await cluster.patch(DEPLOYMENTS, "web", {"metadata": {"annotations": {"simulated.pilothouse.dev/cpu-load": "0.6"}}})
    await asyncio.sleep(15)
    explanation = await cluster.why("horizontalpodautoscalers.autoscaling", "web")
    assert explanation.state == "scaling from 6 to 12"
    assert texts(explanation.steps)[0] == (
        "horizontalpodautoscaler/web compares cpu: 150 % with the target 50 %: 3.00; metrics of 4 of 6 pods count, 2 "
        f"have none (on {node}) and count as 0: ratio 2.00, times 6 pods makes 12"
    )
    load, fault = roots(explanation)
    assert load.startswith('deployment/web changed: metadata.annotations["simulated.pilothouse.dev/cpu-load"] added')
    assert fault.startswith(f'node/{node} changed: metadata.annotations["simulated.pilothouse.dev/fault"] added')


def test_a_metric_that_is_not_the_decisive_one() -> None:
    """How its pods counted is not recorded."""
    decision = (
        "status: 6 replicas, 12 desired; cpu resource utilization (percentage of request): 150%, target 50%, ratio "
        "3.00; metrics of 4 of 6 pods count, 2 have none (on node-2) and count as 0: ratio 2.00, times 6 pods makes "
        "12, tolerance 0.1 down and 0.1 up: 6 replicas become 12; minReplicas 6, maxReplicas 30"
    )
    metrics: list[dict[str, Any]] = [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}},
        {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": {"averageValue": "10"}}},
        {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"value": "10"}}},
    ]
    current: list[dict[str, Any]] = [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 150}}},
        {"type": "Pods", "pods": {"metric": {"name": "requests"}, "current": {"averageValue": "20"}}},
        {"type": "External", "external": {"metric": {"name": "queue"}, "current": {"value": "12"}}},
    ]
    assert metric_lines({"metrics": metrics}, {"currentMetrics": current}, 6, decision) == [
        "cpu: 150 % with the target 50 %: 3.00; metrics of 4 of 6 pods count, 2 have none (on node-2) and count as 0: "
        "ratio 2.00, times 6 pods makes 12",
        "requests: 20 with the target 10: 2.00, times 6 replicas makes at most 12: pods without metrics or not ready "
        "count as 0",
        "queue: 12 with the target 10: 1.20, times 6 replicas makes at most 8",
    ]
    for entry in (metrics[0], current[0]):
        entry["resource"]["name"] = "memory"
    (line, *_others) = metric_lines({"metrics": metrics}, {"currentMetrics": current}, 6, decision)
    assert "have none" not in line, "the decision is about another metric with the same value"
