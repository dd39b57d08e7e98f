"""Writes with concurrent writers and lost responses, omitted writes, and metrics.

The controller against the embedded API server in virtual time. Many scenarios mirror v1.36
``pkg/controller/podautoscaler/horizontal_test.go``; docstrings have its names.
"""

import asyncio

from tests.controllers.horizontal_pod_autoscaler.world import CPU_50, HPA, PERCENT, PERIOD, AutoscalerWorld, external

from pilothouse.client.interceptor import Rule, conflict, fail, lose_answer


async def test_concurrent_scale_update_is_retried(hpa: AutoscalerWorld) -> None:
    await hpa.deploy(1)
    hpa.world.faults.add(Rule(conflict(), verb="update", subresource="scale", times=4))
    await hpa.autoscale(2, 5)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 2
    assert [request for request in hpa.world.requests() if "/scale" in request] == [
        "get deployments/scale web",
        *["update deployments/scale web", "get deployments/scale web"] * 4,
        "update deployments/scale web",
    ]


async def test_scale_is_updated_from_the_first_read_if_the_second_fails(hpa: AutoscalerWorld) -> None:
    """Upstream logs the error and continues with what it has."""
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 100
    hpa.world.faults.add(Rule(conflict(), verb="update", subresource="scale", times=1))
    hpa.world.faults.add(Rule(fail(500), verb="get", subresource="scale", nth=2))
    await hpa.autoscale(1, 9)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 4
    assert await hpa.world.events("FailedRescale") == []


async def test_failed_scale_update(hpa: AutoscalerWorld) -> None:
    """TestConditionFailedUpdateScale."""
    await hpa.deploy(3)
    await hpa.pods(3)
    hpa.meter.cpu = 75
    hpa.world.faults.add(Rule(fail(500, "InternalError", "something went wrong"), verb="update", subresource="scale"))
    await hpa.autoscale(1, 5)
    await asyncio.sleep(PERIOD + 1)
    assert (await hpa.reasons())["AbleToScale"] == "False FailedUpdateScale"
    assert await hpa.world.events("FailedRescale") == [
        f"HorizontalPodAutoscaler/web New size: 5; reason: {PERCENT} above target; error: something went wrong"
    ]
    status = await hpa.status()
    assert (status["currentReplicas"], status["desiredReplicas"], status.get("lastScaleTime")) == (3, 0, None)


async def test_lost_scale_response_does_not_scale_twice(hpa: AutoscalerWorld) -> None:
    """The next sync reads the new replicas and continues from there."""
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 100
    hpa.world.faults.add(Rule(lose_answer(), verb="update", subresource="scale", times=1))
    await hpa.autoscale(1, 100)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 4
    await hpa.pods(2, first=2)
    hpa.meter.cpu = 50
    await asyncio.sleep(PERIOD)
    assert await hpa.size() == 4
    assert (await hpa.reasons())["AbleToScale"] == "True ReadyForNewScale"


async def test_unchanged_status_is_not_written(hpa: AutoscalerWorld) -> None:
    """TestAvoidUnnecessaryUpdates."""
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 50
    await hpa.autoscale(1, 5)
    await asyncio.sleep(2 * PERIOD + 1)
    hpa.world.seen.clear()
    await asyncio.sleep(10 * PERIOD)
    assert hpa.world.requests(reads=False) == []
    assert hpa.world.requests() == ["get deployments/scale web"] * 10


async def test_failed_status_update_emits_an_event_and_is_retried(hpa: AutoscalerWorld) -> None:
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 50
    await hpa.autoscale(1, 5)
    rule = Rule(conflict(), verb="update", resource="horizontalpodautoscalers", times=1)
    hpa.world.faults.add(rule)
    await asyncio.sleep(PERIOD + 1)
    assert len(await hpa.world.events("FailedUpdateStatus")) == 1
    await asyncio.sleep(PERIOD)
    assert (await hpa.reasons())["AbleToScale"] == "True ReadyForNewScale"


async def test_status_update_keeps_the_spec_unchanged(hpa: AutoscalerWorld) -> None:
    """The whole object is written, so its spec must be unchanged."""
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 100
    rules = {"tolerance": "50m", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    await hpa.autoscale(1, 9, behavior={"scaleUp": rules})
    await asyncio.sleep(PERIOD + 1)
    sent = hpa.world.bodies("update", "horizontalpodautoscalers/status")[-1]
    result = await hpa.world.must_get(HPA)
    assert sent["spec"] == result["spec"]
    assert await hpa.size() == 3
    await asyncio.sleep(2 * PERIOD)
    assert await hpa.size() == 3
    assert (await hpa.reasons())["ScalingLimited"] == "True ScaleUpLimit"
    await asyncio.sleep(2 * PERIOD)
    assert await hpa.size() == 4


async def test_last_scale_time_is_kept_without_a_scale(hpa: AutoscalerWorld) -> None:
    """kubernetes#16275."""
    await hpa.deploy(1)
    await hpa.autoscale(2, 5)
    await asyncio.sleep(PERIOD + 1)
    at = (await hpa.status())["lastScaleTime"]
    await hpa.pods(2)
    hpa.meter.cpu = 50
    await asyncio.sleep(2 * PERIOD)
    status = await hpa.status()
    assert status["lastScaleTime"] == at
    assert status["currentMetrics"] is not None


async def test_metrics_are_upstreams(hpa: AutoscalerWorld) -> None:
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 100
    await hpa.autoscale(1, 9, CPU_50, external(type="Value", value="1"))
    await asyncio.sleep(PERIOD + 1)
    prefix, exposition_ = "horizontal_pod_autoscaler_controller", hpa.world.metrics.exposition()
    for line in (
        f'{prefix}_reconciliations_total{{action="scale_up",error="internal"}} 1',
        f'{prefix}_metric_computation_total{{action="scale_up",error="none",metric_type="Resource"}} 1',
        f'{prefix}_metric_computation_total{{action="none",error="internal",metric_type="External"}} 1',
        f"{prefix}_num_horizontal_pod_autoscalers 1",
        f'{prefix}_desired_replicas{{namespace="default",hpa_name="web"}} 4',
    ):
        assert line in exposition_, line
    await hpa.world.delete(HPA)
    await asyncio.sleep(PERIOD + 1)
    exposition_ = hpa.world.metrics.exposition()
    assert f"{prefix}_num_horizontal_pod_autoscalers 0" in exposition_
    assert f"{prefix}_desired_replicas{{" not in exposition_
