"""The controller against the embedded API server in virtual time. Many stories mirror v1.36
``pkg/controller/podautoscaler/horizontal_test.go``, whose names stand in their docstrings."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.horizontal_pod_autoscaler.metrics_apis import Meter, MetricsServer
from tests.controllers.node_world import PODS, World, play

from pilothouse.apiserver.objects import with_revision
from pilothouse.client.interceptor import Rule, conflict, fail, lose_answer
from pilothouse.controllers.workloads.horizontal_pod_autoscaler import DESCRIPTOR, HorizontalPodAutoscalerOptions
from pilothouse.machinery.times import format_time

Doc = dict[str, Any]
APPS = "/apis/apps/v1/namespaces/default"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
WEB, HPA = f"{APPS}/deployments/web", f"{HPAS}/web"
PERIOD = 15.0
CPU_50 = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
PERCENT = "cpu resource utilization (percentage of request)"


class Scene:
    """A Deployment that nobody but the autoscaler touches, and its pods, which the test makes."""

    def __init__(self, world: World, meter: Meter) -> None:
        self.world = world
        self.meter = meter
        self.apis = MetricsServer(world.faults)

    async def deploy(self, replicas: int, *, name: str = "web", labels: Doc | None = None) -> None:
        labels = labels or {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.world.request("POST", f"{APPS}/deployments", {"metadata": {"name": name}, "spec": spec})

    async def pods(
        self, count: int, *, app: str = "web", request: str = "100m", first: int = 0, ready: bool = True
    ) -> None:
        """Pods that have just begun to run, each with a request for cpu."""
        world, now = self.world, format_time(self.world.env.now())
        for number in range(first, first + count):
            name = f"{app}-{number}"
            spec = {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": request}}}]}
            await world.request("POST", PODS, {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec})
            condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
            status = {"phase": "Running", "startTime": now, "conditions": [condition]}
            await world.merge(f"{PODS}/{name}/status", {"status": status})
        await world.merge(f"{APPS}/deployments/{app}/status", {"status": {"replicas": first + count}})

    async def autoscale(self, low: int, high: int, *metrics: Doc, name: str = "web", **spec: Any) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": spec.pop("target", name)}
        spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high, **spec}
        spec["metrics"] = list(metrics) or [CPU_50]
        await self.world.request("POST", HPAS, {"metadata": {"name": name}, "spec": spec})

    async def size(self, name: str = "web") -> int:
        return int((await self.world.see(f"{APPS}/deployments/{name}"))["spec"]["replicas"])

    async def status(self, name: str = "web") -> Doc:
        found: Doc = (await self.world.see(f"{HPAS}/{name}"))["status"]
        return found

    async def reasons(self, name: str = "web") -> dict[str, str]:
        """``True ReadyForNewScale`` by condition."""
        found = await self.world.conditions(f"{HPAS}/{name}")
        return {kind: f"{each['status']} {each['reason']}" for kind, each in found.items()}

    async def message(self, condition: str) -> str:
        return str((await self.world.conditions(HPA))[condition]["message"])


def scaling(
    story: Callable[[Scene], Awaitable[None]],
    *,
    options: HorizontalPodAutoscalerOptions | None = None,
    metered: bool = True,
    settle: float = 3600.0,
) -> None:
    """The controller is started first, an hour before the story, so that pods made by then are old."""

    async def main(world: World) -> None:
        meter = Meter()
        if metered:
            world.server.serve_resource_metrics(meter)
        # Old enough that its use of cpu is believed at once.
        options_ = options or HorizontalPodAutoscalerOptions(cpu_initialization_period=0.0)
        await world.start(DESCRIPTOR, options_)
        await asyncio.sleep(settle)
        await story(Scene(world, meter))

    play(main)


def test_the_first_look_comes_after_one_period_and_scales_in_proportion() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 80
        await scene.autoscale(1, 10)
        await asyncio.sleep(PERIOD - 0.5)
        assert "conditions" not in await scene.status()
        assert await scene.size() == 2
        await asyncio.sleep(1)
        assert await scene.size() == 4  # 80 % of 50 %, of two: 3.2
        status = await scene.status()
        assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
        current = {"averageUtilization": 80, "averageValue": "80m"}
        assert status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
        assert "observedGeneration" not in status
        assert await scene.reasons() == {
            "AbleToScale": "True SucceededRescale",
            "ScalingActive": "True ValidMetricFound",
            "ScalingLimited": "False DesiredWithinRange",
        }
        assert await scene.world.events("SuccessfulRescale") == [
            f"HorizontalPodAutoscaler/web New size: 4; reason: {PERCENT} above target"
        ]

    scaling(story)


def test_load_comes_and_goes_and_the_size_follows_after_the_window() -> None:
    """TestStabilizeDownscale. The window is five minutes; the size goes down when the last look at a high load is
    older."""

    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 50
        await scene.autoscale(1, 10)
        await asyncio.sleep(PERIOD + 1)
        scene.meter.cpu = 5
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 2
        assert await scene.reasons() == {
            "AbleToScale": "True ScaleDownStabilized",
            "ScalingActive": "True ValidMetricFound",
            "ScalingLimited": "False DesiredWithinRange",
        }
        await asyncio.sleep(300 - PERIOD)
        assert await scene.size() == 2  # the look that still found load is exactly as old as the window
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 1
        assert (await scene.world.events("SuccessfulRescale"))[-1].endswith(
            "New size: 1; reason: All metrics below target"
        )

    scaling(story)


def test_a_size_outside_the_bounds_is_put_right_without_a_look_at_metrics() -> None:
    """TestScaleUpRCImmediately, TestScaleDownRCImmediately, TestMinReplicas…"""

    async def story(scene: Scene) -> None:
        await scene.deploy(1)
        await scene.autoscale(2, 5)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 2
        assert await scene.reasons() == {"AbleToScale": "True SucceededRescale"}
        assert (await scene.status()).get("currentMetrics") is None
        await scene.world.merge(WEB, {"spec": {"replicas": 9}})
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 5
        assert [each.partition("; ")[2] for each in await scene.world.events("SuccessfulRescale")] == [
            "reason: Current number of replicas below Spec.MinReplicas",
            "reason: Current number of replicas above Spec.MaxReplicas",
        ]

    scaling(story)


def test_zero_by_hand_switches_it_off() -> None:
    """TestZeroReplicas, and 10b-hpa-no-metrics of the traces."""

    async def story(scene: Scene) -> None:
        await scene.deploy(0)
        await scene.autoscale(3, 5)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 0
        assert await scene.reasons() == {
            "AbleToScale": "True SucceededGetScale",
            "ScalingActive": "False ScalingDisabled",
        }
        assert await scene.world.events() == []

    scaling(story)


def test_without_a_metrics_server_nothing_moves_and_it_is_said() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(3)
        await scene.pods(3)
        await scene.autoscale(1, 5)
        await asyncio.sleep(PERIOD + 1)
        api = "the server could not find the requested resource (get pods.metrics.k8s.io)"
        why = f"unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: {api}"
        assert await scene.message("ScalingActive") == (
            f"the HPA was unable to compute the replica count: failed to get cpu utilization: {why}"
        )
        assert await scene.world.events("FailedGetResourceMetric") == [
            f"HorizontalPodAutoscaler/web failed to get cpu utilization: {why}"
        ]
        assert await scene.world.events("FailedComputeMetricsReplicas") == [
            "HorizontalPodAutoscaler/web invalid metrics (1 invalid out of 1), first error is: "
            f"failed to get cpu resource metric value: failed to get cpu utilization: {why}"
        ]
        status = await scene.status()
        assert (status["currentReplicas"], status["desiredReplicas"]) == (3, 0)
        assert status["currentMetrics"] == [{"type": ""}]
        assert await scene.size() == 3

    scaling(story, metered=False)


def external(name: str = "qps", **target: Any) -> Doc:
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


def per_pod(value: str) -> Doc:
    return {
        "type": "Pods",
        "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": value}},
    }


def of_object(kind: str = "Deployment", api_version: str = "apps/v1", **target: Any) -> Doc:
    about = {"apiVersion": api_version, "kind": kind, "name": "other"}
    return {"type": "Object", "object": {"metric": {"name": "qps"}, "describedObject": about, "target": target}}


def measured(*values: str) -> list[Doc]:
    return [{"describedObject": {"name": f"web-{number}"}, "value": value} for number, value in enumerate(values)]


CUSTOM, EXTERNAL = "namespaces/default", "namespaces/default/qps"


@pytest.mark.parametrize(
    ("metric", "path", "values", "size", "asked", "name", "current"),
    [
        pytest.param(
            per_pod("15"),
            f"{CUSTOM}/pods/*/qps",
            measured("20", "10", "30"),
            4,
            f"v1beta2 {CUSTOM}/pods/*/qps?labelSelector=app=web",
            "pods metric qps",
            {"averageValue": "20"},
            id="TestScaleUpCM",
        ),
        pytest.param(
            of_object(type="Value", value="15"),
            f"{CUSTOM}/deployments.apps/other/qps",
            measured("20"),
            4,
            f"v1beta2 {CUSTOM}/deployments.apps/other/qps",
            "Deployment metric qps",
            {"value": "20"},
            id="TestScaleUpCMObject",
        ),
        pytest.param(
            of_object("Namespace", "v1", type="Value", value="15"),
            f"{CUSTOM}/metrics/qps",
            measured("20"),
            4,
            f"v1beta2 {CUSTOM}/metrics/qps",
            "Namespace metric qps",
            {"value": "20"},
            id="an object metric of the namespace",
        ),
        pytest.param(
            of_object(type="AverageValue", averageValue="10"),
            f"{CUSTOM}/deployments.apps/other/qps",
            measured("40"),
            4,
            f"v1beta2 {CUSTOM}/deployments.apps/other/qps",
            "external metric qps(nil)",
            {"averageValue": "13334m"},
            id="TestScaleUpPerPodCMObject",
        ),
        pytest.param(
            external(type="Value", value="6666m"),
            EXTERNAL,
            measured("8600m"),
            4,
            f"v1beta1 {EXTERNAL}",
            "external metric qps(nil)",
            {"value": "8600m"},
            id="TestScaleUpCMExternal",
        ),
        pytest.param(
            external(type="AverageValue", averageValue="2222m"),
            EXTERNAL,
            measured("4000m", "4600m"),
            4,
            f"v1beta1 {EXTERNAL}",
            "external metric qps(nil)",
            {"averageValue": "2867m"},
            id="TestScaleUpPerPodCMExternal",
        ),
    ],
)
def test_metrics_of_other_apis(
    metric: Doc, path: str, values: list[Doc], size: int, asked: str, name: str, current: Doc
) -> None:
    async def story(scene: Scene) -> None:
        scene.apis.values[path] = values
        await scene.deploy(3)
        await scene.pods(3)
        await scene.autoscale(2, 6, metric)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == size
        assert scene.apis.asked == [asked]
        assert await scene.message("ScalingActive") == (
            f"the HPA was able to successfully calculate a replica count from {name}"
        )
        status = (await scene.status())["currentMetrics"][0]
        inner = status[status["type"][0].lower() + status["type"][1:]]
        assert inner["current"] == current
        assert inner["metric"] == {"name": "qps"}

    scaling(story)


def test_the_newest_version_of_the_custom_api_is_asked_and_found_out_once_per_period() -> None:
    async def story(scene: Scene) -> None:
        scene.apis.versions = ("v1beta1",)
        scene.apis.values[f"{CUSTOM}/pods/*/qps"] = measured("15", "15")
        await scene.deploy(2)
        await scene.pods(2)
        await scene.autoscale(1, 5, per_pod("15"))
        await asyncio.sleep(PERIOD + 1)
        assert scene.apis.asked[-1].startswith("v1beta1 ")
        scene.apis.versions = ("v1beta1", "v1beta2")
        await asyncio.sleep(PERIOD)
        assert scene.apis.asked[-1].startswith("v1beta2 ")
        scene.apis.versions = ()
        await asyncio.sleep(2 * PERIOD)
        assert (await scene.reasons())["ScalingActive"] == "False FailedGetPodsMetric"

    scaling(story)


def test_one_metric_that_fails_stops_a_fall_and_not_a_rise() -> None:
    """TestScaleUpOneMetricEmpty, TestNoScaleDownOneMetricEmpty."""

    async def story(scene: Scene) -> None:
        await scene.deploy(3)
        await scene.pods(3)
        scene.meter.cpu = 10
        await scene.autoscale(1, 6, external(type="Value", value="1"), CPU_50)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 3
        assert (await scene.reasons())["ScalingActive"] == "False FailedGetExternalMetric"
        assert [each["type"] for each in (await scene.status())["currentMetrics"]] == ["", "Resource"]
        assert len(await scene.world.events("FailedComputeMetricsReplicas")) == 1
        scene.meter.cpu = 90
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 6
        assert (await scene.reasons())["ScalingActive"] == "True ValidMetricFound"

    scaling(story)


def test_the_largest_proposal_counts() -> None:
    async def story(scene: Scene) -> None:
        scene.apis.values[EXTERNAL] = measured("7")
        await scene.deploy(3)
        await scene.pods(3)
        scene.meter.cpu = 60
        await scene.autoscale(1, 20, CPU_50, external(type="AverageValue", averageValue="1"))
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 6  # seven are asked for, twice as many are allowed
        assert (await scene.world.events("SuccessfulRescale"))[0].endswith("external metric qps(nil) above target")
        assert await scene.reasons() == {
            "AbleToScale": "True SucceededRescale",
            "ScalingActive": "True ValidMetricFound",
            "ScalingLimited": "True ScaleUpLimit",
        }

    scaling(story)


@pytest.mark.parametrize(
    ("target", "text", "error"),
    [
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            'deployments.apps "web" not found',
            "internal",
            id="no such object",
        ),
        pytest.param(
            {"apiVersion": "apps/v1", "kind": "Sloop", "name": "web"},
            'no matches for kind "Sloop" in group "apps"',
            "internal",
            id="no such kind",
        ),
        pytest.param(
            {"apiVersion": "a/b/c", "kind": "Sloop", "name": "web"},
            "unexpected GroupVersion string: a/b/c",
            "spec",
            id="no version at all",
        ),
    ],
)
def test_a_target_that_is_not_there(target: Doc, text: str, error: str) -> None:
    """TestConditionFailedGetScale."""

    async def story(scene: Scene) -> None:
        spec = {"scaleTargetRef": target, "maxReplicas": 5}
        try:
            await scene.world.request("POST", HPAS, {"metadata": {"name": "web"}, "spec": spec})
        except Exception:  # noqa: BLE001  # some of these the server does not take; then there is nothing to see
            return
        await asyncio.sleep(PERIOD + 1)
        assert await scene.reasons() == {"AbleToScale": "False FailedGetScale"}
        why = "the HPA controller was unable to get the target's current scale"
        assert await scene.message("AbleToScale") == f"{why}: {text}"
        assert await scene.world.events("FailedGetScale") == [f"HorizontalPodAutoscaler/web {text}"]
        shown = scene.world.metrics.exposition()
        name = "horizontal_pod_autoscaler_controller_reconciliations_total"
        assert f'{name}{{action="none",error="{error}"}} 1' in shown

    scaling(story)


def test_two_autoscalers_of_the_same_pods_do_nothing() -> None:
    """TestConditionAmbiguous…: upstream since v1.27."""

    async def story(scene: Scene) -> None:
        await scene.deploy(3)
        await scene.deploy(3, name="twin", labels={"app": "web"})
        await scene.pods(3)
        scene.meter.cpu = 90
        await scene.autoscale(1, 9)
        await scene.autoscale(1, 9, name="twin")
        await asyncio.sleep(2 * PERIOD + 1)
        why = "pods by selector app=web are controlled by multiple HPAs: [default/twin default/web]"
        assert (await scene.reasons("twin"))["ScalingActive"] == "False AmbiguousSelector"
        assert await scene.message("ScalingActive") == why
        assert f"HorizontalPodAutoscaler/web {why}" in await scene.world.events("AmbiguousSelector")
        sizes = await scene.size(), await scene.size("twin")
        await scene.world.delete(f"{HPAS}/twin")
        await asyncio.sleep(2 * PERIOD)
        assert (await scene.reasons())["ScalingActive"] == "True ValidMetricFound"
        assert await scene.size("twin") == sizes[1]

    scaling(story)


def test_a_size_that_somebody_else_writes_meanwhile_is_set_all_the_same() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(1)
        scene.world.faults.add(Rule(conflict(), verb="update", subresource="scale", times=4))
        await scene.autoscale(2, 5)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 2
        assert [each for each in scene.world.requests() if "/scale" in each] == [
            "get deployments/scale web",
            *["update deployments/scale web", "get deployments/scale web"] * 4,
            "update deployments/scale web",
        ]

    scaling(story)


def test_a_size_that_cannot_be_set() -> None:
    """TestConditionFailedUpdateScale."""

    async def story(scene: Scene) -> None:
        await scene.deploy(3)
        await scene.pods(3)
        scene.meter.cpu = 75
        scene.world.faults.add(
            Rule(fail(500, "InternalError", "something went wrong"), verb="update", subresource="scale")
        )
        await scene.autoscale(1, 5)
        await asyncio.sleep(PERIOD + 1)
        assert (await scene.reasons())["AbleToScale"] == "False FailedUpdateScale"
        assert await scene.world.events("FailedRescale") == [
            f"HorizontalPodAutoscaler/web New size: 5; reason: {PERCENT} above target; error: something went wrong"
        ]
        status = await scene.status()
        assert (status["currentReplicas"], status["desiredReplicas"], status.get("lastScaleTime")) == (3, 0, None)

    scaling(story)


def test_what_was_done_and_not_heard_of_is_not_done_twice() -> None:
    """The answer to the write of the scale is lost: the next look finds the new size, and goes on from there."""

    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 100
        scene.world.faults.add(Rule(lose_answer(), verb="update", subresource="scale", times=1))
        await scene.autoscale(1, 100)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 4
        await scene.pods(2, first=2)
        scene.meter.cpu = 50
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 4
        assert (await scene.reasons())["AbleToScale"] == "True ReadyForNewScale"

    scaling(story)


def test_where_nothing_changes_nothing_is_written() -> None:
    """TestAvoidUnnecessaryUpdates."""

    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 50
        await scene.autoscale(1, 5)
        await asyncio.sleep(2 * PERIOD + 1)
        scene.world.seen.clear()
        await asyncio.sleep(10 * PERIOD)
        assert scene.world.requests(reads=False) == []
        assert scene.world.requests() == ["get deployments/scale web"] * 10

    scaling(story)


def test_a_status_that_cannot_be_written_is_said_and_tried_again() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 50
        await scene.autoscale(1, 5)
        rule = Rule(conflict(), verb="update", resource="horizontalpodautoscalers", times=1)
        scene.world.faults.add(rule)
        await asyncio.sleep(PERIOD + 1)
        assert len(await scene.world.events("FailedUpdateStatus")) == 1
        await asyncio.sleep(PERIOD)
        assert (await scene.reasons())["AbleToScale"] == "True ReadyForNewScale"

    scaling(story)


def test_what_this_controller_does_not_know_of_a_status_stays_in_the_spec() -> None:
    """The whole object is written back, so that its spec must be as it came."""

    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 100
        rules = {"tolerance": "50m", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
        await scene.autoscale(1, 9, behavior={"scaleUp": rules})
        await asyncio.sleep(PERIOD + 1)
        sent = scene.world.bodies("update", "horizontalpodautoscalers/status")[-1]
        found = await scene.world.see(HPA)
        assert sent["spec"] == found["spec"]
        assert await scene.size() == 3
        await asyncio.sleep(2 * PERIOD)
        assert await scene.size() == 3
        assert (await scene.reasons())["ScalingLimited"] == "True ScaleUpLimit"
        await asyncio.sleep(2 * PERIOD)
        assert await scene.size() == 4

    scaling(story)


def test_many_are_looked_at_within_one_period() -> None:
    """TestMultipleHPAs: with five workers, a hundred autoscalers."""

    async def story(scene: Scene) -> None:
        for number in range(100):
            await scene.deploy(1, name=f"w{number}")
            await scene.autoscale(2, 5, name=f"w{number}")
        await asyncio.sleep(PERIOD + 1)
        assert {await scene.size(f"w{number}") for number in range(100)} == {2}

    scaling(story)


def test_a_tolerance_of_its_own() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(10)
        await scene.pods(10)
        scene.meter.cpu = 53
        await scene.autoscale(1, 20)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 10
        await scene.world.merge(HPA, {"spec": {"behavior": {"scaleUp": {"tolerance": "50m"}}}})
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 11

    scaling(story)


def test_a_restart_keeps_the_size_for_the_window() -> None:
    """kubernetes#68826: without a memory the first look after a restart must not take a lower recommendation."""

    async def story(scene: Scene) -> None:
        await scene.deploy(5)
        await scene.pods(5)
        await scene.autoscale(1, 5)
        # The controller sees it for the first time, with no load, as one does that was started just now.
        await asyncio.sleep(PERIOD + 300 - 1)
        assert await scene.size() == 5
        await asyncio.sleep(2 * PERIOD)
        assert await scene.size() == 1

    scaling(story)


def test_the_time_of_the_last_change_stays_when_nothing_is_changed() -> None:
    """kubernetes#16275."""

    async def story(scene: Scene) -> None:
        await scene.deploy(1)
        await scene.autoscale(2, 5)
        await asyncio.sleep(PERIOD + 1)
        at = (await scene.status())["lastScaleTime"]
        await scene.pods(2)
        scene.meter.cpu = 50
        await asyncio.sleep(2 * PERIOD)
        status = await scene.status()
        assert status["lastScaleTime"] == at
        assert status["currentMetrics"] is not None

    scaling(story)


def test_pods_of_a_rollout_that_are_not_ready_yet_do_not_scale_it_up() -> None:
    """kubernetes#98914: new pods burn cpu while they start, and come on top of the old ones."""

    async def story(scene: Scene) -> None:
        await scene.deploy(4)
        await scene.pods(4)
        scene.meter.cpu = 50
        await asyncio.sleep(600)  # the old ones are believed
        await scene.autoscale(1, 20)
        await asyncio.sleep(PERIOD + 1)
        await scene.pods(1, first=4, ready=False)
        scene.meter.by_pod["web-4"] = 1000
        await asyncio.sleep(5 * PERIOD)
        assert await scene.size() == 4
        assert (await scene.status())["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 50

    scaling(story, options=HorizontalPodAutoscalerOptions())


def test_a_new_one_of_the_same_name_does_not_inherit() -> None:
    """Upstream's memory is by name: an autoscaler that is deleted and made again within a period keeps the
    recommendations of the one before."""

    async def story(scene: Scene) -> None:
        await scene.deploy(4)
        await scene.pods(4)
        scene.meter.cpu = 100
        await scene.autoscale(1, 8)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 8
        await scene.world.delete(HPA)
        await scene.world.merge(WEB, {"spec": {"replicas": 2}})
        scene.meter.cpu = 50
        await scene.autoscale(1, 8)
        await asyncio.sleep(2 * PERIOD)
        assert await scene.size() <= 4

    scaling(story)


def test_its_metrics_are_upstreams() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 100
        await scene.autoscale(1, 9, CPU_50, external(type="Value", value="1"))
        await asyncio.sleep(PERIOD + 1)
        prefix, shown = "horizontal_pod_autoscaler_controller", scene.world.metrics.exposition()
        for line in (
            f'{prefix}_reconciliations_total{{action="scale_up",error="internal"}} 1',
            f'{prefix}_metric_computation_total{{action="scale_up",error="none",metric_type="Resource"}} 1',
            f'{prefix}_metric_computation_total{{action="none",error="internal",metric_type="External"}} 1',
            f"{prefix}_num_horizontal_pod_autoscalers 1",
            f'{prefix}_desired_replicas{{namespace="default",hpa_name="web"}} 4',
        ):
            assert line in shown, line
        await scene.world.delete(HPA)
        await asyncio.sleep(PERIOD + 1)
        shown = scene.world.metrics.exposition()
        assert f"{prefix}_num_horizontal_pod_autoscalers 0" in shown
        assert f"{prefix}_desired_replicas{{" not in shown

    scaling(story)


SLOOPS = "/apis/sea.example/v1/namespaces/default/sloops"


async def define_sloops(scene: Scene, *, selector: str = "app=web") -> None:
    """A custom resource with a scale, one of it, and its autoscaler. Its selector is whatever somebody writes."""
    world = scene.world
    paths = {
        "specReplicasPath": ".spec.crew",
        "statusReplicasPath": ".status.crew",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}, "scale": paths},
    }
    names = {"plural": "sloops", "singular": "sloop", "kind": "Sloop", "listKind": "SloopList"}
    definition = {
        "metadata": {"name": "sloops.sea.example"},
        "spec": {"group": "sea.example", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await world.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await asyncio.sleep(5)
    body = {"apiVersion": "sea.example/v1", "kind": "Sloop", "metadata": {"name": "web"}, "spec": {"crew": 2}}
    await world.request("POST", SLOOPS, body)
    await world.merge(f"{SLOOPS}/web/status", {"status": {"crew": 2, "selector": selector}})
    await scene.deploy(1)
    await scene.pods(2)
    target = {"apiVersion": "sea.example/v1", "kind": "Sloop", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": [CPU_50]}
    await world.request("POST", HPAS, {"metadata": {"name": "web"}, "spec": spec})
    await asyncio.sleep(PERIOD + 1)


def test_any_scale_subresource_will_do() -> None:
    """A custom resource with a scale is found by discovery, and written in its own words."""

    async def story(scene: Scene) -> None:
        scene.meter.cpu = 100
        await define_sloops(scene)
        assert (await scene.world.see(f"{SLOOPS}/web"))["spec"] == {"crew": 4}

    scaling(story)


@pytest.mark.parametrize(
    ("selector", "event", "told", "message"),
    [
        pytest.param(
            "",
            "SelectorRequired",
            "selector is required",
            "the HPA target's scale is missing a selector",
            id="TestConditionInvalidSelectorMissing",
        ),
        pytest.param(
            "cheddar cheese",
            "InvalidSelector",
            "couldn't convert selector into a corresponding internal selector object: ",
            "couldn't convert selector into a corresponding internal selector object: ",
            id="TestConditionInvalidSelectorUnparsable",
        ),
    ],
)
def test_a_selector_that_selects_nobody_can_tell_whom(selector: str, event: str, told: str, message: str) -> None:
    async def story(scene: Scene) -> None:
        await define_sloops(scene, selector=selector)
        assert (await scene.reasons())["ScalingActive"] == "False InvalidSelector"
        assert (await scene.message("ScalingActive")).startswith(message)
        assert (await scene.world.events(event))[0].startswith(f"HorizontalPodAutoscaler/web {told}")
        assert (await scene.world.events("FailedComputeMetricsReplicas"))[0].startswith(
            f"HorizontalPodAutoscaler/web {told}"
        )
        assert (await scene.world.see(f"{SLOOPS}/web"))["spec"] == {"crew": 2}

    scaling(story)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        pytest.param({"app": "web"}, "False AmbiguousSelector", id="full overlap"),
        pytest.param({"tier": "front"}, "False AmbiguousSelector", id="partial overlap"),
        pytest.param({"app": "other"}, "True ValidMetricFound", id="no overlap"),
    ],
)
def test_only_autoscalers_that_share_pods_are_rivals(other: Doc, reason: str) -> None:
    """TestCondition(No)AmbiguousSelectorWhen…OverlapBetweenHPAs."""

    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.deploy(2, name="twin", labels=other)
        await scene.pods(2)
        await scene.world.merge(f"{PODS}/web-1", {"metadata": {"labels": {"tier": "front"}}})
        scene.meter.cpu = 50
        await scene.autoscale(1, 9, name="twin")
        await asyncio.sleep(PERIOD / 2)
        await scene.autoscale(1, 9)
        await asyncio.sleep(PERIOD + 1)
        assert (await scene.reasons())["ScalingActive"] == reason

    scaling(story)


def resource(name: str = "cpu", container: str = "", **target: Any) -> Doc:
    if container:
        return {
            "type": "ContainerResource",
            "containerResource": {"name": name, "container": container, "target": target},
        }
    return {"type": "Resource", "resource": {"name": name, "target": target}}


@pytest.mark.parametrize(
    ("metric", "size", "current", "name"),
    [
        pytest.param(
            resource(type="AverageValue", averageValue="25m"),
            4,
            {"averageValue": "50m"},
            "cpu resource",
            id="an average of cpu",
        ),
        pytest.param(
            resource("memory", type="AverageValue", averageValue="512Ki"),
            4,
            {"averageValue": "1Mi"},
            "memory resource",
            id="an average of memory, in its own notation (TestBuildQuantity)",
        ),
        pytest.param(
            resource(container="main", type="Utilization", averageUtilization=25),
            4,
            {"averageUtilization": 50, "averageValue": "50m"},
            "cpu container resource utilization (percentage of request)",
            id="TestScaleUpContainer",
        ),
        pytest.param(
            resource(container="main", type="AverageValue", averageValue="100m"),
            2,
            {"averageValue": "50m"},
            "cpu resource",
            id="TestScaleDownContainerResource, within the window",
        ),
    ],
)
def test_resources_of_pods_and_containers(metric: Doc, size: int, current: Doc, name: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 50
        await scene.autoscale(1, 9, metric)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == size
        (status,) = (await scene.status())["currentMetrics"]
        inner = status["containerResource" if status["type"] == "ContainerResource" else "resource"]
        assert inner["current"] == current
        assert (await scene.message("ScalingActive")).endswith(f"calculate a replica count from {name}")

    scaling(story)


@pytest.mark.parametrize(
    ("metric", "reason", "why"),
    [
        pytest.param(
            CPU_50,
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource "
            "metrics API",
            id="TestEmptyMetrics",
        ),
        pytest.param(
            resource(container="none", type="Utilization", averageUtilization=25),
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource "
            "metrics API",
            id="of a container",
        ),
        pytest.param(
            per_pod("15"),
            "FailedGetPodsMetric",
            "unable to get metric qps: unable to fetch metrics from custom metrics API: the server could not find the "
            "requested resource (get pods.custom.metrics.k8s.io *)",
            id="failed get pods metric",
        ),
        pytest.param(
            of_object(type="Value", value="1"),
            "FailedGetObjectMetric",
            "unable to get metric qps: unable to fetch metrics from custom metrics API: the server could not find the "
            "requested resource (get deployments.apps.custom.metrics.k8s.io other) on Deployment default/other",
            id="failed get object metric",
        ),
        pytest.param(
            external(type="Value", value="1"),
            "FailedGetExternalMetric",
            "unable to get external metric default/qps/nil: unable to fetch metrics from external metrics API: the "
            "server could not find the requested resource (get qps.external.metrics.k8s.io)",
            id="failed get external metric",
        ),
    ],
)
def test_every_kind_of_metric_says_why_it_is_not_there(metric: Doc, reason: str, why: str) -> None:
    """TestConditionFailedGetMetrics."""

    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.unmeasured = {"web-0", "web-1"}
        await scene.autoscale(1, 9, metric)
        await asyncio.sleep(PERIOD + 1)
        assert (await scene.reasons())["ScalingActive"] == f"False {reason}"
        assert await scene.message("ScalingActive") == f"the HPA was unable to compute the replica count: {why}"
        assert await scene.world.events(reason) == [f"HorizontalPodAutoscaler/web {why}"]

    scaling(story)


def test_pods_without_requests_have_no_utilization() -> None:
    """TestEmptyCPURequest."""

    async def story(scene: Scene) -> None:
        await scene.deploy(1)
        await scene.world.pod("bare", labels={"app": "web"}, ready=True)
        started = format_time(scene.world.env.now())
        await scene.world.merge(f"{PODS}/bare/status", {"status": {"startTime": started}})
        await scene.autoscale(1, 9)
        await asyncio.sleep(PERIOD + 1)
        why = "failed to get cpu utilization: missing request for cpu in container main of Pod bare"
        assert (await scene.message("ScalingActive")).endswith(why)

    scaling(story, options=HorizontalPodAutoscalerOptions(cpu_initialization_period=0.0, initial_readiness_delay=0.0))


def test_a_pod_without_a_sample_counts_as_idle_on_the_way_up_and_as_busy_on_the_way_down() -> None:
    """TestMissingMetrics, TestMissingReports."""

    async def story(scene: Scene) -> None:
        await scene.deploy(3)
        await scene.pods(3)
        scene.meter.unmeasured = {"web-2"}
        scene.meter.cpu = 100
        await scene.autoscale(1, 9)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 4  # 200 of 300 are used, twice of 50 %, less for the one that is not known

    scaling(story)


def test_a_tolerance_of_its_own_counts_only_where_the_gate_is_on() -> None:
    """TestConfigurableTolerance."""

    async def story(scene: Scene) -> None:
        await scene.deploy(10)
        await scene.pods(10)
        scene.meter.cpu = 53
        await scene.autoscale(1, 20, behavior={"scaleUp": {"tolerance": "50m"}})
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 10

    scaling(story, options=HorizontalPodAutoscalerOptions(own_tolerance=False, cpu_initialization_period=0.0))


def test_the_tolerance_of_all_is_a_flag() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(10)
        await scene.pods(10)
        scene.meter.cpu = 53
        await scene.autoscale(1, 20)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 11

    scaling(story, options=HorizontalPodAutoscalerOptions(tolerance=0.05, cpu_initialization_period=0.0))


ZERO = HorizontalPodAutoscalerOptions(scale_to_zero=True, cpu_initialization_period=0.0)


async def allow_zero(scene: Scene) -> None:
    """Store a minimum of 0, which this server's API refuses: upstream's takes it with its own gate on."""
    store, key = scene.world.store, "autoscaling/horizontalpodautoscalers/default/web"
    record = store.get(key)
    assert record is not None, "it was made"
    value = record.value.replace(b'"minReplicas":1', b'"minReplicas":0')
    assert value != record.value
    staged = store.stage(
        key, lambda revision: with_revision(value, record.revision, revision), expected=record.revision
    )
    await store.commit(staged)


def test_to_zero_and_back_where_that_is_switched_on() -> None:
    """The gate HPAScaleToZero (alpha): what it set to 0 itself it wakes again, what a hand set to 0 stays."""

    async def story(scene: Scene) -> None:
        values = scene.apis.values
        values[EXTERNAL] = measured("0")
        await scene.deploy(2)
        await scene.pods(2)
        down = {"stabilizationWindowSeconds": 0}
        await scene.autoscale(1, 9, external(type="Value", value="100"), behavior={"scaleDown": down})
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 1
        assert (await scene.reasons())["ScaledToZero"] == "False NotScaledToZero"
        await allow_zero(scene)
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 0
        assert (await scene.reasons())["ScaledToZero"] == "True ScaledToZero"
        await asyncio.sleep(3 * PERIOD)
        assert await scene.size() == 0
        values[EXTERNAL] = measured("350")
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 4
        assert (await scene.reasons())["ScaledToZero"] == "False NotScaledToZero"
        await scene.world.merge(WEB, {"spec": {"replicas": 0}})
        await asyncio.sleep(2 * PERIOD)
        assert await scene.size() == 0
        assert (await scene.reasons())["ScalingActive"] == "False ScalingDisabled"

    scaling(story, options=ZERO)


def test_a_minimum_that_is_raised_at_zero_wakes_it() -> None:
    async def story(scene: Scene) -> None:
        scene.apis.values[EXTERNAL] = measured("0")
        await scene.deploy(1)
        await scene.pods(1)
        down = {"stabilizationWindowSeconds": 0}
        await scene.autoscale(1, 9, external(type="Value", value="100"), behavior={"scaleDown": down})
        await allow_zero(scene)
        await asyncio.sleep(PERIOD + 1)
        assert await scene.size() == 0
        await scene.world.merge(HPA, {"spec": {"minReplicas": 3}})
        await asyncio.sleep(PERIOD)
        assert await scene.size() == 3
        assert (await scene.world.events("SuccessfulRescale"))[-1].endswith("below Spec.MinReplicas")

    scaling(story, options=ZERO)


def test_zero_that_nobody_wrote_down_is_left_alone() -> None:
    """TestScaleUpFromZeroWithoutCondition."""

    async def story(scene: Scene) -> None:
        scene.apis.values[EXTERNAL] = measured("500")
        await scene.deploy(0)
        await scene.autoscale(1, 9, external(type="Value", value="100"))
        await allow_zero(scene)
        await asyncio.sleep(2 * PERIOD + 1)
        assert await scene.size() == 0
        assert (await scene.reasons())["ScalingActive"] == "False ScalingDisabled"

    scaling(story, options=ZERO)


def test_the_condition_of_the_gate_goes_when_it_is_off() -> None:
    async def story(scene: Scene) -> None:
        await scene.deploy(2)
        await scene.pods(2)
        scene.meter.cpu = 50
        await scene.autoscale(1, 9)
        condition = {"type": "ScaledToZero", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"currentReplicas": 0, "desiredReplicas": 0, "conditions": [condition]}
        await scene.world.merge(f"{HPA}/status", {"status": status})
        await asyncio.sleep(PERIOD + 1)
        assert "ScaledToZero" not in await scene.reasons()

    scaling(story)
