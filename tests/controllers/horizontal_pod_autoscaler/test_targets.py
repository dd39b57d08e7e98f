"""Scale targets: every kind of scale, missing targets, ambiguous selectors.

The controller against the embedded API server in virtual time. Many scenarios mirror v1.36
``pkg/controller/podautoscaler/horizontal_test.go``; docstrings have its names.
"""

import asyncio

from tests.controllers.horizontal_pod_autoscaler.world import CPU_50, HPAS, PERIOD, AutoscalerWorld, Doc
from tests.controllers.node_world import PODS
from tests.custom_resources import DEFINITIONS, definition, version
from tests.tables import cases

from pilothouse.client.interceptor import Rule, delay


@cases(
    "target, text, error",
    {
        "missing object": (
            {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            'deployments.apps "web" not found',
            "internal",
        ),
        "unknown kind": (
            {"apiVersion": "apps/v1", "kind": "Sloop", "name": "web"},
            'no matches for kind "Sloop" in group "apps"',
            "internal",
        ),
        "invalid apiVersion": (
            {"apiVersion": "a/b/c", "kind": "Sloop", "name": "web"},
            "unexpected GroupVersion string: a/b/c",
            "spec",
        ),
    },
)
async def test_missing_scale_target(hpa: AutoscalerWorld, target: Doc, text: str, error: str) -> None:
    """TestConditionFailedGetScale."""
    spec = {"scaleTargetRef": target, "maxReplicas": 5}
    try:
        await hpa.world.request("POST", HPAS, {"metadata": {"name": "web"}, "spec": spec})
    except Exception:  # noqa: BLE001  # some of these the server does not take; then there is nothing to see
        return
    await asyncio.sleep(PERIOD + 1)
    assert await hpa.reasons() == {"AbleToScale": "False FailedGetScale"}
    message = "the HPA controller was unable to get the target's current scale"
    assert await hpa.message("AbleToScale") == f"{message}: {text}"
    assert await hpa.world.events("FailedGetScale") == [f"HorizontalPodAutoscaler/web {text}"]
    exposition = hpa.world.metrics.exposition()
    name = "horizontal_pod_autoscaler_controller_reconciliations_total"
    assert f'{name}{{action="none",error="{error}"}} 1' in exposition


async def test_ambiguous_selector_disables_both_autoscalers(hpa: AutoscalerWorld) -> None:
    """TestConditionAmbiguous…: upstream since v1.27."""
    await hpa.deploy(3)
    await hpa.deploy(3, name="twin", labels={"app": "web"})
    await hpa.pods(3)
    hpa.meter.cpu = 90
    await hpa.autoscale(1, 9)
    await hpa.autoscale(1, 9, name="twin")
    await asyncio.sleep(2 * PERIOD + 1)
    message = "pods by selector app=web are controlled by multiple HPAs: [default/twin default/web]"
    assert (await hpa.reasons("twin"))["ScalingActive"] == "False AmbiguousSelector"
    assert await hpa.message("ScalingActive") == message
    assert f"HorizontalPodAutoscaler/web {message}" in await hpa.world.events("AmbiguousSelector")
    sizes = await hpa.size(), await hpa.size("twin")
    await hpa.world.delete(f"{HPAS}/twin")
    await asyncio.sleep(2 * PERIOD)
    assert (await hpa.reasons())["ScalingActive"] == "True ValidMetricFound"
    assert await hpa.size("twin") == sizes[1]


SLOOPS = "/apis/sea.example/v1/namespaces/default/sloops"


async def define_sloops(hpa: AutoscalerWorld, *, selector: str = "app=web") -> None:
    """A custom resource with a scale, one object, and its autoscaler. Its selector is user input."""
    world = hpa.world
    paths = {
        "specReplicasPath": ".spec.crew",
        "statusReplicasPath": ".status.crew",
        "labelSelectorPath": ".status.selector",
    }
    scaled = version(subresources={"status": {}, "scale": paths})
    await world.request("POST", DEFINITIONS, definition("Sloop", scaled, group="sea.example"))
    await asyncio.sleep(5)
    body = {"apiVersion": "sea.example/v1", "kind": "Sloop", "metadata": {"name": "web"}, "spec": {"crew": 2}}
    await world.request("POST", SLOOPS, body)
    await world.merge(f"{SLOOPS}/web/status", {"status": {"crew": 2, "selector": selector}})
    await hpa.deploy(1)
    await hpa.pods(2)
    target = {"apiVersion": "sea.example/v1", "kind": "Sloop", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, "metrics": [CPU_50]}
    await world.request("POST", HPAS, {"metadata": {"name": "web"}, "spec": spec})
    await asyncio.sleep(PERIOD + 1)


async def test_custom_resource_with_a_scale_subresource(hpa: AutoscalerWorld) -> None:
    """A custom resource with a scale is discovered, and updated by its scale subresource."""
    hpa.meter.cpu = 100
    await define_sloops(hpa)
    assert (await hpa.world.must_get(f"{SLOOPS}/web"))["spec"] == {"crew": 4}


@cases(
    "selector, event, recorded, message",
    {
        "TestConditionInvalidSelectorMissing": (
            "",
            "SelectorRequired",
            "selector is required",
            "the HPA target's scale is missing a selector",
        ),
        "TestConditionInvalidSelectorUnparsable": (
            "cheddar cheese",
            "InvalidSelector",
            "couldn't convert selector into a corresponding internal selector object: ",
            "couldn't convert selector into a corresponding internal selector object: ",
        ),
    },
)
async def test_invalid_or_missing_selector(
    hpa: AutoscalerWorld, selector: str, event: str, recorded: str, message: str
) -> None:
    await define_sloops(hpa, selector=selector)
    assert (await hpa.reasons())["ScalingActive"] == "False InvalidSelector"
    assert (await hpa.message("ScalingActive")).startswith(message)
    assert (await hpa.world.events(event))[0].startswith(f"HorizontalPodAutoscaler/web {recorded}")
    assert (await hpa.world.events("FailedComputeMetricsReplicas"))[0].startswith(
        f"HorizontalPodAutoscaler/web {recorded}"
    )
    assert (await hpa.world.must_get(f"{SLOOPS}/web"))["spec"] == {"crew": 2}


@cases(
    "other, reason",
    {
        "full overlap": ({"app": "web"}, "False AmbiguousSelector"),
        "partial overlap": ({"tier": "front"}, "False AmbiguousSelector"),
        "no overlap": ({"app": "other"}, "True ValidMetricFound"),
    },
)
async def test_selectors_are_ambiguous_only_if_pods_overlap(hpa: AutoscalerWorld, other: Doc, reason: str) -> None:
    """TestCondition(No)AmbiguousSelectorWhen…OverlapBetweenHPAs."""
    await hpa.deploy(2)
    await hpa.deploy(2, name="twin", labels=other)
    await hpa.pods(2)
    await hpa.world.merge(f"{PODS}/web-1", {"metadata": {"labels": {"tier": "front"}}})
    hpa.meter.cpu = 50
    await hpa.autoscale(1, 9, name="twin")
    await asyncio.sleep(PERIOD / 2)
    await hpa.autoscale(1, 9)
    await asyncio.sleep(PERIOD + 1)
    assert (await hpa.reasons())["ScalingActive"] == reason


async def test_autoscaler_deleted_during_its_sync_leaves_no_selector(hpa: AutoscalerWorld) -> None:
    """Upstream stores the selector only of an autoscaler that is still registered (v1.36 ``horizontal.go``,
    ``validateAndParseSelector``)."""
    await hpa.deploy(3)
    await hpa.pods(3)
    hpa.meter.cpu = 50
    hpa.world.faults.add(Rule(delay(2.0), verb="get", subresource="scale", times=1))
    await hpa.autoscale(1, 9, name="old", target="web")
    await asyncio.sleep(PERIOD + 1)
    assert not [request for request in hpa.world.requests() if "/scale" in request], "the sync waits for the scale"
    await hpa.world.delete(f"{HPAS}/old")
    await hpa.autoscale(1, 9)
    await asyncio.sleep(2 * PERIOD + 1)
    assert (await hpa.reasons())["ScalingActive"] == "True ValidMetricFound"
