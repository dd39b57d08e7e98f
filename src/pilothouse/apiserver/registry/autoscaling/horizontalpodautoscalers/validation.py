"""Validation of HorizontalPodAutoscalers, in the form of v2.

After kubernetes' ``pkg/apis/autoscaling/validation/validation.go``, with the options that
``pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`` sets (v1.36). Pure.
"""

from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported, of_named_type, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import container_resource_name_errors
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE
from pilothouse.machinery.names import dns_label_errors, path_segment_errors
from pilothouse.machinery.quantities import parse_quantity

_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_KINDS = sorted(_SOURCES)
_MAX_PERIOD_SECONDS, _MAX_STABILIZATION_WINDOW_SECONDS = 1800, 3600
_SELECT_POLICIES = ("Disabled", "Max", "Min")
_POLICY_TYPES = ("Percent", "Pods")
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_NO_TARGET = "must set either a target raw value or a target utilization"
_BOTH_TARGETS = "may not set both a target raw value and a target utilization"
_NO_GROUP = "apiVersion must specify API group"


def validate_horizontal_pod_autoscaler_spec(spec: Object, old_spec: Object | None) -> ErrorList:
    """The errors in a spec; ``old_spec`` is the stored one, None on create. Some unchanged invalid values are
    accepted."""
    min_replicas, max_replicas = spec["minReplicas"], spec.get("maxReplicas") or 0
    metrics, behavior = spec.get("metrics") or (), spec.get("behavior")
    errors: ErrorList = []
    # The gate HPAScaleToZero is off: zero is accepted only if the stored object has it.
    minimum = 0 if old_spec is not None and old_spec.get("minReplicas") == 0 else 1
    if min_replicas < minimum:
        errors.append(invalid("spec.minReplicas", min_replicas, f"must be greater than or equal to {minimum}"))
    if max_replicas == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif max_replicas < 0:
        errors.append(invalid("spec.maxReplicas", max_replicas, "must be greater than or equal to 1"))
    if max_replicas < min_replicas:
        errors.append(invalid("spec.maxReplicas", max_replicas, "must be greater than or equal to `minReplicas`"))
    errors += _validate_scale_target_ref(spec.get("scaleTargetRef") or {}, old_spec)
    allow_invalid_api_version = old_spec is not None and any(
        map(_has_invalid_object_api_version, old_spec.get("metrics") or ())
    )
    for position, metric in enumerate(metrics):
        errors += _validate_metric(
            metric, f"spec.metrics[{position}]", allow_invalid_api_version=allow_invalid_api_version
        )
    if min_replicas == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", detail))
    for direction in ("scaleUp", "scaleDown"):
        rules: Object | None = (behavior or {}).get(direction)
        if rules is not None:
            errors += _validate_rules(rules, f"spec.behavior.{direction}")
    return errors


# Scale target and metrics


def _validate_scale_target_ref(target: Object, old_spec: Object | None) -> ErrorList:
    path = "spec.scaleTargetRef"
    all_errors = _validate_path_segments(target, path, ("kind", "name"))
    old_target: Object = (old_spec or {}).get("scaleTargetRef") or {}
    version, kind = target.get("apiVersion") or "", target.get("kind")
    if old_spec is not None and version == (old_target.get("apiVersion") or "") and kind == old_target.get("kind"):
        return all_errors
    detail = _group_version_error(version)
    # ReplicationControllers are the only scalable kind of the core group.
    if not detail and not version.rpartition("/")[0] and kind != "ReplicationController":
        detail = _NO_GROUP
    return all_errors + ([invalid(f"{path}.apiVersion", version, detail)] if detail else [])


def _group_version_error(version: str) -> str:
    """The error of ``schema.ParseGroupVersion``; "" if there is none."""
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _has_invalid_object_api_version(metric: Object) -> bool:
    described_object: Object = (metric.get("object") or {}).get("describedObject") or {}
    return metric.get("type") == "Object" and _group_version_error(described_object.get("apiVersion") or "") != ""


def _validate_path_segments(obj: Object, path: str, fields: tuple[str, ...], detail: str = "") -> ErrorList:
    """The errors in required fields that are path segments."""
    errors: ErrorList = []
    for field in fields:
        value = obj.get(field) or ""
        if not value:
            errors.append(required(f"{path}.{field}", detail))
        else:
            errors += [invalid(f"{path}.{field}", value, msg) for msg in path_segment_errors(value)]
    return errors


def _validate_metric(metric: Object, path: str, *, allow_invalid_api_version: bool) -> ErrorList:
    kind = metric.get("type") or ""
    errors: ErrorList = []
    unknown = [not_supported(f"{path}.type", kind, _KINDS)] if kind not in _SOURCES else []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    errors += unknown
    present = [source for source in _SOURCES.values() if metric.get(source) is not None]
    if present:
        # Only the first is validated; the others are rejected below.
        errors += _validate_source(
            present[0], metric[present[0]], f"{path}.{present[0]}", allow_invalid_api_version=allow_invalid_api_version
        )
    expected = _SOURCES.get(kind)
    if expected is not None and expected not in present:
        errors.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    errors += unknown
    unexpected = [source for source in present if source != expected] if len(present) > 1 else []
    return errors + [
        forbidden(f"{path}.{source}", "must populate the given metric source only") for source in unexpected
    ]


def _validate_source(source_name: str, source: Object, path: str, *, allow_invalid_api_version: bool) -> ErrorList:
    target: Object = source.get("target") or {}
    child_path = f"{path}.target"
    value, average, utilization = target.get("value"), target.get("averageValue"), target.get("averageUtilization")
    errors: ErrorList = []
    if source_name == "object":
        described_object: Object = source.get("describedObject") or {}
        errors += _validate_path_segments(described_object, f"{path}.describedObject", ("kind", "name"))
        version = described_object.get("apiVersion") or ""
        detail = "" if allow_invalid_api_version else _group_version_error(version)
        if detail:
            errors.append(invalid(f"{path}.describedObject.apiVersion", version, detail))
    if source_name in ("resource", "containerResource"):
        errors += _validate_resource(source_name, source, path) + _validate_target(target, child_path)
        if utilization is None and average is None:
            errors.append(required(f"{child_path}.averageUtilization", _NO_TARGET))
        elif utilization is not None and average is not None:
            errors.append(forbidden(f"{child_path}.averageValue", _BOTH_TARGETS))
        return errors
    errors += _validate_path_segments(
        source.get("metric") or {}, f"{path}.metric", ("name",), "must specify a metric name"
    )
    errors += _validate_target(target, child_path)
    average_value_path = f"{child_path}.averageValue"
    if source_name == "pods" and average is None:
        errors.append(required(average_value_path, "must specify a positive target averageValue"))
    elif source_name == "object" and value is None and average is None:
        errors.append(required(average_value_path, "must set either a target value or averageValue"))
    elif source_name == "external" and value is None and average is None:
        errors.append(required(average_value_path, "must set either a target value for metric or a per-pod target"))
    elif source_name == "external" and value is not None and average is not None:
        errors.append(
            forbidden(f"{child_path}.value", "may not set both a target value for metric and a per-pod target")
        )
    return errors


def _validate_resource(source_name: str, source: Object, path: str) -> ErrorList:
    name, container = source.get("name") or "", source.get("container") or ""
    errors: ErrorList = []
    if not name:
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if source_name == "resource":
        return errors
    if name:
        errors += [invalid(f"{path}.name", name, msg) for msg in container_resource_name_errors(name)]
    if not container:
        return [*errors, required(f"{path}.container", "must specify a container")]
    return errors + [invalid(f"{path}.container", container, msg) for msg in dns_label_errors(container)]


def _validate_target(target: Object, path: str) -> ErrorList:
    kind, utilization = target.get("type") or "", target.get("averageUtilization")
    errors: ErrorList = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGET_TYPES:
        errors.append(
            invalid(f"{path}.type", of_named_type(kind), "must be either Utilization, Value, or AverageValue")
        )
    for field in ("value", "averageValue"):
        if target.get(field) is not None and _sign(target[field]) <= 0:
            errors.append(invalid(f"{path}.{field}", target[field], "must be positive"))
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _sign(quantity: Any) -> int:
    mantissa = parse_quantity(str(quantity)).mantissa
    return (mantissa > 0) - (mantissa < 0)


# Behavior


def _validate_rules(rules: Object, path: str) -> ErrorList:
    window, policies = rules.get("stabilizationWindowSeconds"), rules.get("policies")
    select_policy = rules.get("selectPolicy")
    errors: ErrorList = []
    child_path = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(child_path, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_STABILIZATION_WINDOW_SECONDS:
        errors.append(invalid(child_path, window, f"must be less than or equal to {_MAX_STABILIZATION_WINDOW_SECONDS}"))
    if select_policy is not None and select_policy not in _SELECT_POLICIES:
        errors.append(not_supported(f"{path}.selectPolicy", select_policy, _SELECT_POLICIES))
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for position, policy in enumerate(policies or ()):
        errors += _validate_policy(policy, f"{path}.policies[{position}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and _sign(tolerance) < 0:
        errors.append(invalid(f"{path}.tolerance", tolerance, NON_NEGATIVE))
    return errors


def _validate_policy(policy: Object, path: str) -> ErrorList:
    kind, period = policy.get("type") or "", policy.get("periodSeconds") or 0
    errors: ErrorList = []
    if kind not in _POLICY_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _POLICY_TYPES))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            errors.append(invalid(f"{path}.{field}", policy.get(field) or 0, "must be greater than zero"))
    if period > _MAX_PERIOD_SECONDS:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD_SECONDS}"))
    return errors
