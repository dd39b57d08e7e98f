"""Validation shared by the kinds of this group and by PodDisruptionBudgets. After kubernetes'
``pkg/apis/apps/validation/validation.go`` (v1.36)."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver.field_errors import (
    ErrorList,
    FieldError,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.validation import validate_pod_template_spec
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import NON_NEGATIVE, validate_nonnegative_fields
from pilothouse.machinery.labels import SelectorError, selector_from

_INVALID_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def validate_positive_int_or_percent(value: Any, path: str) -> ErrorList:
    if isinstance(value, str):
        return [] if _percent(value) is not None else [invalid(path, value, _INVALID_PERCENT)]
    return [invalid(path, value, NON_NEGATIVE)] if (value or 0) < 0 else []


def validate_count_or_percent(value: Any, path: str) -> ErrorList:
    """A number, or a percentage of at most 100%."""
    return validate_positive_int_or_percent(value, path) + is_not_more_than_100_percent(value, path)


def is_not_more_than_100_percent(value: Any, path: str) -> ErrorList:
    """``IsNotMoreThan100Percent``."""
    percent = _percent(value)
    return [invalid(path, value, "must not be greater than 100%")] if (percent or 0) > 100 else []


def _percent(value: Any) -> int | None:
    match = re.fullmatch("([0-9]+)%", value) if isinstance(value, str) else None
    return int(match[1]) if match is not None else None


def is_zero(value: Any) -> bool:
    """Whether the value is 0 or ``0%``. A string that is neither number nor percentage counts as 0
    (``getIntOrPercentValue``)."""
    if isinstance(value, str):
        number = re.fullmatch("[+-]?([0-9]+)%?", value)
        return number is None or not int(number[1])
    return not value


def validate_rolling_update_stateful_set(rolling_update: Object, path: str) -> ErrorList:
    """Validate ``partition`` and ``maxUnavailable``. Upstream drops ``maxUnavailable`` if its gate is off; here the
    field is stored, and the manager's gate determines whether it has an effect."""
    errors = validate_nonnegative_fields(rolling_update, path, ("partition",))
    max_unavailable = rolling_update.get("maxUnavailable")
    if max_unavailable is None:
        return errors
    errors += validate_positive_int_or_percent(max_unavailable, f"{path}.maxUnavailable")
    if is_zero(max_unavailable):
        errors.append(invalid(f"{path}.maxUnavailable", max_unavailable, "cannot be 0"))
    return errors + is_not_more_than_100_percent(max_unavailable, f"{path}.maxUnavailable")


# Status


def validate_counts_at_most(status: Object, limits: Sequence[tuple[str, str, str]]) -> ErrorList:
    """The errors of counts that exceed another one. ``limits``: the field, the field that it must not exceed, and the
    name of the latter in the message."""
    return [
        invalid(f"status.{field}", status.get(field) or 0, f"cannot be greater than {detail}")
        for field, limit, detail in limits
        if (status.get(field) or 0) > (status.get(limit) or 0)
    ]


def validate_collision_count(status: Object, old_status: Object) -> ErrorList:
    """``collisionCount`` must not decrease."""
    old_count, count = old_status.get("collisionCount"), status.get("collisionCount")
    if old_count is None or (count is not None and count >= old_count):
        return []
    # A missing count is reported as 0.
    return [invalid("status.collisionCount", count or 0, "cannot be decremented")]


SELECTOR = "*meta.LabelSelector"


def validate_selector(spec: Object, kind: str) -> ErrorList:
    """The selector is required and must not be empty. ``kind`` is the kind as in upstream's message."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = validate_label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        detail = f"empty selector is invalid for {kind}"
        errors.append(invalid("spec.selector", internal_value(SELECTOR, selector), detail))
    return errors


def validate_pod_template_spec_for_replica_set(spec: Object) -> ErrorList:
    """``ValidatePodTemplateSpecForReplicaSet``, for ReplicaSets and Deployments."""
    selector, template = spec.get("selector"), spec["template"]
    if selector and not is_selector(selector):
        return [invalid("spec.selector", internal_value(SELECTOR, selector), "invalid label selector")]
    errors = validate_template_labels(selector, template)
    errors += validate_pod_template_spec(template, "spec.template")
    return errors + validate_restart_policy_always(template, "ReplicaSet")


def validate_template_labels(selector: Object | None, template: Object) -> ErrorList:
    labels = (template.get("metadata") or {}).get("labels")
    # A nil selector matches nothing, an empty one everything.
    if selector is not None and (not selector or selector_matches(selector, labels or {})):
        return []
    return [template_labels_mismatch(labels)]


def template_labels_mismatch(labels: Object | None) -> FieldError:
    detail = "`selector` does not match template `labels`"
    return invalid("spec.template.metadata.labels", internal_value("{}string", labels), detail)


def validate_restart_policy_always(template: Object, kind: str) -> ErrorList:
    """The template of a controller that replaces its pods must have ``restartPolicy: Always`` and no
    ``activeDeadlineSeconds``."""
    spec: Object = template.get("spec") or {}
    policy = spec.get("restartPolicy") or ""
    path = "spec.template.spec"
    errors: ErrorList = []
    if policy != "Always":
        errors.append(not_supported(f"{path}.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        errors.append(forbidden(f"{path}.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported"))
    return errors


def is_selector(selector: Object) -> bool:
    try:
        selector_from(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return True


def selector_matches(selector: Object, labels: Object) -> bool:
    try:
        return selector_from(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        # The invalid selector is reported elsewhere.
        return True


def validate_replica_status(status: Object) -> ErrorList:
    numbers = (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    )
    return validate_nonnegative_fields(status, "status", numbers) + validate_counts_at_most(
        status,
        (
            ("fullyLabeledReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ),
    )
