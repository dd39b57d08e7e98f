"""Validation of DaemonSets. After kubernetes' ``pkg/apis/apps/validation/validation.go`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.validation import (
    SELECTOR,
    is_not_more_than_100_percent,
    is_zero,
    validate_collision_count,
    validate_positive_int_or_percent,
    validate_restart_policy_always,
    validate_template_labels,
)
from pilothouse.apiserver.registry.core.pods.validation import validate_pod_template_spec
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields


def validate_daemon_set_strategy(strategy: Object) -> ErrorList:
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        bad_value = internal_value("apps.DaemonSetUpdateStrategy", strategy)
        return [not_supported("spec.updateStrategy", bad_value, ("RollingUpdate", "OnDelete"))]
    path = "spec.updateStrategy.rollingUpdate"
    rolling_update = strategy.get("rollingUpdate") or {}
    max_unavailable, max_surge = rolling_update.get("maxUnavailable"), rolling_update.get("maxSurge")
    errors = validate_positive_int_or_percent(max_unavailable, f"{path}.maxUnavailable")
    errors += validate_positive_int_or_percent(max_surge, f"{path}.maxSurge")
    errors += is_not_more_than_100_percent(max_unavailable, f"{path}.maxUnavailable")
    errors += is_not_more_than_100_percent(max_surge, f"{path}.maxSurge")
    if not is_zero(max_unavailable) and not is_zero(max_surge):
        errors.append(invalid(f"{path}.maxSurge", max_surge, "may not be set when maxUnavailable is non-zero"))
    elif is_zero(max_unavailable) and is_zero(max_surge):
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def validate_daemon_set(obj: Object) -> ErrorList:
    spec = obj["spec"]
    selector: Object | None = spec.get("selector")
    template: Object = spec["template"]
    errors = validate_label_selector(selector or {}, "spec.selector")
    errors += validate_template_labels(selector, template)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        bad_value = internal_value(SELECTOR, selector)
        errors.append(invalid("spec.selector", bad_value, "empty selector is invalid for daemonset"))
    errors += validate_pod_template_spec(template, "spec.template")
    errors += validate_restart_policy_always(template, "DaemonSet")
    errors += validate_nonnegative_fields(spec, "spec", ("minReadySeconds",))
    errors += validate_daemon_set_strategy(spec["updateStrategy"])
    return errors + validate_nonnegative_fields(spec, "spec", ("revisionHistoryLimit",))


def validate_daemon_set_status_update(obj: Object, old: Object) -> ErrorList:
    status: Object = obj.get("status") or {}
    fields = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    )
    return validate_nonnegative_fields(status, "status", fields) + validate_collision_count(
        status, old.get("status") or {}
    )
