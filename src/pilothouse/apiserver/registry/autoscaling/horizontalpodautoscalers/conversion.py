"""The two forms of a HorizontalPodAutoscaler: v2, in which it is stored, and v1, which knows one metric.

What v1 has no field for travels in its annotations, so that a client of v1 that sends back what it has read loses
nothing. After kubernetes' ``pkg/apis/autoscaling/v1/conversion.go``, ``annotations.go`` and ``helpers.go`` (v1.36).
Pure: arguments are not changed.
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

OF_SPEC = (METRICS, BEHAVIOR, UP_TOLERANCE, DOWN_TOLERANCE)
OF_STATUS = (CURRENT_METRICS, CONDITIONS)

DEFAULT_UTILIZATION = 80

_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def without_carried(meta: Object) -> Object:
    """The metadata without the annotations that stand for fields of v2."""
    annotations: Object = meta.get("annotations") or {}
    if not any(name in annotations for name in (*OF_SPEC, *OF_STATUS)):
        return meta
    left = {name: value for name, value in annotations.items() if name not in OF_SPEC and name not in OF_STATUS}
    return {**meta, "annotations": left}


def drop_derived_metrics(obj: Object) -> None:
    """Drop from a v1 object the annotation of current metrics where the field alone gives the same one.

    The annotation writes ``currentAverageValue: "0"`` for a metric without an average; read back, it would store an
    average that was not reported.
    """
    annotations: Object = obj["metadata"].get("annotations") or {}
    percent = (obj.get("status") or {}).get("currentCPUUtilizationPercentage")
    if percent is None or CURRENT_METRICS not in annotations:
        return
    if annotations[CURRENT_METRICS] == _go_json([_metric_of_v2(cpu_metric(percent, "current"), "current")]):
        obj["metadata"]["annotations"] = {name: text for name, text in annotations.items() if name != CURRENT_METRICS}


def carried_metrics(meta: Object) -> list[Object]:
    """The metrics, in the form of v2, that annotations of a v1 object stand for; what can't be read counts as none."""
    metrics = [_metric(metric, _source_of_v1) for metric in _objects(meta, METRICS) or ()]
    amounts = [
        metric[source]["target"].get(field)
        for metric in metrics
        for source in _SOURCES
        if source in metric
        for field in ("value", "averageValue")
    ]
    return metrics if _is_readable(metrics, list[MetricSpec], amounts) else []


def cpu_metric(percent: Any, field: str) -> Object:
    """The metric of v2 that v1 has a field for. ``field``: "target", or "current" in a status."""
    value: Object = {"averageUtilization": percent}
    if field == "target":
        value = {"type": "Utilization", **value}
    return {"type": "Resource", "resource": {"name": "cpu", field: value}}


def to_v2(obj: Object) -> Object:
    """A v1 object as v2 shows it, without kind and apiVersion."""
    meta = obj["metadata"]
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    metrics = carried_metrics(meta)
    desired = spec.pop("targetCPUUtilizationPercentage", None)
    if desired is not None:
        metrics.append(cpu_metric(desired, "target"))
    spec["metrics"] = metrics or [cpu_metric(DEFAULT_UTILIZATION, "target")]
    behavior = _behavior_of_text(_text(meta, BEHAVIOR))
    if behavior:
        spec["behavior"] = behavior
    found = status.pop("currentCPUUtilizationPercentage", None)
    if found is not None:
        status["currentMetrics"] = [cpu_metric(found, "current")]
    carried = _objects(meta, CURRENT_METRICS)
    if carried is not None:
        # They say more than the field does, and count even where the field says otherwise.
        status["currentMetrics"] = [_metric(metric, _status_of_v1) for metric in carried]
    conditions = _objects(meta, CONDITIONS)
    if conditions is not None:
        status["conditions"] = conditions
    return {"metadata": without_carried(meta), "spec": spec, "status": status}


def to_v1(obj: Object) -> Object:
    """A v2 object as v1 shows it, without kind and apiVersion."""
    meta = without_carried(obj["metadata"])
    spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
    carried: dict[str, Any] = {}
    metrics = spec.pop("metrics", None) or ()
    # Only the first metric of CPU counts for the field; all that have a percentage stay out of the annotation.
    first = next((metric for metric in metrics if _is_cpu(metric)), None)
    if first is not None and (percent := _percent(first, "target")) is not None:
        spec["targetCPUUtilizationPercentage"] = percent
    others = [_metric_of_v2(m) for m in metrics if not _is_cpu(m) or _percent(m, "target") is None]
    if others:
        carried[METRICS] = others
    found = status.pop("currentMetrics", None) or ()
    if found:
        carried[CURRENT_METRICS] = [_metric_of_v2(metric, "current") for metric in found]
    for metric in found:
        if _is_cpu(metric) and (percent := _percent(metric, "current")) is not None:
            status["currentCPUUtilizationPercentage"] = percent
    behavior = spec.pop("behavior", None)
    if behavior is not None:
        carried[BEHAVIOR] = _behavior_as_go(behavior)
    conditions = status.pop("conditions", None)
    if conditions:
        carried[CONDITIONS] = conditions
    if carried:
        texts = {name: _go_json(value) for name, value in carried.items()}
        meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **texts}}
    return {"metadata": meta, "spec": spec, "status": status}


def _is_cpu(metric: Object) -> bool:
    return metric.get("type") == "Resource" and (metric.get("resource") or {}).get("name") == "cpu"


def _percent(metric: Object, field: str) -> Any:
    return (metric["resource"].get(field) or {}).get("averageUtilization")


def _text(meta: Object, name: str) -> str:
    found = (meta.get("annotations") or {}).get(name)
    return found if isinstance(found, str) else ""


def _read(text: str) -> Any:
    """The JSON of an annotation; None for what is none, which upstream takes for absent."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def _is_readable(found: Any, type_: Any, amounts: Iterable[Any]) -> bool:
    """Whether what an annotation says has the types of the fields that it stands for."""
    try:
        msgspec.convert(found, type_)
        for amount in amounts:
            if amount is not None:
                parse_quantity(amount)
    except (msgspec.ValidationError, QuantityError):
        return False
    return True


def _objects(meta: Object, name: str) -> list[Object] | None:
    """A list of objects in an annotation; None when there is none that can be read."""
    found = _read(_text(meta, name))
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        return None
    return found


def _go_json(value: Any) -> str:
    """As Go's ``json.Marshal`` writes it, which keeps what means something in HTML out of its texts."""
    return encode(value).decode().replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _part(obj: Object, name: str) -> Object:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def _given(**fields: Any) -> Object:
    """The fields that there are."""
    return {name: value for name, value in fields.items() if value is not None}


def _metric(metric: Object, converted: Callable[[str, Object], Object]) -> Object:
    """A metric whose sources are converted, each by its name."""
    given = {source: metric[source] for source in _SOURCES if isinstance(metric.get(source), dict)}
    return {"type": metric.get("type", "")} | {source: converted(source, found) for source, found in given.items()}


def _metric_of_v2(metric: Object, field: Literal["target", "current"] = "target") -> Object:
    """A metric of a spec or, with "current", of a status as v1 writes it in its annotation."""
    is_status = field == "current"

    def shown(source: str, found: Object) -> Object:
        named, values = _part(found, "metric"), _part(found, field)
        value, average = values.get("value"), values.get("averageValue")
        name, selector = named.get("name", ""), named.get("selector")
        if source == "object":
            about = _reference(_part(found, "describedObject"))
            own = {f"{field}Value": value or "0"}
            return _given(target=about, metricName=name, **own, selector=selector, averageValue=average)
        if source == "pods":
            return _given(metricName=name, **{f"{field}AverageValue": average or "0"}, selector=selector)
        if source == "external":
            own = {f"{field}Value": value or ("0" if is_status else value), f"{field}AverageValue": average}
            return _given(metricName=name, metricSelector=selector, **own)
        own = {f"{field}AverageUtilization": values.get("averageUtilization")}
        own[f"{field}AverageValue"] = average or ("0" if is_status else average)
        return _given(name=found.get("name", ""), **own) | _container(source, found)

    return _metric(metric, shown)


def _source_of_v1(source: str, found: Object) -> Object:
    value, average = found.get("targetValue"), found.get("targetAverageValue")
    if source == "object":
        average = found.get("averageValue")
        kind = "Value" if average is None else "AverageValue"
        return {
            "describedObject": _reference(_part(found, "target")),
            "target": _given(type=kind, value=_target_value(value, average), averageValue=average),
            "metric": _identifier(found, "selector"),
        }
    if source == "pods":
        target = {"type": "AverageValue", "averageValue": average or "0"}
        return {"metric": _identifier(found, "selector"), "target": target}
    if source == "external":
        kind = "AverageValue" if value is None else "Value"
        target = _given(type=kind, value=value, averageValue=average)
        return {"metric": _identifier(found, "metricSelector"), "target": target}
    percent = found.get("targetAverageUtilization")
    kind = "AverageValue" if percent is None else "Utilization"
    target = _given(type=kind, averageValue=average, averageUtilization=percent)
    return {"name": found.get("name", ""), "target": target, **_container(source, found)}


def _target_value(value: Any, average: Any) -> Any:
    """v1 cannot omit the value: next to an average, zero means that it is unset."""
    value = value or "0"
    if average is None:
        return value
    try:
        return None if parse_quantity(value) == parse_quantity("0") else value
    except QuantityError:
        return value  # and the annotation is taken for unreadable


def _status_of_v1(source: str, found: Object) -> Object:
    value, average = found.get("currentValue") or "0", found.get("currentAverageValue")
    if source == "object":
        return {
            "metric": _identifier(found, "selector"),
            "current": _given(value=value, averageValue=found.get("averageValue")),
            "describedObject": _reference(_part(found, "target")),
        }
    if source == "pods":
        return {"metric": _identifier(found, "selector"), "current": {"averageValue": average or "0"}}
    if source == "external":
        return {"metric": _identifier(found, "metricSelector"), "current": _given(value=value, averageValue=average)}
    current = _given(averageValue=average or "0", averageUtilization=found.get("currentAverageUtilization"))
    return {"name": found.get("name", ""), "current": current, **_container(source, found)}


def _container(source: str, found: Object) -> Object:
    return {"container": found.get("container", "")} if source == "containerResource" else {}


def _identifier(found: Object, selector: str) -> Object:
    return _given(name=found.get("metricName", ""), selector=found.get(selector))


def _reference(found: Object) -> Object:
    return _given(kind=found.get("kind", ""), name=found.get("name", ""), apiVersion=found.get("apiVersion") or None)


def _behavior_as_go(behavior: Object) -> Object:
    """The annotation holds upstream's internal type, which has no names for JSON: they are Go's, and nothing is left
    out."""
    return {"ScaleUp": _rules_as_go(behavior.get("scaleUp")), "ScaleDown": _rules_as_go(behavior.get("scaleDown"))}


def _rules_as_go(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    policies = rules.get("policies")
    shown = policies and [
        {"Type": p.get("type", ""), "Value": p.get("value", 0), "PeriodSeconds": p.get("periodSeconds", 0)}
        for p in policies
    ]
    return {
        "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
        "SelectPolicy": rules.get("selectPolicy"),
        "Policies": shown,
        "Tolerance": rules.get("tolerance"),
    }


def _behavior_of_text(text: str) -> Object:
    found = _read(text)
    if not isinstance(found, dict):
        return {}
    named = {_wire_name(name): rules for name, rules in found.items()}
    made = {name: _rules_of_go(named[name]) for name in ("scaleUp", "scaleDown") if isinstance(named.get(name), dict)}
    tolerances = [rules.get("tolerance") for rules in made.values()]
    return made if _is_readable(made, HorizontalPodAutoscalerBehavior, tolerances) else {}


def _rules_of_go(rules: Object) -> Object:
    made = {_wire_name(name): value for name, value in rules.items() if value is not None}
    if isinstance(made.get("policies"), list):
        made["policies"] = [
            {_wire_name(name): value for name, value in policy.items()}
            for policy in made["policies"]
            if isinstance(policy, dict)
        ]
    return made


def _wire_name(name: str) -> str:
    return name[:1].lower() + name[1:]
