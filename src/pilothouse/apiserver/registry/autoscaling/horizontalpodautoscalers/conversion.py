"""Conversion of HorizontalPodAutoscalers between v2, the storage version, and v1, which has a field for one metric
only.

The other fields of v2 are round-tripped through annotations of v1. After kubernetes'
``pkg/apis/autoscaling/v1/conversion.go``, ``annotations.go`` and ``helpers.go`` (v1.36). Pure: arguments are not
changed.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from pilothouse.api.autoscaling import HorizontalPodAutoscalerBehavior, MetricSpec
from pilothouse.apiserver.objects import Object, encode
from pilothouse.machinery.quantities import QuantityError, parse_quantity

METRICS = "autoscaling.alpha.kubernetes.io/metrics"
BEHAVIOR = "autoscaling.alpha.kubernetes.io/behavior"
UP_TOLERANCE = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
DOWN_TOLERANCE = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"

SPEC_ANNOTATIONS = (METRICS, BEHAVIOR, UP_TOLERANCE, DOWN_TOLERANCE)
STATUS_ANNOTATIONS = (CURRENT_METRICS, CONDITIONS)

DEFAULT_UTILIZATION = 80

_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def drop_round_trip_annotations(meta: Object) -> Object:
    """The metadata without the annotations for fields of v2 (``DropRoundTripHorizontalPodAutoscalerAnnotations``)."""
    annotations: Object = meta.get("annotations") or {}
    if not any(name in annotations for name in (*SPEC_ANNOTATIONS, *STATUS_ANNOTATIONS)):
        return meta
    remaining = {
        name: value
        for name, value in annotations.items()
        if name not in SPEC_ANNOTATIONS and name not in STATUS_ANNOTATIONS
    }
    return {**meta, "annotations": remaining}


def drop_derived_metrics(obj: Object) -> None:
    """Drop the annotation for current metrics from a v1 object if it has only the metric of the field.

    For a metric without an average the annotation has ``currentAverageValue: "0"``, which would be stored as a reported
    average.
    """
    annotations: Object = obj["metadata"].get("annotations") or {}
    percent = (obj.get("status") or {}).get("currentCPUUtilizationPercentage")
    if percent is None or CURRENT_METRICS not in annotations:
        return
    if annotations[CURRENT_METRICS] == _go_json([_metric_to_v1(cpu_metric(percent, "current"), "current")]):
        obj["metadata"]["annotations"] = {name: value for name, value in annotations.items() if name != CURRENT_METRICS}


def metrics_from_annotation(meta: Object) -> list[Object]:
    """The metrics in the annotation of a v1 object, converted to v2; [] if the annotation is missing or invalid."""
    metrics = [_convert_metric(metric, _source_from_v1) for metric in _objects_from_annotation(meta, METRICS) or ()]
    quantities = [
        metric[source]["target"].get(field)
        for metric in metrics
        for source in _SOURCES
        if source in metric
        for field in ("value", "averageValue")
    ]
    return metrics if _is_valid(metrics, list[MetricSpec], quantities) else []


def cpu_metric(percent: Any, field: str) -> Object:
    """The v2 metric for v1's CPU utilization field. ``field``: "target", or "current" in a status."""
    value: Object = {"averageUtilization": percent}
    if field == "target":
        value = {"type": "Utilization", **value}
    return {"type": "Resource", "resource": {"name": "cpu", field: value}}


def to_v2(obj: Object) -> Object:
    """Convert a v1 object to v2, without kind and apiVersion."""
    meta = obj["metadata"]
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics = metrics_from_annotation(meta)
    target_utilization = spec.pop("targetCPUUtilizationPercentage", None)
    if target_utilization is not None:
        metrics.append(cpu_metric(target_utilization, "target"))
    spec["metrics"] = metrics or [cpu_metric(DEFAULT_UTILIZATION, "target")]
    behavior = _behavior_from_annotation(_annotation_text(meta, BEHAVIOR))
    if behavior:
        spec["behavior"] = behavior
    current_utilization = status.pop("currentCPUUtilizationPercentage", None)
    if current_utilization is not None:
        status["currentMetrics"] = [cpu_metric(current_utilization, "current")]
    annotation_metrics = _objects_from_annotation(meta, CURRENT_METRICS)
    if annotation_metrics is not None:
        # The annotation overrides the field.
        status["currentMetrics"] = [_convert_metric(metric, _status_from_v1) for metric in annotation_metrics]
    conditions = _objects_from_annotation(meta, CONDITIONS)
    if conditions is not None:
        status["conditions"] = conditions
    return {"metadata": drop_round_trip_annotations(meta), "spec": spec, "status": status}


def to_v1(obj: Object) -> Object:
    """Convert a v2 object to v1, without kind and apiVersion."""
    meta = drop_round_trip_annotations(obj["metadata"])
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    annotations: dict[str, Any] = {}
    metrics = spec.pop("metrics", None) or ()
    # The field has the first CPU metric; no CPU metric with a percentage is added to the annotation.
    first_cpu = next((metric for metric in metrics if _is_cpu(metric)), None)
    if first_cpu is not None and (percent := _average_utilization(first_cpu, "target")) is not None:
        spec["targetCPUUtilizationPercentage"] = percent
    other_metrics = [_metric_to_v1(m) for m in metrics if not _is_cpu(m) or _average_utilization(m, "target") is None]
    if other_metrics:
        annotations[METRICS] = other_metrics
    current_metrics = status.pop("currentMetrics", None) or ()
    if current_metrics:
        annotations[CURRENT_METRICS] = [_metric_to_v1(metric, "current") for metric in current_metrics]
    for metric in current_metrics:
        if _is_cpu(metric) and (percent := _average_utilization(metric, "current")) is not None:
            status["currentCPUUtilizationPercentage"] = percent
    behavior = spec.pop("behavior", None)
    if behavior is not None:
        annotations[BEHAVIOR] = _behavior_to_go(behavior)
    conditions = status.pop("conditions", None)
    if conditions:
        annotations[CONDITIONS] = conditions
    if annotations:
        encoded_annotations = {name: _go_json(value) for name, value in annotations.items()}
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **encoded_annotations}}
    return {"metadata": meta, "spec": spec, "status": status}


def _is_cpu(metric: Object) -> bool:
    return metric.get("type") == "Resource" and (metric.get("resource") or {}).get("name") == "cpu"


def _average_utilization(metric: Object, field: str) -> Any:
    return (metric["resource"].get(field) or {}).get("averageUtilization")


def _annotation_text(meta: Object, name: str) -> str:
    value = (meta.get("annotations") or {}).get(name)
    return value if isinstance(value, str) else ""


def _decode_annotation(text: str) -> Any:
    """The decoded JSON of an annotation; None if it is missing or invalid, as upstream."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def _is_valid(value: Any, type_: Any, quantities: Iterable[Any]) -> bool:
    """Whether the value of an annotation, and the quantities in it, are valid for the type of the fields in v2."""
    try:
        msgspec.convert(value, type_)
        for quantity in quantities:
            if quantity is not None:
                parse_quantity(quantity)
    except (msgspec.ValidationError, QuantityError):
        return False
    return True


def _objects_from_annotation(meta: Object, name: str) -> list[Object] | None:
    """The list of objects in an annotation; None if it is missing or invalid."""
    value = _decode_annotation(_annotation_text(meta, name))
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    return value


def _go_json(value: Any) -> str:
    """Encode as Go's ``json.Marshal``, which escapes HTML characters."""
    return encode(value).decode().replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _object_field(obj: Object, name: str) -> Object:
    value = obj.get(name)
    return value if isinstance(value, dict) else {}


def _omit_none(**fields: Any) -> Object:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def _convert_metric(metric: Object, convert: Callable[[str, Object], Object]) -> Object:
    """A metric with its source converted; ``convert`` gets the name of the source and the source."""
    sources = {
        source_name: metric[source_name] for source_name in _SOURCES if isinstance(metric.get(source_name), dict)
    }
    return {"type": metric.get("type", "")} | {
        source_name: convert(source_name, source) for source_name, source in sources.items()
    }


def _metric_to_v1(metric: Object, field: Literal["target", "current"] = "target") -> Object:
    """A v2 metric of a spec or, with "current", of a status in the format of v1's annotation."""
    is_status = field == "current"

    def source_to_v1(source_name: str, source: Object) -> Object:
        identifier, values = _object_field(source, "metric"), _object_field(source, field)
        value, average = values.get("value"), values.get("averageValue")
        name, selector = identifier.get("name", ""), identifier.get("selector")
        if source_name == "object":
            described_object = _reference(_object_field(source, "describedObject"))
            value_fields = {f"{field}Value": value or "0"}
            return _omit_none(
                target=described_object, metricName=name, **value_fields, selector=selector, averageValue=average
            )
        if source_name == "pods":
            return _omit_none(metricName=name, **{f"{field}AverageValue": average or "0"}, selector=selector)
        if source_name == "external":
            value_fields = {f"{field}Value": value or ("0" if is_status else value), f"{field}AverageValue": average}
            return _omit_none(metricName=name, metricSelector=selector, **value_fields)
        value_fields = {f"{field}AverageUtilization": values.get("averageUtilization")}
        value_fields[f"{field}AverageValue"] = average or ("0" if is_status else average)
        return _omit_none(name=source.get("name", ""), **value_fields) | _container(source_name, source)

    return _convert_metric(metric, source_to_v1)


def _source_from_v1(source_name: str, source: Object) -> Object:
    value, average = source.get("targetValue"), source.get("targetAverageValue")
    if source_name == "object":
        average = source.get("averageValue")
        kind = "Value" if average is None else "AverageValue"
        return {
            "describedObject": _reference(_object_field(source, "target")),
            "target": _omit_none(type=kind, value=_target_value(value, average), averageValue=average),
            "metric": _identifier(source, "selector"),
        }
    if source_name == "pods":
        target = {"type": "AverageValue", "averageValue": average or "0"}
        return {"metric": _identifier(source, "selector"), "target": target}
    if source_name == "external":
        kind = "AverageValue" if value is None else "Value"
        target = _omit_none(type=kind, value=value, averageValue=average)
        return {"metric": _identifier(source, "metricSelector"), "target": target}
    percent = source.get("targetAverageUtilization")
    kind = "AverageValue" if percent is None else "Utilization"
    target = _omit_none(type=kind, averageValue=average, averageUtilization=percent)
    return {"name": source.get("name", ""), "target": target, **_container(source_name, source)}


def _target_value(value: Any, average: Any) -> Any:
    """``targetValue`` is required in v1: if there is an average, zero means unset."""
    value = value or "0"
    if average is None:
        return value
    try:
        return None if parse_quantity(value) == parse_quantity("0") else value
    except QuantityError:
        return value  # the annotation is then ignored as invalid


def _status_from_v1(source_name: str, source: Object) -> Object:
    value, average = source.get("currentValue") or "0", source.get("currentAverageValue")
    if source_name == "object":
        return {
            "metric": _identifier(source, "selector"),
            "current": _omit_none(value=value, averageValue=source.get("averageValue")),
            "describedObject": _reference(_object_field(source, "target")),
        }
    if source_name == "pods":
        return {"metric": _identifier(source, "selector"), "current": {"averageValue": average or "0"}}
    if source_name == "external":
        return {
            "metric": _identifier(source, "metricSelector"),
            "current": _omit_none(value=value, averageValue=average),
        }
    current = _omit_none(averageValue=average or "0", averageUtilization=source.get("currentAverageUtilization"))
    return {"name": source.get("name", ""), "current": current, **_container(source_name, source)}


def _container(source_name: str, source: Object) -> Object:
    return {"container": source.get("container", "")} if source_name == "containerResource" else {}


def _identifier(source: Object, selector: str) -> Object:
    return _omit_none(name=source.get("metricName", ""), selector=source.get(selector))


def _reference(reference: Object) -> Object:
    return _omit_none(
        kind=reference.get("kind", ""), name=reference.get("name", ""), apiVersion=reference.get("apiVersion") or None
    )


def _behavior_to_go(behavior: Object) -> Object:
    """The annotation has upstream's internal type, which has no JSON tags: keys are Go's field names, and no field is
    omitted."""
    return {"ScaleUp": _rules_to_go(behavior.get("scaleUp")), "ScaleDown": _rules_to_go(behavior.get("scaleDown"))}


def _rules_to_go(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    policies = rules.get("policies")
    go_policies = policies and [
        {"Type": p.get("type", ""), "Value": p.get("value", 0), "PeriodSeconds": p.get("periodSeconds", 0)}
        for p in policies
    ]
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": go_policies,
        "Tolerance": rules.get("tolerance"),
    }


def _behavior_from_annotation(text: str) -> Object:
    decoded = _decode_annotation(text)
    if not isinstance(decoded, dict):
        return {}
    named = {_wire_name(name): rules for name, rules in decoded.items()}
    behavior = {
        name: _rules_from_go(named[name]) for name in ("scaleUp", "scaleDown") if isinstance(named.get(name), dict)
    }
    tolerances = [rules.get("tolerance") for rules in behavior.values()]
    return behavior if _is_valid(behavior, HorizontalPodAutoscalerBehavior, tolerances) else {}


def _rules_from_go(rules: Object) -> Object:
    converted = {_wire_name(name): value for name, value in rules.items() if value is not None}
    if isinstance(converted.get("policies"), list):
        converted["policies"] = [
            {_wire_name(name): value for name, value in policy.items()}
            for policy in converted["policies"]
            if isinstance(policy, dict)
        ]
    return converted


def _wire_name(name: str) -> str:
    return name[:1].lower() + name[1:]
