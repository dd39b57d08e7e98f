"""Validation of PriorityLevelConfigurations. After ``pkg/apis/flowcontrol/validation/validation.go`` (v1.36)."""

import math

from pilothouse.apiserver.field_errors import (
    ErrorList,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.flowcontrol.validation import mandatory_specs

_MAX_QUEUES = 10_000_000
_MAX_ENTROPY_BITS = 60
_TYPES = ("Exempt", "Limited")
_LIMIT_RESPONSES = ("Queue", "Reject")
_INVALID_PERCENT = "must be between 0 and 100, inclusive"
_NON_NEGATIVE = "must be a non-negative integer"
_ZERO_SHARES_ANNOTATION = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def validate_priority_level_configuration(obj: Object) -> ErrorList:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    errors: ErrorList = []
    if _ZERO_SHARES_ANNOTATION in (obj["metadata"].get("annotations") or {}):
        errors.append(forbidden("metadata.annotations", f"annotation '{_ZERO_SHARES_ANNOTATION}' is forbidden"))
    errors += _validate_priority_level_spec(spec, name)
    mandatory_spec = mandatory_specs().get(f"prioritylevelconfigurations/{name}")
    if mandatory_spec is None:
        return errors
    if name == "exempt":
        if {**spec, "exempt": mandatory_spec["exempt"]} != mandatory_spec:
            detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            errors.append(invalid("spec", internal_value("flowcontrol.PriorityLevelConfigurationSpec", spec), detail))
    elif spec != mandatory_spec:
        detail = f"spec of '{name}' must equal the fixed value"
        errors.append(invalid("spec", internal_value("flowcontrol.PriorityLevelConfigurationSpec", spec), detail))
    return errors


# PriorityLevelConfigurations -----------------------------------------------------------------------------------------


def _validate_priority_level_spec(spec: Object, name: str) -> ErrorList:
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    errors: ErrorList = []
    if (name == "exempt") != (kind == "Exempt"):
        errors.append(invalid("spec.type", of_named_type(kind), "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            errors += _validate_share(exempt, "spec.exempt") + _validate_percent(exempt, "spec.exempt")
        return errors
    if kind != "Limited":
        return [*errors, not_supported("spec.type", kind, _TYPES)]
    if exempt is not None:
        errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
    if limited is None:
        return [*errors, required("spec.limited", "must not be empty when type is Limited")]
    errors += _validate_share(limited, "spec.limited")
    errors += _validate_limit_response(limited.get("limitResponse") or {}, "spec.limited.limitResponse")
    errors += _validate_percent(limited, "spec.limited")
    borrowing_limit = limited.get("borrowingLimitPercent")
    if borrowing_limit is not None and borrowing_limit < 0:
        path, detail = "spec.limited.borrowingLimitPercent", f"if specified, {_NON_NEGATIVE}"
        errors.append(invalid(path, borrowing_limit, detail))
    return errors


def _validate_share(configuration: Object, path: str) -> ErrorList:
    shares = configuration.get("nominalConcurrencyShares") or 0
    return [invalid(f"{path}.nominalConcurrencyShares", shares, _NON_NEGATIVE)] if shares < 0 else []


def _validate_percent(configuration: Object, path: str) -> ErrorList:
    percent = configuration.get("lendablePercent") or 0
    return [] if 0 <= percent <= 100 else [invalid(f"{path}.lendablePercent", percent, _INVALID_PERCENT)]


def _validate_limit_response(response: Object, path: str) -> ErrorList:
    """``ValidateLimitResponse``."""
    kind, queuing, child_path = response.get("type") or "", response.get("queuing"), f"{path}.queuing"
    if kind == "Reject":
        return (
            []
            if queuing is None
            else [forbidden(child_path, "must be nil if limited.limitResponse.type is not Limited")]
        )
    if kind != "Queue":
        return [not_supported(f"{path}.type", kind, _LIMIT_RESPONSES)]
    if queuing is None:
        return [required(child_path, "must not be empty if limited.limitResponse.type is Limited")]
    return _validate_queuing_configuration(queuing, child_path)


def _validate_queuing_configuration(queuing: Object, path: str) -> ErrorList:
    queues, hand_size, queue_length_limit = (queuing[field] for field in ("queues", "handSize", "queueLengthLimit"))
    errors: ErrorList = []

    def report(field: str, value: int, detail: str) -> None:
        errors.append(invalid(f"{path}.{field}", value, detail))

    if queue_length_limit <= 0:
        report("queueLengthLimit", queue_length_limit, "must be positive")
    if queues <= 0:
        report("queues", queues, "must be positive")
    elif queues > _MAX_QUEUES:
        report("queues", queues, f"must not be greater than {_MAX_QUEUES}")
    if hand_size <= 0:
        report("handSize", hand_size, "must be positive")
    elif hand_size > queues:
        report("handSize", hand_size, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand_size) > _MAX_ENTROPY_BITS:
        bits = f"required entropy bits of deckSize {queues} and handSize {hand_size}"
        detail = f"{bits} should not be greater than {_MAX_ENTROPY_BITS}"
        report("handSize", hand_size, detail)
    return errors
