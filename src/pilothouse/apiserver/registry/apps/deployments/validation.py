"""Validation of Deployments. After kubernetes' ``pkg/apis/apps/validation/validation.go`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, forbidden, internal_value, invalid, not_supported
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.validation import (
    is_not_more_than_100_percent,
    is_zero,
    validate_collision_count,
    validate_counts_at_most,
    validate_pod_template_spec_for_replica_set,
    validate_positive_int_or_percent,
    validate_selector,
)
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields


def validate_deployment_strategy(strategy: Object) -> ErrorList:
    kind, rolling_update = strategy["type"], strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling_update is None:
            return []
        return [forbidden(path, "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        # Upstream validates the type, but reports the whole strategy as the invalid value.
        bad_value = internal_value("apps.DeploymentStrategy", strategy)
        return [not_supported("spec.strategy", bad_value, ("Recreate", "RollingUpdate"))]
    rolling_update = rolling_update or {}
    max_unavailable, max_surge = rolling_update.get("maxUnavailable"), rolling_update.get("maxSurge")
    errors = validate_positive_int_or_percent(max_unavailable, f"{path}.maxUnavailable")
    errors += validate_positive_int_or_percent(max_surge, f"{path}.maxSurge")
    if is_zero(max_unavailable) and is_zero(max_surge):
        errors.append(invalid(f"{path}.maxUnavailable", max_unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + is_not_more_than_100_percent(max_unavailable, f"{path}.maxUnavailable")


def validate_deployment(obj: Object) -> ErrorList:
    spec = obj["spec"]
    errors = validate_nonnegative_fields(spec, "spec", ("replicas",))
    errors += validate_selector(spec, "deployment") + validate_pod_template_spec_for_replica_set(spec)
    errors += validate_deployment_strategy(spec["strategy"])
    errors += validate_nonnegative_fields(
        spec, "spec", ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    )
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def validate_deployment_status_update(obj: Object, old: Object) -> ErrorList:
    status: Object = obj.get("status") or {}
    fields = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    )
    all_errors = validate_nonnegative_fields(status, "status", fields) + validate_counts_at_most(
        status,
        (
            ("updatedReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ),
    )
    return all_errors + validate_collision_count(status, old.get("status") or {})
