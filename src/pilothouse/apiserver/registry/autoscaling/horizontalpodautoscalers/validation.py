"""Validation of HorizontalPodAutoscalers, in the form of v2.

After kubernetes' ``pkg/apis/autoscaling/validation/validation.go``, with the options that
``pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`` sets (v1.36). Pure.
"""

from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, named, not_supported, required
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
_CHOICES = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_TARGETS = ("Utilization", "Value", "AverageValue")
_NO_RESOURCE = "must set either a target raw value or a target utilization"
_BOTH_OF_RESOURCE = "may not set both a target raw value and a target utilization"
_NO_GROUP = "apiVersion must specify API group"


def validate_horizontal_pod_autoscaler_spec(spec: Object, before: Object | None) -> ErrorList:
    """The errors in a spec; ``before`` is the stored one, None on create. Some unchanged invalid values are
    accepted."""
    low, high = spec["minReplicas"], spec.get("maxReplicas") or 0
    metrics, behavior = spec.get("metrics") or (), spec.get("behavior")
    errors: ErrorList = []
    # The gate HPAScaleToZero is off: zero is accepted only if the stored object has it.
    minimum = 0 if before is not None and before.get("minReplicas") == 0 else 1
    if low < minimum:
        errors.append(invalid("spec.minReplicas", low, f"must be greater than or equal to {minimum}"))
    if high == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if high < low:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    errors += _validate_scale_target_ref(spec.get("scaleTargetRef") or {}, before)
    tolerant = before is not None and any(map(_has_invalid_object_api_version, before.get("metrics") or ()))
    for position, metric in enumerate(metrics):
        errors += _validate_metric(metric, f"spec.metrics[{position}]", tolerant=tolerant)
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", detail))
    for direction in ("scaleUp", "scaleDown"):
        rules: Object | None = (behavior or {}).get(direction)
        if rules is not None:
            errors += _validate_rules(rules, f"spec.behavior.{direction}")
    return errors


# Scale target and metrics


def _validate_scale_target_ref(target: Object, before: Object | None) -> ErrorList:
    path = "spec.scaleTargetRef"
    all_errors = _validate_name(target, path, ("kind", "name"))
    known: Object = (before or {}).get("scaleTargetRef") or {}
    version, kind = target.get("apiVersion") or "", target.get("kind")
    if before is not None and version == (known.get("apiVersion") or "") and kind == known.get("kind"):
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
    described: Object = (metric.get("object") or {}).get("describedObject") or {}
    return metric.get("type") == "Object" and _group_version_error(described.get("apiVersion") or "") != ""


def _validate_name(obj: Object, path: str, fields: tuple[str, ...], detail: str = "") -> ErrorList:
    """The errors in required fields that are path segments."""
    errors: ErrorList = []
    for field in fields:
        value = obj.get(field) or ""
        if not value:
            errors.append(required(f"{path}.{field}", detail))
        else:
            errors += [invalid(f"{path}.{field}", value, msg) for msg in path_segment_errors(value)]
    return errors


def _validate_metric(metric: Object, path: str, *, tolerant: bool) -> ErrorList:
    kind = metric.get("type") or ""
    errors: ErrorList = []
    unknown = [not_supported(f"{path}.type", kind, _KINDS)] if kind not in _SOURCES else []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    errors += unknown
    present = [source for source in _SOURCES.values() if metric.get(source) is not None]
    if present:
        # Only the first is validated; the others are rejected below.
        errors += _validate_source(present[0], metric[present[0]], f"{path}.{present[0]}", tolerant=tolerant)
    desired = _SOURCES.get(kind)
    if desired is not None and desired not in present:
        errors.append(required(f"{path}.{desired}", "must populate information for the given metric source"))
    errors += unknown
    others = [source for source in present if source != desired] if len(present) > 1 else []
    return errors + [forbidden(f"{path}.{source}", "must populate the given metric source only") for source in others]


def _validate_source(source: str, found: Object, path: str, *, tolerant: bool) -> ErrorList:
    target: Object = found.get("target") or {}
    child_path = f"{path}.target"
    value, average, share = target.get("value"), target.get("averageValue"), target.get("averageUtilization")
    errors: ErrorList = []
    if source == "object":
        described: Object = found.get("describedObject") or {}
        errors += _validate_name(described, f"{path}.describedObject", ("kind", "name"))
        version = described.get("apiVersion") or ""
        detail = "" if tolerant else _group_version_error(version)
        if detail:
            errors.append(invalid(f"{path}.describedObject.apiVersion", version, detail))
    if source in ("resource", "containerResource"):
        errors += _validate_resource(source, found, path) + _validate_target(target, child_path)
        if share is None and average is None:
            errors.append(required(f"{child_path}.averageUtilization", _NO_RESOURCE))
        elif share is not None and average is not None:
            errors.append(forbidden(f"{child_path}.averageValue", _BOTH_OF_RESOURCE))
        return errors
    errors += _validate_name(found.get("metric") or {}, f"{path}.metric", ("name",), "must specify a metric name")
    errors += _validate_target(target, child_path)
    missing = f"{child_path}.averageValue"
    if source == "pods" and average is None:
        errors.append(required(missing, "must specify a positive target averageValue"))
    elif source == "object" and value is None and average is None:
        errors.append(required(missing, "must set either a target value or averageValue"))
    elif source == "external" and value is None and average is None:
        errors.append(required(missing, "must set either a target value for metric or a per-pod target"))
    elif source == "external" and value is not None and average is not None:
        errors.append(
            forbidden(f"{child_path}.value", "may not set both a target value for metric and a per-pod target")
        )
    return errors


def _validate_resource(source: str, found: Object, path: str) -> ErrorList:
    name, container = found.get("name") or "", found.get("container") or ""
    errors: ErrorList = []
    if not name:
        errors.append(required(f"{path}.name", "must specify a resource name"))
    if source == "resource":
        return errors
    if name:
        errors += [invalid(f"{path}.name", name, msg) for msg in container_resource_name_errors(name)]
    if not container:
        return [*errors, required(f"{path}.container", "must specify a container")]
    return errors + [invalid(f"{path}.container", container, msg) for msg in dns_label_errors(container)]


def _validate_target(target: Object, path: str) -> ErrorList:
    kind, share = target.get("type") or "", target.get("averageUtilization")
    errors: ErrorList = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        errors.append(invalid(f"{path}.type", named(kind), "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and _sign(target[field]) <= 0:
            errors.append(invalid(f"{path}.{field}", target[field], "must be positive"))
    if share is not None and share < 1:
        errors.append(invalid(f"{path}.averageUtilization", share, "must be greater than 0"))
    return errors


def _sign(amount: Any) -> int:
    mantissa = parse_quantity(str(amount)).mantissa
    return (mantissa > 0) - (mantissa < 0)


# Behavior


def _validate_rules(rules: Object, path: str) -> ErrorList:
    window, choice, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies")
    errors: ErrorList = []
    child_path = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(child_path, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_STABILIZATION_WINDOW_SECONDS:
        errors.append(invalid(child_path, window, f"must be less than or equal to {_MAX_STABILIZATION_WINDOW_SECONDS}"))
    if choice is not None and choice not in _CHOICES:
        errors.append(not_supported(f"{path}.selectPolicy", choice, _CHOICES))
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
    if kind not in _POLICIES:
        errors.append(not_supported(f"{path}.type", kind, _POLICIES))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            errors.append(invalid(f"{path}.{field}", policy.get(field) or 0, "must be greater than zero"))
    if period > _MAX_PERIOD_SECONDS:
        errors.append(invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_MAX_PERIOD_SECONDS}"))
    return errors
