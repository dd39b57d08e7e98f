"""Replicas follow the load, within bounds and windows: the controller on the embedded API server in virtual time.

Many scenarios mirror v1.36 ``pkg/controller/podautoscaler/horizontal_test.go``; docstrings have its names.
"""

import asyncio

import pytest
from tests.controllers.horizontal_pod_autoscaler.world import HPA, PERCENT, PERIOD, WEB, AutoscalerWorld, scaling

from pilothouse.controllers.workloads.horizontal_pod_autoscaler import HorizontalPodAutoscalerOptions
from pilothouse.env import Env


async def test_first_sync_after_one_period_scales_proportionally(hpa: AutoscalerWorld) -> None:
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 80
    await hpa.autoscale(1, 10)
    await asyncio.sleep(PERIOD - 0.5)
    assert "conditions" not in await hpa.status()
    assert await hpa.size() == 2
    await asyncio.sleep(1)
    assert await hpa.size() == 4  # 80 % of 50 %, of two: 3.2
    status = await hpa.status()
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
    current = {"averageUtilization": 80, "averageValue": "80m"}
    assert status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    assert "observedGeneration" not in status
    assert await hpa.reasons() == {
        "AbleToScale": "True SucceededRescale",
        "ScalingActive": "True ValidMetricFound",
        "ScalingLimited": "False DesiredWithinRange",
    }
    assert await hpa.world.events("SuccessfulRescale") == [
        f"HorizontalPodAutoscaler/web New size: 4; reason: {PERCENT} above target"
    ]


async def test_scale_down_waits_for_the_stabilization_window(hpa: AutoscalerWorld) -> None:
    """TestStabilizeDownscale. The window is five minutes; scaled down when the last high recommendation is older."""
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 50
    await hpa.autoscale(1, 10)
    await asyncio.sleep(PERIOD + 1)
    hpa.meter.cpu = 5
    await asyncio.sleep(PERIOD)
    assert await hpa.size() == 2
    assert await hpa.reasons() == {
        "AbleToScale": "True ScaleDownStabilized",
        "ScalingActive": "True ValidMetricFound",
        "ScalingLimited": "False DesiredWithinRange",
    }
    await asyncio.sleep(300 - PERIOD)
    assert await hpa.size() == 2  # the sync that still found load is exactly as old as the window
    await asyncio.sleep(PERIOD)
    assert await hpa.size() == 1
    assert (await hpa.world.events("SuccessfulRescale"))[-1].endswith("New size: 1; reason: All metrics below target")


async def test_replicas_outside_min_and_max_are_corrected_without_metrics(hpa: AutoscalerWorld) -> None:
    """TestScaleUpRCImmediately, TestScaleDownRCImmediately, TestMinReplicas…"""
    await hpa.deploy(1)
    await hpa.autoscale(2, 5)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 2
    assert await hpa.reasons() == {"AbleToScale": "True SucceededRescale"}
    assert (await hpa.status()).get("currentMetrics") is None
    await hpa.world.merge(WEB, {"spec": {"replicas": 9}})
    await asyncio.sleep(PERIOD)
    assert await hpa.size() == 5
    assert [event.partition("; ")[2] for event in await hpa.world.events("SuccessfulRescale")] == [
        "reason: Current number of replicas below Spec.MinReplicas",
        "reason: Current number of replicas above Spec.MaxReplicas",
    ]


async def test_zero_replicas_disable_scaling(hpa: AutoscalerWorld) -> None:
    """TestZeroReplicas, and 10b-hpa-no-metrics of the traces."""
    await hpa.deploy(0)
    await hpa.autoscale(3, 5)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 0
    assert await hpa.reasons() == {
        "AbleToScale": "True SucceededGetScale",
        "ScalingActive": "False ScalingDisabled",
    }
    assert await hpa.world.events() == []


async def test_hundred_autoscalers_are_synced_within_one_period(hpa: AutoscalerWorld) -> None:
    """TestMultipleHPAs: with five workers, a hundred autoscalers."""
    for number in range(100):
        await hpa.deploy(1, name=f"w{number}")
        await hpa.autoscale(2, 5, name=f"w{number}")
    await asyncio.sleep(PERIOD + 1)
    assert {await hpa.size(f"w{number}") for number in range(100)} == {2}


async def test_configurable_tolerance(hpa: AutoscalerWorld) -> None:
    await hpa.deploy(10)
    await hpa.pods(10)
    hpa.meter.cpu = 53
    await hpa.autoscale(1, 20)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 10
    await hpa.world.merge(HPA, {"spec": {"behavior": {"scaleUp": {"tolerance": "50m"}}}})
    await asyncio.sleep(PERIOD)
    assert await hpa.size() == 11


async def test_restart_keeps_replicas_for_the_stabilization_window(hpa: AutoscalerWorld) -> None:
    """kubernetes#68826: without stored recommendations the first sync after a restart must not use a lower one."""
    await hpa.deploy(5)
    await hpa.pods(5)
    await hpa.autoscale(1, 5)
    # The controller observes it for the first time, without load, as after its start.
    await asyncio.sleep(PERIOD + 300 - 1)
    assert await hpa.size() == 5
    await asyncio.sleep(2 * PERIOD)
    assert await hpa.size() == 1


async def test_unready_pods_of_a_rollout_do_not_cause_a_scale_up(env: Env) -> None:
    """kubernetes#98914: new pods use CPU while they start, in addition to the old ones."""
    async with scaling(env, options=HorizontalPodAutoscalerOptions()) as hpa:
        await hpa.deploy(4)
        await hpa.pods(4)
        hpa.meter.cpu = 50
        await asyncio.sleep(600)  # the old ones are believed
        await hpa.autoscale(1, 20)
        await asyncio.sleep(PERIOD + 1)
        await hpa.pods(1, first=4, ready=False)
        hpa.meter.by_pod["web-4"] = 1000
        await asyncio.sleep(5 * PERIOD)
        assert await hpa.size() == 4
        assert (await hpa.status())["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 50


async def test_recreated_autoscaler_does_not_inherit_recommendations(hpa: AutoscalerWorld) -> None:
    """Upstream stores recommendations by name: an autoscaler recreated within a period inherits them."""
    await hpa.deploy(4)
    await hpa.pods(4)
    hpa.meter.cpu = 100
    await hpa.autoscale(1, 8)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 8
    await hpa.world.delete(HPA)
    await hpa.world.merge(WEB, {"spec": {"replicas": 2}})
    hpa.meter.cpu = 50
    await hpa.autoscale(1, 8)
    await asyncio.sleep(2 * PERIOD)
    assert await hpa.size() <= 4


async def test_configurable_tolerance_gate(env: Env) -> None:
    """TestConfigurableTolerance."""
    async with scaling(
        env, options=HorizontalPodAutoscalerOptions(own_tolerance=False, cpu_initialization_period=0.0)
    ) as hpa:
        await hpa.deploy(10)
        await hpa.pods(10)
        hpa.meter.cpu = 53
        await hpa.autoscale(1, 20, behavior={"scaleUp": {"tolerance": "50m"}})
        await asyncio.sleep(PERIOD + 1)
        assert await hpa.size() == 10


@pytest.mark.parametrize(("enabled", "size"), [(True, 1), (False, 4)])
async def test_pod_level_resources_gate(env: Env, enabled: bool, size: int) -> None:
    """``PodLevelResources``: 100m of 800m, or of the container's 100m."""

    options = HorizontalPodAutoscalerOptions(pod_level_resources=enabled, cpu_initialization_period=0.0)
    async with scaling(env, options=options) as hpa:
        await hpa.deploy(2)
        await hpa.pods(2, request="100m", whole="800m")
        hpa.meter.cpu = 100
        down = {"stabilizationWindowSeconds": 0}
        await hpa.autoscale(1, 9, behavior={"scaleDown": down})
        await asyncio.sleep(PERIOD + 1)
        assert await hpa.size() == size


async def test_default_tolerance_flag(env: Env) -> None:
    async with scaling(
        env, options=HorizontalPodAutoscalerOptions(tolerance=0.05, cpu_initialization_period=0.0)
    ) as hpa:
        await hpa.deploy(10)
        await hpa.pods(10)
        hpa.meter.cpu = 53
        await hpa.autoscale(1, 20)
        await asyncio.sleep(PERIOD + 1)
        assert await hpa.size() == 11
