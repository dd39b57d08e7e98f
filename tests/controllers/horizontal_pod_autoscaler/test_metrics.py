"""Metrics that are requested, and failures: the controller on the embedded API server in virtual time.

Many scenarios mirror v1.36 ``pkg/controller/podautoscaler/horizontal_test.go``; docstrings have its names.
"""

import asyncio

from tests.controllers.horizontal_pod_autoscaler.world import (
    CPU_50,
    CUSTOM,
    EXTERNAL,
    PERIOD,
    AutoscalerWorld,
    Doc,
    external,
    measured,
    of_object,
    per_pod,
    resource,
    scaling,
)
from tests.controllers.node_world import PODS
from tests.tables import cases

from pilothouse.controllers.workloads.horizontal_pod_autoscaler import HorizontalPodAutoscalerOptions
from pilothouse.env import Env
from pilothouse.machinery.times import format_time


async def test_missing_metrics_api_sets_scaling_active_false(env: Env) -> None:
    async with scaling(env, metered=False) as hpa:
        await hpa.deploy(3)
        await hpa.pods(3)
        await hpa.autoscale(1, 5)
        await asyncio.sleep(PERIOD + 1)
        api = "the server could not find the requested resource (get pods.metrics.k8s.io)"
        message = f"unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: {api}"
        assert await hpa.message("ScalingActive") == (
            f"the HPA was unable to compute the replica count: failed to get cpu utilization: {message}"
        )
        assert await hpa.world.events("FailedGetResourceMetric") == [
            f"HorizontalPodAutoscaler/web failed to get cpu utilization: {message}"
        ]
        assert await hpa.world.events("FailedComputeMetricsReplicas") == [
            "HorizontalPodAutoscaler/web invalid metrics (1 invalid out of 1), first error is: "
            f"failed to get cpu resource metric value: failed to get cpu utilization: {message}"
        ]
        status = await hpa.status()
        assert (status["currentReplicas"], status["desiredReplicas"]) == (3, 0)
        assert status["currentMetrics"] == [{"type": ""}]
        assert await hpa.size() == 3


@cases(
    "metric, path, values, size, metric_name, name, current",
    {
        "TestScaleUpCM": (
            per_pod("15"),
            f"{CUSTOM}/pods/*/qps",
            measured("20", "10", "30"),
            4,
            f"v1beta2 {CUSTOM}/pods/*/qps?labelSelector=app=web",
            "pods metric qps",
            {"averageValue": "20"},
        ),
        "TestScaleUpCMObject": (
            of_object(type="Value", value="15"),
            f"{CUSTOM}/deployments.apps/other/qps",
            measured("20"),
            4,
            f"v1beta2 {CUSTOM}/deployments.apps/other/qps",
            "Deployment metric qps",
            {"value": "20"},
        ),
        "an object metric of the namespace": (
            of_object("Namespace", "v1", type="Value", value="15"),
            f"{CUSTOM}/metrics/qps",
            measured("20"),
            4,
            f"v1beta2 {CUSTOM}/metrics/qps",
            "Namespace metric qps",
            {"value": "20"},
        ),
        "TestScaleUpPerPodCMObject": (
            of_object(type="AverageValue", averageValue="10"),
            f"{CUSTOM}/deployments.apps/other/qps",
            measured("40"),
            4,
            f"v1beta2 {CUSTOM}/deployments.apps/other/qps",
            "external metric qps(nil)",
            {"averageValue": "13334m"},
        ),
        "TestScaleUpCMExternal": (
            external(type="Value", value="6666m"),
            EXTERNAL,
            measured("8600m"),
            4,
            f"v1beta1 {EXTERNAL}",
            "external metric qps(nil)",
            {"value": "8600m"},
        ),
        "TestScaleUpPerPodCMExternal": (
            external(type="AverageValue", averageValue="2222m"),
            EXTERNAL,
            measured("4000m", "4600m"),
            4,
            f"v1beta1 {EXTERNAL}",
            "external metric qps(nil)",
            {"averageValue": "2867m"},
        ),
    },
)
async def test_custom_and_external_metrics(
    hpa: AutoscalerWorld,
    metric: Doc,
    path: str,
    values: list[Doc],
    size: int,
    metric_name: str,
    name: str,
    current: Doc,
) -> None:
    hpa.apis.values[path] = values
    await hpa.deploy(3)
    await hpa.pods(3)
    await hpa.autoscale(2, 6, metric)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == size
    assert hpa.apis.requests == [metric_name]
    assert await hpa.message("ScalingActive") == (
        f"the HPA was able to successfully calculate a replica count from {name}"
    )
    status = (await hpa.status())["currentMetrics"][0]
    inner = status[status["type"][0].lower() + status["type"][1:]]
    assert inner["current"] == current
    assert inner["metric"] == {"name": "qps"}


async def test_custom_metrics_api_version_is_discovered_once_per_period(hpa: AutoscalerWorld) -> None:
    hpa.apis.versions = ("v1beta1",)
    hpa.apis.values[f"{CUSTOM}/pods/*/qps"] = measured("15", "15")
    await hpa.deploy(2)
    await hpa.pods(2)
    await hpa.autoscale(1, 5, per_pod("15"))
    await asyncio.sleep(PERIOD + 1)
    assert hpa.apis.requests[-1].startswith("v1beta1 ")
    hpa.apis.versions = ("v1beta2", "v1beta1")
    await asyncio.sleep(PERIOD)
    assert hpa.apis.requests[-1].startswith("v1beta2 ")
    hpa.apis.preferred = "v1beta1"
    await asyncio.sleep(PERIOD)
    assert hpa.apis.requests[-1].startswith("v1beta1 ")
    hpa.apis.preferred, hpa.apis.versions = "v9", ("v9", "v1beta1", "v1beta2")
    await asyncio.sleep(PERIOD)
    assert hpa.apis.requests[-1].startswith("v1beta1 ")


@cases(
    "versions, reason",
    {
        "no such group": ((), "no custom metrics API (custom.metrics.k8s.io) registered"),
        "only unknown versions": (("v9",), "no known available metric versions found"),
    },
)
async def test_custom_metrics_api_that_is_not_there(
    hpa: AutoscalerWorld, versions: tuple[str, ...], reason: str
) -> None:
    """Recorded from v1.36.2, with the order in which its text has the object and the error."""
    hpa.apis.versions = versions
    await hpa.deploy(2)
    await hpa.pods(2)
    await hpa.autoscale(1, 9, per_pod("15"), of_object(type="Value", value="1"))
    await asyncio.sleep(PERIOD + 1)
    unavailable = f"unable to fetch metrics from custom metrics API: {reason}"
    assert await hpa.world.events("FailedGetPodsMetric") == [
        f"HorizontalPodAutoscaler/web unable to get metric qps: {unavailable}"
    ]
    assert await hpa.world.events("FailedGetObjectMetric") == [
        f"HorizontalPodAutoscaler/web unable to get metric qps: Deployment on default other/{unavailable}"
    ]


async def test_one_failing_metric_prevents_scale_down_but_not_scale_up(hpa: AutoscalerWorld) -> None:
    """TestScaleUpOneMetricEmpty, TestNoScaleDownOneMetricEmpty."""
    await hpa.deploy(3)
    await hpa.pods(3)
    hpa.meter.cpu = 10
    await hpa.autoscale(1, 6, external(type="Value", value="1"), CPU_50)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 3
    assert (await hpa.reasons())["ScalingActive"] == "False FailedGetExternalMetric"
    assert [metric["type"] for metric in (await hpa.status())["currentMetrics"]] == ["", "Resource"]
    assert len(await hpa.world.events("FailedComputeMetricsReplicas")) == 1
    hpa.meter.cpu = 90
    await asyncio.sleep(PERIOD)
    assert await hpa.size() == 6
    assert (await hpa.reasons())["ScalingActive"] == "True ValidMetricFound"


async def test_largest_recommendation_wins(hpa: AutoscalerWorld) -> None:
    hpa.apis.values[EXTERNAL] = measured("7")
    await hpa.deploy(3)
    await hpa.pods(3)
    hpa.meter.cpu = 60
    await hpa.autoscale(1, 20, CPU_50, external(type="AverageValue", averageValue="1"))
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 6  # seven are recommended, twice as many are allowed
    assert (await hpa.world.events("SuccessfulRescale"))[0].endswith("external metric qps(nil) above target")
    assert await hpa.reasons() == {
        "AbleToScale": "True SucceededRescale",
        "ScalingActive": "True ValidMetricFound",
        "ScalingLimited": "True ScaleUpLimit",
    }


@cases(
    "metric, size, current, name",
    {
        "an average of cpu": (
            resource(type="AverageValue", averageValue="25m"),
            4,
            {"averageValue": "50m"},
            "cpu resource",
        ),
        "an average of memory, in its own notation (TestBuildQuantity)": (
            resource("memory", type="AverageValue", averageValue="512Ki"),
            4,
            {"averageValue": "1Mi"},
            "memory resource",
        ),
        "TestScaleUpContainer": (
            resource(container="main", type="Utilization", averageUtilization=25),
            4,
            {"averageUtilization": 50, "averageValue": "50m"},
            "cpu container resource utilization (percentage of request)",
        ),
        "TestScaleDownContainerResource, within the tolerance": (
            resource(container="main", type="AverageValue", averageValue="100m"),
            2,
            {"averageValue": "50m"},
            "cpu resource",
        ),
    },
)
async def test_resource_and_container_resource_metrics(
    hpa: AutoscalerWorld, metric: Doc, size: int, current: Doc, name: str
) -> None:
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.cpu = 50
    await hpa.autoscale(1, 9, metric)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == size
    (status,) = (await hpa.status())["currentMetrics"]
    inner = status["containerResource" if status["type"] == "ContainerResource" else "resource"]
    assert inner["current"] == current
    assert (await hpa.message("ScalingActive")).endswith(f"calculate a replica count from {name}")


@cases(
    "metric, reason, message",
    {
        "TestEmptyMetrics": (
            CPU_50,
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource "
            "metrics API",
        ),
        "missing container": (
            resource(container="none", type="Utilization", averageUtilization=25),
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource "
            "metrics API",
        ),
        "failed get pods metric": (
            per_pod("15"),
            "FailedGetPodsMetric",
            "unable to get metric qps: unable to fetch metrics from custom metrics API: the server could not find the "
            "requested resource (get pods.custom.metrics.k8s.io *)",
        ),
        "failed get object metric": (
            of_object(type="Value", value="1"),
            "FailedGetObjectMetric",
            "unable to get metric qps: Deployment on default other/unable to fetch metrics from custom metrics API: "
            "the server could not find the requested resource (get deployments.apps.custom.metrics.k8s.io other)",
        ),
        "failed get external metric": (
            external(type="Value", value="1"),
            "FailedGetExternalMetric",
            "unable to get external metric default/qps/nil: unable to fetch metrics from external metrics API: the "
            "server could not find the requested resource (get qps.external.metrics.k8s.io)",
        ),
    },
)
async def test_failed_metrics_have_a_reason_by_source_type(
    hpa: AutoscalerWorld, metric: Doc, reason: str, message: str
) -> None:
    """TestConditionFailedGetMetrics."""
    await hpa.deploy(2)
    await hpa.pods(2)
    hpa.meter.unmeasured = {"web-0", "web-1"}
    await hpa.autoscale(1, 9, metric)
    await asyncio.sleep(PERIOD + 1)
    assert (await hpa.reasons())["ScalingActive"] == f"False {reason}"
    assert await hpa.message("ScalingActive") == f"the HPA was unable to compute the replica count: {message}"
    assert await hpa.world.events(reason) == [f"HorizontalPodAutoscaler/web {message}"]


async def test_pods_without_requests_fail_utilization(env: Env) -> None:
    """TestEmptyCPURequest."""
    async with scaling(
        env, options=HorizontalPodAutoscalerOptions(cpu_initialization_period=0.0, initial_readiness_delay=0.0)
    ) as hpa:
        await hpa.deploy(1)
        await hpa.world.pod("bare", labels={"app": "web"}, ready=True)
        started = format_time(hpa.world.env.now())
        await hpa.world.merge(f"{PODS}/bare/status", {"status": {"startTime": started}})
        await hpa.autoscale(1, 9)
        await asyncio.sleep(PERIOD + 1)
        message = "failed to get cpu utilization: missing request for cpu in container main of Pod bare"
        assert (await hpa.message("ScalingActive")).endswith(message)


async def test_missing_metrics_are_assumed_conservatively(hpa: AutoscalerWorld) -> None:
    """TestMissingMetrics, TestMissingReports."""
    await hpa.deploy(3)
    await hpa.pods(3)
    hpa.meter.unmeasured = {"web-2"}
    hpa.meter.cpu = 100
    await hpa.autoscale(1, 9)
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.size() == 4  # 200 of 300 are used, twice of 50 %, less for the one that is not known
