"""What an autoscaler may be told: validation of the spec, in the form of v2.

After kubernetes' ``pkg/apis/autoscaling/validation/validation.go``, with the options that
``pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go`` sets (v1.36). Pure; ``autoscalers`` is the only caller.
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.amounts import container_resource_texts
from pilothouse.apiserver.strategies.filling import NON_NEGATIVE
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
_LONGEST_PERIOD, _LONGEST_WINDOW = 1800, 3600
_CHOICES = ("Disabled", "Max", "Min")
_POLICIES = ("Percent", "Pods")
_TARGETS = ("Utilization", "Value", "AverageValue")
_NO_RESOURCE = "must set either a target raw value or a target utilization"
_BOTH_OF_RESOURCE = "may not set both a target raw value and a target utilization"
_NO_GROUP = "apiVersion must specify API group"


def autoscaler_problems(spec: Object, before: Object | None) -> list[FieldError]:
    """What is wrong with a spec; ``before`` is the stored one, if there is one. What was there may stay."""
    low, high = spec["minReplicas"], spec.get("maxReplicas") or 0
    metrics, behavior = spec.get("metrics") or (), spec.get("behavior")
    problems: list[FieldError] = []
    # Nothing scales to zero but what did before it was given up.
    least = 0 if before is not None and before.get("minReplicas") == 0 else 1
    if low < least:
        problems.append(errors.invalid_value("spec.minReplicas", low, f"must be greater than or equal to {least}"))
    if high == 0:
        problems.append(errors.required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        problems.append(errors.invalid_value("spec.maxReplicas", high, "must be greater than 0"))
    if high < low:
        text = "must be greater than or equal to `minReplicas`"
        problems.append(errors.invalid_value("spec.maxReplicas", high, text))
    problems += _scaled_problems(spec.get("scaleTargetRef") or {}, before)
    tolerant = before is not None and any(map(_is_about_nothing, before.get("metrics") or ()))
    for position, metric in enumerate(metrics):
        problems += _metric_problems(metric, f"spec.metrics[{position}]", tolerant=tolerant)
    if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        problems.append(errors.not_allowed("spec.metrics", text))
    for direction in ("scaleUp", "scaleDown"):
        rules: Object | None = (behavior or {}).get(direction)
        if rules is not None:
            problems += _rules_problems(rules, f"spec.behavior.{direction}")
    return problems


# What is scaled, and what is measured


def _scaled_problems(target: Object, before: Object | None) -> list[FieldError]:
    path = "spec.scaleTargetRef"
    problems = _name_problems(target, path, ("kind", "name"))
    known: Object = (before or {}).get("scaleTargetRef") or {}
    version, kind = target.get("apiVersion") or "", target.get("kind")
    if before is not None and version == (known.get("apiVersion") or "") and kind == known.get("kind"):
        return problems
    told = _version_text(version)
    # Of the core group only these can be scaled.
    if not told and not version.rpartition("/")[0] and kind != "ReplicationController":
        told = _NO_GROUP
    return problems + ([errors.invalid_value(f"{path}.apiVersion", version, told)] if told else [])


def _version_text(version: str) -> str:
    """Why it is no group and version (``schema.ParseGroupVersion``)."""
    return f"unexpected GroupVersion string: {version}" if version.count("/") > 1 else ""


def _is_about_nothing(metric: Object) -> bool:
    about: Object = (metric.get("object") or {}).get("describedObject") or {}
    return metric.get("type") == "Object" and _version_text(about.get("apiVersion") or "") != ""


def _name_problems(obj: Object, path: str, fields: tuple[str, ...], told: str = "") -> list[FieldError]:
    """Names that become parts of paths."""
    problems: list[FieldError] = []
    for field in fields:
        value = obj.get(field) or ""
        if not value:
            problems.append(errors.required(f"{path}.{field}", told))
        problems += [errors.invalid_value(f"{path}.{field}", value, text) for text in path_segment_errors(value)]
    return problems


def _metric_problems(metric: Object, path: str, *, tolerant: bool) -> list[FieldError]:
    kind = metric.get("type") or ""
    problems: list[FieldError] = []
    unknown = [errors.not_supported(f"{path}.type", kind, _KINDS)] if kind not in _SOURCES else []
    if not kind:
        problems.append(errors.required(f"{path}.type", "must specify a metric source type"))
    problems += unknown
    present = [source for source in _SOURCES.values() if metric.get(source) is not None]
    if present:
        # Only the first is looked at; the others are too many.
        problems += _source_problems(present[0], metric[present[0]], f"{path}.{present[0]}", tolerant=tolerant)
    wanted = _SOURCES.get(kind)
    if wanted is not None and wanted not in present:
        problems.append(errors.required(f"{path}.{wanted}", "must populate information for the given metric source"))
    problems += unknown
    others = [source for source in present if source != wanted] if len(present) > 1 else []
    return problems + [
        errors.not_allowed(f"{path}.{source}", "must populate the given metric source only") for source in others
    ]


def _source_problems(source: str, found: Object, path: str, *, tolerant: bool) -> list[FieldError]:
    target: Object = found.get("target") or {}
    where = f"{path}.target"
    value, average, share = target.get("value"), target.get("averageValue"), target.get("averageUtilization")
    problems: list[FieldError] = []
    if source == "object":
        about: Object = found.get("describedObject") or {}
        problems += _name_problems(about, f"{path}.describedObject", ("kind", "name"))
        version = about.get("apiVersion") or ""
        told = "" if tolerant else _version_text(version)
        if told:
            problems.append(errors.invalid_value(f"{path}.describedObject.apiVersion", version, told))
    if source in ("resource", "containerResource"):
        problems += _resource_problems(source, found, path) + _target_problems(target, where)
        if share is None and average is None:
            problems.append(errors.required(f"{where}.averageUtilization", _NO_RESOURCE))
        elif share is not None and average is not None:
            problems.append(errors.not_allowed(f"{where}.averageValue", _BOTH_OF_RESOURCE))
        return problems
    problems += _name_problems(found.get("metric") or {}, f"{path}.metric", ("name",), "must specify a metric name")
    problems += _target_problems(target, where)
    missing = f"{where}.averageValue"
    if source == "pods" and average is None:
        problems.append(errors.required(missing, "must specify a positive target averageValue"))
    elif source == "object" and value is None and average is None:
        problems.append(errors.required(missing, "must set either a target value or averageValue"))
    elif source == "external" and value is None and average is None:
        told = "must set either a target value for metric or a per-pod target"
        problems.append(errors.required(missing, told))
    elif source == "external" and value is not None and average is not None:
        told = "may not set both a target value for metric and a per-pod target"
        problems.append(errors.not_allowed(f"{where}.value", told))
    return problems


def _resource_problems(source: str, found: Object, path: str) -> list[FieldError]:
    name, container = found.get("name") or "", found.get("container") or ""
    problems: list[FieldError] = []
    if not name:
        problems.append(errors.required(f"{path}.name", "must specify a resource name"))
    if source == "resource":
        return problems
    if name:
        problems += [errors.invalid_value(f"{path}.name", name, text) for text in container_resource_texts(name)]
    if not container:
        return [*problems, errors.required(f"{path}.container", "must specify a container")]
    return problems + [
        errors.invalid_value(f"{path}.container", container, text) for text in dns_label_errors(container)
    ]


def _target_problems(target: Object, path: str) -> list[FieldError]:
    kind, share = target.get("type") or "", target.get("averageUtilization")
    problems: list[FieldError] = []
    if not kind:
        problems.append(errors.required(f"{path}.type", "must specify a metric target type"))
    if kind not in _TARGETS:
        told = "must be either Utilization, Value, or AverageValue"
        problems.append(errors.invalid_value(f"{path}.type", kind, told))
    for field in ("value", "averageValue"):
        if target.get(field) is not None and _sign(target[field]) <= 0:
            problems.append(errors.invalid_value(f"{path}.{field}", target[field], "must be positive"))
    if share is not None and share < 1:
        problems.append(errors.invalid_value(f"{path}.averageUtilization", share, "must be greater than 0"))
    return problems


def _sign(amount: Any) -> int:
    mantissa = parse_quantity(str(amount)).mantissa
    return (mantissa > 0) - (mantissa < 0)


# How fast


def _rules_problems(rules: Object, path: str) -> list[FieldError]:
    window, choice, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies")
    problems: list[FieldError] = []
    where = f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        problems.append(errors.invalid_value(where, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        problems.append(errors.invalid_value(where, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if choice is not None and choice not in _CHOICES:
        problems.append(errors.not_supported(f"{path}.selectPolicy", choice, _CHOICES))
    if not policies:
        problems.append(errors.required(f"{path}.policies", "must specify at least one Policy"))
    for position, policy in enumerate(policies or ()):
        problems += _policy_problems(policy, f"{path}.policies[{position}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and _sign(tolerance) < 0:
        problems.append(errors.invalid_value(f"{path}.tolerance", tolerance, NON_NEGATIVE))
    return problems


def _policy_problems(policy: Object, path: str) -> list[FieldError]:
    kind, period = policy.get("type") or "", policy.get("periodSeconds") or 0
    problems: list[FieldError] = []
    if kind not in _POLICIES:
        problems.append(errors.not_supported(f"{path}.type", kind, _POLICIES))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            problems.append(
                errors.invalid_value(f"{path}.{field}", policy.get(field) or 0, "must be greater than zero")
            )
    if period > _LONGEST_PERIOD:
        told = f"must be less than or equal to {_LONGEST_PERIOD}"
        problems.append(errors.invalid_value(f"{path}.periodSeconds", period, told))
    return problems
