"""Conversion of HorizontalPodAutoscalers between v1 and v2 is lossless."""

import json
from typing import Any

import pytest
from tests.apiserver.api import JSON_PATCH, MERGE, Api, Object
from tests.golden import Golden

V1, V2 = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
ANNOTATION_PREFIX = "autoscaling.alpha.kubernetes.io/"

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CPU: Object = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}
SELECTOR = {"matchLabels": {"a": "b"}}
DESCRIBED_OBJECT = {"apiVersion": "v1", "kind": "Service", "name": "s"}
METRICS: list[Object] = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "hits<&>", "selector": SELECTOR},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": DESCRIBED_OBJECT,
            "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "7"},
        },
    },
    {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}}},
]
CONTAINER = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "cpu",
        "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 60},
    },
}
RULES = {
    "stabilizationWindowSeconds": 30,
    "selectPolicy": "Min",
    "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
}
BEHAVIOR = {"scaleUp": RULES, "scaleDown": {**RULES, "stabilizationWindowSeconds": 300}}
SPEC = {"scaleTargetRef": TARGET, "minReplicas": 2, "maxReplicas": 5, "metrics": [*METRICS, CPU], "behavior": BEHAVIOR}
STATUS = {
    "observedGeneration": 1,
    "currentReplicas": 2,
    "desiredReplicas": 3,
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "400m"}},
        },
        {"type": "Pods", "pods": {"metric": {"name": "hits"}, "current": {"averageValue": "12"}}},
        {
            "type": "Object",
            "object": {"describedObject": DESCRIBED_OBJECT, "metric": {"name": "hits"}, "current": {"value": "5"}},
        },
        {
            "type": "External",
            "external": {"metric": {"name": "queue", "selector": SELECTOR}, "current": {"value": "3"}},
        },
    ],
    "conditions": [
        {
            "type": "AbleToScale",
            "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "R",
            "message": "a < b",
        }
    ],
}


async def test_v1_round_trip_is_lossless(api: Api) -> None:
    spec = {**SPEC, "metrics": [*METRICS, CONTAINER, CPU]}
    await api.create(V2, {"metadata": {"name": "h", "annotations": {"mine": "1"}}, "spec": spec})
    await api.request("PATCH", V2 + "/h/status", {"status": STATUS}, MERGE)
    old = (await api.get(V2 + "/h")).body
    v1_obj = (await api.get(V1 + "/h")).body
    v1_obj["spec"]["maxReplicas"] = 9
    await api.put(V1 + "/h", v1_obj)
    status = (await api.get(V1 + "/h")).body
    status["status"]["desiredReplicas"] = 4
    await api.put(V1 + "/h/status", status)
    new = (await api.get(V2 + "/h")).body
    v1_answer = await api.get(V1 + "/h")
    old["spec"]["maxReplicas"], old["status"]["desiredReplicas"] = 9, 4
    assert (new["spec"], new["status"]) == (old["spec"], old["status"])
    assert new["metadata"]["annotations"] == {"mine": "1"}
    assert v1_answer.body["spec"]["targetCPUUtilizationPercentage"] == 50
    assert v1_answer.body["status"]["currentCPUUtilizationPercentage"] == 40
    names = ("metrics", "current-metrics", "behavior", "conditions")
    assert set(v1_answer.meta["annotations"]) == {"mine", *(ANNOTATION_PREFIX + name for name in names)}
    assert "hits\\u003c\\u0026\\u003e" in v1_answer.meta["annotations"][ANNOTATION_PREFIX + "metrics"]


async def test_v1_cpu_status_is_converted(api: Api) -> None:
    await api.create(V1, {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
    body = {"status": {"currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 33}}
    written = await api.request("PATCH", V1 + "/h/status", body, MERGE)
    written, v1_status, v2_status = [
        written.body["status"],
        *[(await api.get(path + "/h")).body["status"] for path in (V1, V2)],
    ]
    assert written == v1_status == {"currentReplicas": 1, "desiredReplicas": 1, "currentCPUUtilizationPercentage": 33}
    current = {"averageUtilization": 33}
    assert v2_status["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]


async def test_v1_status_update_keeps_spec_metrics(api: Api) -> None:
    created = await api.create(V2, {"metadata": {"name": "h"}, "spec": SPEC})
    v1_obj = (await api.get(V1 + "/h")).body
    v1_obj["metadata"]["annotations"] = {"mine": "1"}
    v1_obj["status"]["desiredReplicas"] = 4
    await api.put(V1 + "/h/status", v1_obj)
    spec = created["spec"]
    updated = (await api.get(V2 + "/h")).body
    assert updated["spec"] == spec
    assert updated["metadata"]["annotations"] == {"mine": "1"}
    assert updated["status"]["desiredReplicas"] == 4


@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_object_metric_with_average_value_has_no_zero_value(api: Api, subresource: str) -> None:
    """``targetValue`` is required in v1, and a target of zero is invalid (``Convert_v1_ObjectMetricSource``, v1.36)."""
    target = {"type": "AverageValue", "averageValue": "5"}
    metric = {
        "type": "Object",
        "object": {"describedObject": DESCRIBED_OBJECT, "metric": {"name": "hits"}, "target": target},
    }
    await api.create(V2, {"metadata": {"name": "h"}, "spec": {**SPEC, "metrics": [metric]}})
    v1_obj = (await api.get(V1 + "/h")).body
    v1_obj["spec"]["maxReplicas"] = 9
    answer = await api.put(f"{V1}/h{subresource}", v1_obj)
    status = answer.status
    spec = (await api.get(V2 + "/h")).body["spec"]
    assert (status, spec["metrics"]) == (200, [metric])


async def test_undecodable_metric_annotations_are_ignored(api: Api) -> None:

    default = {**CPU, "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    metrics = []
    memory = [{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}}]
    invalid_name = json.dumps([{"type": "Resource", "resource": {"name": 5}}])
    invalid_quantity = json.dumps([{"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "x"}}])
    annotations = (json.dumps(memory), "no JSON", "[]", invalid_name, invalid_quantity)
    for name, annotation in zip("abcde", annotations, strict=True):
        meta = {"name": name, "annotations": {ANNOTATION_PREFIX + "metrics": annotation}}
        await api.create(V1, {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
        metrics.append((await api.get(f"{V2}/{name}")).body["spec"]["metrics"])
    assert metrics == [[METRICS[0]], *[[default]] * 4]


async def test_conversion_annotations_are_dropped_in_v2(api: Api) -> None:
    meta = {
        "name": "h",
        "annotations": {ANNOTATION_PREFIX + "metrics": "[]", ANNOTATION_PREFIX + "scale-up-tolerance": "1"},
    }
    assert (
        "annotations"
        not in (await api.create(V2, {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}))[
            "metadata"
        ]
    )


async def test_v1_update_stores_no_unreported_average(api: Api) -> None:
    created = await api.create(V1, {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
    created["status"] = {"currentReplicas": 0, "desiredReplicas": 0, "currentCPUUtilizationPercentage": 59}
    reported = (await api.put(V1 + "/h/status", created)).body
    updated = (await api.put(V1 + "/h", {**reported, "spec": {**reported["spec"], "maxReplicas": 4}})).body
    path = f"/metadata/annotations/{ANNOTATION_PREFIX.replace('/', '~1')}current-metrics"
    patch = [{"op": "replace", "path": path, "value": "x"}]
    patched = (await api.request("PATCH", V1 + "/h/status", patch, JSON_PATCH)).body
    current = (await api.get(V2 + "/h")).body["status"]["currentMetrics"]
    updated = updated["metadata"]["resourceVersion"]
    patched = patched["metadata"]["resourceVersion"]
    assert current == [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 59}}}]
    assert updated == patched, "an annotation that cannot be decoded counts as missing, so nothing changes"


async def test_dry_run_returns_the_converted_object(api: Api) -> None:
    meta = {"name": "h", "annotations": {ANNOTATION_PREFIX + "conditions": "[]"}}
    body = {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}
    assert "annotations" not in (await api.create(V1 + "?dryRun=All", body))["metadata"]


async def test_alternating_writes_of_both_versions(api: Api, golden: Golden) -> None:
    """Both versions after each write: compared with a kube-apiserver v1.20.2 (``autoscaling/v2beta2``), except for the
    tolerance, which is newer, and for zero counts and quantities, which v1.20 stored (as v1)."""
    results: dict[str, list[Any]] = {}

    async def write(step: str, method: str, path: str, body: Object) -> tuple[Object, Object]:
        answer = await api.request(method, path, body)
        assert answer.status < 300, answer.text
        objects = [(await api.get(path + "/h")).body for path in (V1, V2)]
        results[step] = [_without_metadata(obj) for obj in objects]
        return objects[0], objects[1]

    _, v2_obj = await write("create v2", "POST", V2, {"metadata": {"name": "h"}, "spec": SPEC})
    v1_obj, _ = await write("status v2", "PUT", V2 + "/h/status", {**v2_obj, "status": STATUS})
    v1_obj["spec"]["targetCPUUtilizationPercentage"] = 70
    v1_obj["metadata"]["annotations"]["mine"] = "1"
    v1_obj, _ = await write("update v1", "PUT", V1 + "/h", v1_obj)
    v1_obj["status"]["currentCPUUtilizationPercentage"] = 1
    v1_obj, _ = await write("status v1: the annotation counts, not the field", "PUT", V1 + "/h/status", v1_obj)
    without_annotations = {**v1_obj, "metadata": {"name": "h"}}
    v1_obj, _ = await write("update v1 without annotations: no more metrics", "PUT", V1 + "/h", without_annotations)
    without_annotations = {**v1_obj, "metadata": {"name": "h"}}
    await write("status v1 without annotations: the field counts", "PUT", V1 + "/h/status", without_annotations)
    golden.check("autoscaler_forms", results)


def _without_metadata(obj: Object) -> Object:
    annotations = {
        name: json.loads(value) if name.startswith(ANNOTATION_PREFIX) else value
        for name, value in (obj["metadata"].get("annotations") or {}).items()
    }
    return {"annotations": annotations, "spec": obj["spec"], "status": obj["status"]}
