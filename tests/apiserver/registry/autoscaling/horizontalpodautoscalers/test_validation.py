"""Validation of HorizontalPodAutoscalers (kubernetes ``pkg/apis/autoscaling/validation/validation_test.go``, v1.36)."""

from typing import Any

from tests.apiserver.api import Api, Object
from tests.tables import cases

from pilothouse.apiserver.registry.autoscaling.horizontalpodautoscalers.validation import (
    validate_horizontal_pod_autoscaler_spec,
)

V1, V2 = (f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
TARGET: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SPEC: Object = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3}
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
AVERAGE = {"type": "AverageValue", "averageValue": "1"}
DESCRIBED_OBJECT = {"kind": "Service", "name": "s", "apiVersion": "v1"}
METRIC = {"name": "hits"}
M = "spec.metrics[0]"
NO_GROUP = "apiVersion must specify API group"


def _errors(spec: Object, old_spec: Object | None = None) -> list[str]:
    old_spec = None if old_spec is None else {**SPEC, **old_spec}
    return [
        f"{error.field}: {error.text}" for error in validate_horizontal_pod_autoscaler_spec({**SPEC, **spec}, old_spec)
    ]


def _metric(kind: str, **sources: Any) -> Object:
    return {"metrics": [{"type": kind, **sources}]}


def _scale_up(**rules: Any) -> Object:
    policies = [{"type": "Pods", "value": 1, "periodSeconds": 1800}]
    return {"behavior": {"scaleUp": {"policies": policies, "stabilizationWindowSeconds": 3600, **rules}}}


@cases(
    "spec, old_spec",
    {
        "Resource metric": (_metric("Resource", resource={"name": "cpu", "target": UTILIZATION}), None),
        "ContainerResource metric": (
            _metric("ContainerResource", containerResource={"name": "cpu", "container": "c", "target": AVERAGE}),
            None,
        ),
        "Pods metric": (_metric("Pods", pods={"metric": METRIC, "target": AVERAGE}), None),
        "Object metric": (
            _metric(
                "Object",
                object={
                    "describedObject": DESCRIBED_OBJECT,
                    "metric": METRIC,
                    "target": {"type": "Value", "value": "1m"},
                },
            ),
            None,
        ),
        "External metric": (_metric("External", external={"metric": METRIC, "target": AVERAGE}), None),
        "scaling rules": (_scale_up(tolerance="0", selectPolicy="Disabled"), None),
        "ReplicationController without apiVersion": (
            {"scaleTargetRef": {"kind": "ReplicationController", "name": "r"}},
            None,
        ),
        "unchanged target kind without apiVersion": (
            {"scaleTargetRef": {"kind": "D", "name": "r"}},
            {"scaleTargetRef": {"kind": "D", "name": "d"}},
        ),
        "minReplicas 0 in the stored object": (
            {
                **_metric("External", external={"metric": METRIC, "target": AVERAGE}),
                "minReplicas": 0,
            },
            {"minReplicas": 0},
        ),
    },
)
def test_accepted_autoscalers(spec: Object, old_spec: Object | None) -> None:
    assert _errors(spec, old_spec) == []


MISSING_SOURCE = "Required value: must populate information for the given metric source"
KINDS = 'supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'


@cases(
    "spec, errors",
    {
        "minReplicas 0 and negative maxReplicas": (
            {"minReplicas": 0, "maxReplicas": -1},
            [
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to "
                "zero replicas",
            ],
        ),
        "maxReplicas 0": (
            {"maxReplicas": 0},
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            ],
        ),
        "core kind other than ReplicationController": (
            {"scaleTargetRef": {"kind": "ReplicaSet", "name": "r", "apiVersion": "v1"}},
            [f'spec.scaleTargetRef.apiVersion: Invalid value: "v1": {NO_GROUP}'],
        ),
        "empty name and invalid apiVersion": (
            {"scaleTargetRef": {"kind": "ReplicationController", "name": "", "apiVersion": "a/b/c"}},
            [
                "spec.scaleTargetRef.name: Required value",
                'spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            ],
        ),
        "missing metric type": (
            _metric(""),
            [
                f"{M}.type: Required value: must specify a metric source type",
                f'{M}.type: Unsupported value: "": {KINDS}',
                f'{M}.type: Unsupported value: "": {KINDS}',
            ],
        ),
        "missing metric source": (
            _metric("Pods", resource={"name": "cpu", "target": UTILIZATION}),
            [f"{M}.pods: {MISSING_SOURCE}"],
        ),
        "several metric sources": (
            _metric("Resource", resource={"name": "cpu", "target": UTILIZATION}, pods={}, external={}),
            [
                f"{M}.external.metric.name: Required value: must specify a metric name",
                f"{M}.external.target.type: Required value: must specify a metric target type",
                f'{M}.external.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue',
                f"{M}.external.target.averageValue: Required value: must set either a target value for metric or a "
                "per-pod target",
                f"{M}.external: Forbidden: must populate the given metric source only",
                f"{M}.pods: Forbidden: must populate the given metric source only",
            ],
        ),
        "Resource metric without name": (
            _metric("Resource", resource={"target": {"type": "Value", "value": "0", "averageValue": "-1"}}),
            [
                f"{M}.resource.name: Required value: must specify a resource name",
                f'{M}.resource.target.value: Invalid value: "0": must be positive',
                f'{M}.resource.target.averageValue: Invalid value: "-1": must be positive',
            ],
        ),
        "target without values": (
            _metric("Resource", resource={"name": "cpu", "target": {"type": "Utilization"}}),
            [
                f"{M}.resource.target.averageUtilization: Required value: must set either a target raw value or a "
                "target utilization"
            ],
        ),
        "target with two values": (
            _metric("Resource", resource={"name": "cpu", "target": {**AVERAGE, "averageUtilization": 0}}),
            [
                f"{M}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                f"{M}.resource.target.averageValue: Forbidden: may not set both a target raw value and a target "
                "utilization",
            ],
        ),
        "ContainerResource metric without container": (
            _metric("ContainerResource", containerResource={"name": "pods", "target": UTILIZATION}),
            [
                f'{M}.containerResource.name: Invalid value: "pods": must be a standard resource for containers',
                f"{M}.containerResource.container: Required value: must specify a container",
            ],
        ),
        "Pods metric with a Value target": (
            _metric("Pods", pods={"metric": {"name": "a/b"}, "target": {"type": "Value", "value": "1"}}),
            [
                f"{M}.pods.metric.name: Invalid value: \"a/b\": may not contain '/'",
                f"{M}.pods.target.averageValue: Required value: must specify a positive target averageValue",
            ],
        ),
        "Object metric with invalid described object": (
            _metric(
                "Object",
                object={
                    "describedObject": {"name": "a", "apiVersion": "a/b/c"},
                    "metric": METRIC,
                    "target": UTILIZATION,
                },
            ),
            [
                f"{M}.object.describedObject.kind: Required value",
                f'{M}.object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                f"{M}.object.target.averageValue: Required value: must set either a target value or averageValue",
            ],
        ),
        "External metric with two targets": (
            _metric("External", external={"metric": METRIC, "target": {**AVERAGE, "value": "1"}}),
            [f"{M}.external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"],
        ),
        "invalid scaling rules": (
            _scale_up(stabilizationWindowSeconds=-1, selectPolicy="X", policies=[], tolerance="-0.1"),
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to "
                "zero",
                'spec.behavior.scaleUp.selectPolicy: Unsupported value: "X": supported values: "Disabled", "Max", '
                '"Min"',
                "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
                'spec.behavior.scaleUp.tolerance: Invalid value: "-0.1": must be greater than or equal to 0',
            ],
        ),
        "windows and periods above the maximum": (
            _scale_up(
                stabilizationWindowSeconds=3601, policies=[{"type": "X"}, {"type": "Pods", "periodSeconds": 1801}]
            ),
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to "
                "3600",
                'spec.behavior.scaleUp.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods"',
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[1].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to "
                "1800",
            ],
        ),
    },
)
def test_rejected_autoscalers(spec: Object, errors: list[str]) -> None:
    assert _errors(spec) == errors


async def test_v1_is_validated_like_v2(api: Api) -> None:
    metrics = '[{"type": "Pods", "pods": {"metricName": "", "targetAverageValue": "1"}}]'
    annotations = {"autoscaling.alpha.kubernetes.io/metrics": metrics}
    meta = {"name": "h", "annotations": annotations}
    causes = (await api.post(V1, {"metadata": meta, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})).body[
        "details"
    ]["causes"]
    assert [cause["field"] for cause in causes] == [f"{M}.pods.metric.name"]


async def test_existing_autoscaler_without_a_group_can_be_updated(api: Api) -> None:
    key = "autoscaling/horizontalpodautoscalers/default/h"
    await api.create(V2, {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}})
    await api.rewrite(key, '"apps/v1"', '"v1"')
    other_target = {"scaleTargetRef": {"kind": "ReplicaSet"}}
    assert [(await api.patch(f"{V2}/h", {"spec": change})).status for change in ({"maxReplicas": 4}, other_target)] == [
        200,
        422,
    ]
