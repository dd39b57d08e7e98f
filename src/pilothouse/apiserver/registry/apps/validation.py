"""Validation that several kinds of this group share, and disruption budgets with them. After kubernetes'
``pkg/apis/apps/validation/validation.go`` (v1.36).
"""

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

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def validate_positive_int_or_percent(value: Any, path: str) -> ErrorList:
    if isinstance(value, str):
        return [] if _percent(value) is not None else [invalid(path, value, _PERCENT)]
    return [invalid(path, value, NON_NEGATIVE)] if (value or 0) < 0 else []


def validate_count(value: Any, path: str) -> ErrorList:
    """A number, or a percentage of up to a hundred."""
    return validate_positive_int_or_percent(value, path) + validate_at_most_all(value, path)


def validate_at_most_all(value: Any, path: str) -> ErrorList:
    """``IsNotMoreThan100Percent``."""
    percent = _percent(value)
    return [invalid(path, value, "must not be greater than 100%")] if (percent or 0) > 100 else []


def _percent(value: Any) -> int | None:
    found = re.fullmatch("([0-9]+)%", value) if isinstance(value, str) else None
    return int(found[1]) if found is not None else None


def is_zero(value: Any) -> bool:
    """Whether it comes to nothing, as what is neither number nor percentage does (``getIntOrPercentValue``)."""
    if isinstance(value, str):
        number = re.fullmatch("[+-]?([0-9]+)%?", value)
        return number is None or not int(number[1])
    return not value


def validate_partition(rolling: Object, path: str) -> ErrorList:
    """How far an update goes, and how fast. Upstream drops ``maxUnavailable`` with its gate off; here it is the
    manager's gate that says whether it means something."""
    errors = validate_nonnegative_fields(rolling, path, ("partition",))
    unavailable = rolling.get("maxUnavailable")
    if unavailable is None:
        return errors
    errors += validate_positive_int_or_percent(unavailable, f"{path}.maxUnavailable")
    if is_zero(unavailable):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "cannot be 0"))
    return errors + validate_at_most_all(unavailable, f"{path}.maxUnavailable")


# Status


def validate_counts_at_most(status: Object, pairs: Sequence[tuple[str, str, str]]) -> ErrorList:
    """(field, the field that it may not exceed, what that is called): those that do."""
    return [
        invalid(f"status.{field}", status.get(field) or 0, f"cannot be greater than {detail}")
        for field, most, detail in pairs
        if (status.get(field) or 0) > (status.get(most) or 0)
    ]


def validate_collision_count(status: Object, old: Object) -> ErrorList:
    """The count of hash collisions only grows."""
    before, after = old.get("collisionCount"), status.get("collisionCount")
    if before is None or (after is not None and after >= before):
        return []
    # Absent is zero here.
    return [invalid("status.collisionCount", after or 0, "cannot be decremented")]


SELECTOR = "*meta.LabelSelector"


def validate_selector(spec: Object, called: str) -> ErrorList:
    """The selector must be there and select something. ``called`` is the kind as upstream says it."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = validate_label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {called}"
        errors.append(invalid("spec.selector", internal_value(SELECTOR, selector), text))
    return errors


def validate_template_of_replica_set(spec: Object) -> ErrorList:
    """``ValidatePodTemplateSpecForReplicaSet``, for ReplicaSets and Deployments. The template is only validated with a
    selector to compare it with."""
    selector, template = spec.get("selector"), spec["template"]
    if selector and not is_selector(selector):
        return [invalid("spec.selector", internal_value(SELECTOR, selector), "invalid label selector")]
    errors = validate_labels_of_template(selector, template)
    errors += validate_pod_template_spec(template, "spec.template")
    return errors + validate_endless(template, "ReplicaSet")


def validate_labels_of_template(selector: Object | None, template: Object) -> ErrorList:
    labels = (template.get("metadata") or {}).get("labels")
    # No selector at all selects nothing, an empty one all.
    if selector is not None and (not selector or selector_matches(selector, labels or {})):
        return []
    return [wrong_labels(labels)]


def wrong_labels(labels: Object | None) -> FieldError:
    detail = "`selector` does not match template `labels`"
    return invalid("spec.template.metadata.labels", internal_value("{}string", labels), detail)


def validate_endless(template: Object, kind: str) -> ErrorList:
    """Pods that are replaced when they are gone never end by themselves."""
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
        # It has been rejected already.
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
