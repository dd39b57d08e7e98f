"""HorizontalPodAutoscalers: ``autoscaling/v1`` and ``v2`` are one kind of object, stored as v2.

After kubernetes' ``pkg/apis/autoscaling/{v1,v2}`` (v1.36). v1 knows one metric, the use of CPU; upstream keeps all
others in annotations of the v1 form; here a v1 client does not see them, and what it writes has no others.
"""

from functools import lru_cache
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.resources import ResourceInfo, built_in
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child, fill

_DEFAULT_UTILIZATION = 80


@lru_cache(maxsize=1)
def _stored() -> ResourceInfo:
    return next(info for info in built_in() if info.resource == "horizontalpodautoscalers" and info.version == "v2")


def _cpu(metrics: Any) -> Object | None:
    """The metric that v1 can say."""
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            return resource
    return None


def _cpu_metric(percent: int, field: str) -> Object:
    value: Object = {"averageUtilization": percent}
    if field == "target":
        value["type"] = "Utilization"
    return {"type": "Resource", "resource": {"name": "cpu", field: value}}


def _v2_status(status: Object) -> Object:
    shown = {"desiredReplicas": 0, "currentMetrics": None, **status}
    if not shown.get("currentReplicas"):
        shown.pop("currentReplicas", None)
    return shown


def _default_behavior(behavior: Object) -> None:
    """Both directions, as ``GenerateHPAScaleUpRules`` and ``GenerateHPAScaleDownRules`` fill them in."""
    up, down = child(behavior, "scaleUp"), child(behavior, "scaleDown")
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    fill(up, {"stabilizationWindowSeconds": 0})
    for rules, policies in ((up, [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]), (down, [percent])):
        fill(rules, {"selectPolicy": "Max"})
        if not rules.get("policies"):
            rules["policies"] = [dict(policy) for policy in policies]


class AutoscalerStrategy(Strategy):
    """One strategy for both versions: an object says itself which form it has."""

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if obj.get("apiVersion") == "autoscaling/v1":
            if spec.get("targetCPUUtilizationPercentage") is None:
                spec["targetCPUUtilizationPercentage"] = _DEFAULT_UTILIZATION
            return
        if not spec.get("metrics"):
            spec["metrics"] = [_cpu_metric(_DEFAULT_UTILIZATION, "target")]
        if spec.get("behavior") is not None:
            _default_behavior(spec["behavior"])

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        low, high = spec["minReplicas"], spec.get("maxReplicas") or 0
        if low < 1:
            problems.append(errors.invalid_value("spec.minReplicas", low, "must be greater than or equal to 1"))
            if not any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()):
                text = "must specify at least one Object or External metric to support scaling to zero replicas"
                problems.append(errors.not_allowed("spec.metrics", text))
        percent = spec.get("targetCPUUtilizationPercentage")
        if percent is not None and percent < 1:
            # The older form is judged as what it is stored as.
            path = "spec.metrics[0].resource.target.averageUtilization"
            problems.append(errors.invalid_value(path, percent, "must be greater than 0"))
        if high < 1:
            problems.append(errors.required("spec.maxReplicas", "must be set and greater than 0"))
        elif high < low:
            text = "must be greater than or equal to `minReplicas`"
            problems.append(errors.invalid_value("spec.maxReplicas", high, text))
        target = spec.get("scaleTargetRef") or {}
        problems += [
            errors.required(f"spec.scaleTargetRef.{field}") for field in ("kind", "name") if not target.get(field)
        ]
        if not target.get("apiVersion"):
            text = "apiVersion must specify API group"
            problems.append(errors.invalid_value("spec.scaleTargetRef.apiVersion", "", text))
        return problems

    def finish(self, obj: Object) -> None:
        # v1 prints both counts; v2 leaves out a current count of zero and prints metrics that are unset.
        status: Object = obj.get("status") or {}
        if obj.get("apiVersion") == "autoscaling/v1":
            obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
        else:
            obj["status"] = _v2_status(status)

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return _stored()

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        if info.version != "v1":
            return obj
        spec, status = dict(obj.get("spec") or {}), dict(obj.get("status") or {})
        wanted = spec.pop("targetCPUUtilizationPercentage", None)
        found = status.pop("currentCPUUtilizationPercentage", None)
        if wanted is not None:
            spec["metrics"] = [_cpu_metric(wanted, "target")]
        if found is not None:
            status["currentMetrics"] = [_cpu_metric(found, "current")]
        return {"metadata": obj["metadata"], "spec": spec, "status": _v2_status(status)}

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        obj = decode(value)
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        wanted = _cpu(spec.pop("metrics", None))
        found = _cpu(status.pop("currentMetrics", None))
        spec.pop("behavior", None)
        status.pop("conditions", None)
        status.setdefault("currentReplicas", 0)
        if wanted is not None and "averageUtilization" in (wanted.get("target") or {}):
            spec["targetCPUUtilizationPercentage"] = wanted["target"]["averageUtilization"]
        if found is not None and "averageUtilization" in (found.get("current") or {}):
            status["currentCPUUtilizationPercentage"] = found["current"]["averageUtilization"]
        return encode_object(info, {"metadata": obj["metadata"], "spec": spec, "status": status})
