"""HorizontalPodAutoscalers."""

from collections.abc import Sequence
from functools import lru_cache

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.registry.generic.object_fields import (
    ensure_object,
    set_default_fields,
    validate_nonnegative_fields,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo, built_in
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.autoscaling.horizontalpodautoscalers import conversion as autoscaler_conversion
    from pilothouse.apiserver.registry.autoscaling.horizontalpodautoscalers import (
        printers as horizontal_pod_autoscaler_printers,
    )
    from pilothouse.apiserver.registry.autoscaling.horizontalpodautoscalers import validation as autoscaler_validation


@lru_cache(maxsize=1)
def _storage_info() -> ResourceInfo:
    return next(info for info in built_in() if info.resource == "horizontalpodautoscalers" and info.version == "v2")


def _is_v1(obj: Object) -> bool:
    return obj.get("apiVersion") == "autoscaling/v1"


def _validate(obj: Object, old: Object | None) -> ErrorList:
    return autoscaler_validation.validate_horizontal_pod_autoscaler_spec(
        _to_v2(obj)["spec"], None if old is None else _to_v2(old)["spec"]
    )


def _to_v2(obj: Object) -> Object:
    """The object in v2, in which all versions are validated."""
    return autoscaler_conversion.to_v2(obj) if _is_v1(obj) else obj


def _keep_annotations(obj: Object, old: Object, names: Sequence[str]) -> None:
    """Reset these annotations of a v1 object to the stored ones: the write does not change the fields that are encoded
    in them."""
    meta = obj["metadata"]
    old_annotations = (old.get("metadata") or {}).get("annotations") or {}
    annotations = meta.get("annotations") or {}
    if any(name in old_annotations or name in annotations for name in names):
        other_annotations = {name: value for name, value in annotations.items() if name not in names}
        meta["annotations"] = other_annotations | {
            name: old_annotations[name] for name in names if name in old_annotations
        }


def _v2_status(status: Object) -> Object:
    v2_status = {"desiredReplicas": 0, "currentMetrics": None, **status}
    if not v2_status.get("currentReplicas"):
        v2_status.pop("currentReplicas", None)
    return v2_status


def _default_behavior(behavior: Object) -> None:
    """Set defaults of both directions (``GenerateHPAScaleUpRules``, ``GenerateHPAScaleDownRules``)."""
    scale_up, scale_down = ensure_object(behavior, "scaleUp"), ensure_object(behavior, "scaleDown")
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    set_default_fields(scale_up, {"stabilizationWindowSeconds": 0})
    for rules, policies in (
        (scale_up, [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]),
        (scale_down, [percent]),
    ):
        set_default_fields(rules, {"selectPolicy": "Max"})
        if not rules.get("policies"):
            rules["policies"] = [dict(policy) for policy in policies]


class HorizontalPodAutoscalerStrategy(Strategy):
    """The strategy of both versions; objects have their ``apiVersion``."""

    def set_defaults(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        meta: Object = obj["metadata"]
        if _is_v1(obj):
            if spec.get("targetCPUUtilizationPercentage") is None and not autoscaler_conversion.metrics_from_annotation(
                meta
            ):
                spec["targetCPUUtilizationPercentage"] = autoscaler_conversion.DEFAULT_UTILIZATION
            return
        # v2 has fields for the values of these annotations.
        if meta.get("annotations"):
            meta["annotations"] = autoscaler_conversion.drop_round_trip_annotations(meta)["annotations"]
        if not spec.get("metrics"):
            spec["metrics"] = [autoscaler_conversion.cpu_metric(autoscaler_conversion.DEFAULT_UTILIZATION, "target")]
        if spec.get("behavior") is not None:
            _default_behavior(spec["behavior"])

    def prepare_for_create(self, obj: Object, now: str) -> None:
        if _is_v1(obj):
            _keep_annotations(obj, {}, autoscaler_conversion.STATUS_ANNOTATIONS)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        if _is_v1(obj):
            _keep_annotations(obj, old, autoscaler_conversion.STATUS_ANNOTATIONS)
            autoscaler_conversion.drop_derived_metrics(obj)

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        if _is_v1(obj):
            _keep_annotations(obj, old, autoscaler_conversion.SPEC_ANNOTATIONS)

    def round_tripped(self, obj: Object) -> Object:
        if not _is_v1(obj) or (obj.get("status") or {}).get("currentCPUUtilizationPercentage") is None:
            return obj
        annotations = autoscaler_conversion.to_v1(autoscaler_conversion.to_v2(obj))["metadata"].get("annotations") or {}
        return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}

    def validate(self, obj: Object) -> ErrorList:
        return _validate(obj, None)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return _validate(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_nonnegative_fields(obj.get("status") or {}, "status", ("currentReplicas", "desiredReplicas"))

    def canonicalize(self, obj: Object) -> None:
        # v1 serializes both counts; v2 omits a current count of zero and serializes unset metrics as null.
        status: Object = obj.get("status") or {}
        if _is_v1(obj):
            obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
        else:
            obj["status"] = _v2_status(status)

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return _storage_info()

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        if info.version != "v1":
            return obj
        converted = autoscaler_conversion.to_v2(obj)
        return {**converted, "status": _v2_status(converted["status"])}

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        converted = autoscaler_conversion.to_v1(decode(value))
        return encode_object(info, {**converted, "status": {"currentReplicas": 0, **converted["status"]}})


REGISTRATION = Registration(
    HorizontalPodAutoscalerStrategy(),
    printer=lambda: horizontal_pod_autoscaler_printers.PRINTER,
)
