"""The gate HPAScaleToZero: the controller against the embedded API server in virtual time. Scenarios mirror v1.36
``pkg/controller/podautoscaler/horizontal_test.go``; docstrings have its names."""

import asyncio

from tests.controllers.horizontal_pod_autoscaler.world import (
    EXTERNAL,
    HPA,
    PERIOD,
    WEB,
    AutoscalerWorld,
    external,
    measured,
    scaling,
)
from tests.tables import cases

from pilothouse.apiserver.objects import with_revision
from pilothouse.controllers.workloads.horizontal_pod_autoscaler import HorizontalPodAutoscalerOptions
from pilothouse.env import Env

ZERO = HorizontalPodAutoscalerOptions(scale_to_zero=True, cpu_initialization_period=0.0)


async def allow_zero(hpa: AutoscalerWorld) -> None:
    """Store a minimum of 0, which this API server rejects; upstream's accepts it with a feature gate."""
    store, key = hpa.world.store, "autoscaling/horizontalpodautoscalers/default/web"
    record = store.get(key)
    assert record is not None, "it was made"
    value = record.value.replace(b'"minReplicas":1', b'"minReplicas":0')
    assert value != record.value
    staged = store.stage(
        key, lambda revision: with_revision(value, record.revision, revision), expected=record.revision
    )
    await store.commit(staged)


async def test_scale_to_zero_and_back_with_the_gate(env: Env) -> None:
    """The gate HPAScaleToZero (alpha): replicas that it set to 0 are scaled up again, a manual 0 is kept."""
    async with scaling(env, options=ZERO) as hpa:
        values = hpa.apis.values
        values[EXTERNAL] = measured("0")
        await hpa.deploy(2)
        await hpa.pods(2)
        down = {"stabilizationWindowSeconds": 0}
        await hpa.autoscale(1, 9, external(type="Value", value="100"), behavior={"scaleDown": down})
        await asyncio.sleep(PERIOD + 1)
        assert await hpa.size() == 1
        assert (await hpa.reasons())["ScaledToZero"] == "False NotScaledToZero"
        await allow_zero(hpa)
        await asyncio.sleep(PERIOD)
        assert await hpa.size() == 0
        assert (await hpa.reasons())["ScaledToZero"] == "True ScaledToZero"
        await asyncio.sleep(3 * PERIOD)
        assert await hpa.size() == 0
        values[EXTERNAL] = measured("350")
        await asyncio.sleep(PERIOD)
        assert await hpa.size() == 4
        assert (await hpa.reasons())["ScaledToZero"] == "False NotScaledToZero"
        await hpa.world.merge(WEB, {"spec": {"replicas": 0}})
        await asyncio.sleep(2 * PERIOD)
        assert await hpa.size() == 0
        assert (await hpa.reasons())["ScalingActive"] == "False ScalingDisabled"


async def test_raised_min_replicas_at_zero_scales_up(env: Env) -> None:
    async with scaling(env, options=ZERO) as hpa:
        hpa.apis.values[EXTERNAL] = measured("0")
        await hpa.deploy(1)
        await hpa.pods(1)
        down = {"stabilizationWindowSeconds": 0}
        await hpa.autoscale(1, 9, external(type="Value", value="100"), behavior={"scaleDown": down})
        await allow_zero(hpa)
        await asyncio.sleep(PERIOD + 1)
        assert await hpa.size() == 0
        await hpa.world.merge(HPA, {"spec": {"minReplicas": 3}})
        await asyncio.sleep(PERIOD)
        assert await hpa.size() == 3
        assert (await hpa.world.events("SuccessfulRescale"))[-1].endswith("below Spec.MinReplicas")


async def test_zero_replicas_set_manually_are_kept(env: Env) -> None:
    """TestScaleUpFromZeroWithoutCondition."""
    async with scaling(env, options=ZERO) as hpa:
        hpa.apis.values[EXTERNAL] = measured("500")
        await hpa.deploy(0)
        await hpa.autoscale(1, 9, external(type="Value", value="100"))
        await allow_zero(hpa)
        await asyncio.sleep(2 * PERIOD + 1)
        assert await hpa.size() == 0
        assert (await hpa.reasons())["ScalingActive"] == "False ScalingDisabled"


@cases(
    "replicas, cpu, stays",
    {
        "same size": (2, 50, True),
        "scaled": (2, 100, False),
        "zero replicas": (0, 50, False),
    },
)
async def test_scaled_to_zero_condition_is_removed_without_the_gate(
    hpa: AutoscalerWorld, replicas: int, cpu: int, stays: bool
) -> None:
    await hpa.deploy(replicas)
    await hpa.pods(replicas)
    hpa.meter.cpu = cpu
    await hpa.autoscale(1, 9)
    condition = {
        "type": "ScaledToZero",
        "status": "True",
        "reason": "ScaledToZero",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"currentReplicas": 0, "desiredReplicas": 0, "conditions": [condition]}
    await hpa.world.merge(f"{HPA}/status", {"status": status})
    await asyncio.sleep(PERIOD + 1)
    assert ("ScaledToZero" in await hpa.reasons()) is stays
