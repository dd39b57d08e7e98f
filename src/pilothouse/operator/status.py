"""The status of an object as a value: collected during a sync, compared and written at its end."""

import datetime
from typing import Any

from pilothouse.machinery.names import MAX_CONDITION_REASON, condition_reason_errors, qualified_name_errors
from pilothouse.machinery.times import format_time

OBSERVED = "observedGeneration"
STATUSES = ("True", "False", "Unknown")


def condition_status(type_: str, status: bool | str | None, reason: str, message: str) -> str:
    """The status of a condition on the wire. Raises ``ValueError`` for fields that the API server would reject in a
    ``metav1.Condition`` (apimachinery ``pkg/apis/meta/v1/types.go``, v0.36), and ``TypeError`` for other types."""
    named = f"condition {type_!r}"
    texts: dict[str, object] = {
        "type of a condition": type_,
        f"reason of {named}": reason,
        f"message of {named}": message,
    }
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is a str, got {value!r}")
    if errors := qualified_name_errors(type_):
        raise ValueError(f"type of a condition is invalid, got {type_!r}: {errors[0]}")
    status_text = "Unknown" if status is None else str(status)
    if status_text not in STATUSES:
        error = ValueError if isinstance(status, str) else TypeError
        raise error(f"status of {named} is True, False or Unknown, got {status!r}")
    if not reason:
        raise ValueError(f"reason of {named} is missing: a word in CamelCase, such as Available")
    if len(reason.encode()) > MAX_CONDITION_REASON:
        raise ValueError(
            f"reason of {named} is too long: at most {MAX_CONDITION_REASON} bytes; give details as message"
        )
    if errors := condition_reason_errors(reason):
        raise ValueError(f"reason of {named} is invalid, got {reason!r}: {errors[0]}")
    return status_text


def set_condition(
    conditions: list[dict[str, Any]],
    type_: str,
    status: str,
    reason: str,
    message: str,
    generation: int,
    now: datetime.datetime,
) -> list[dict[str, Any]]:
    """The conditions with this one set, as apimachinery's ``meta.SetStatusCondition``: its transition time changes only
    with its status."""
    existing = next((condition for condition in conditions if condition.get("type") == type_), None)
    same = existing is not None and existing.get("status") == status
    since = existing.get("lastTransitionTime") if existing is not None and same else None
    new = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        OBSERVED: generation,
        "lastTransitionTime": since or format_time(now),
    }
    if existing is None:
        return [*conditions, new]
    return [new if condition is existing else condition for condition in conditions]


def changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The merge patch from one status to another; empty if they are equal. Removed fields are null."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if name in before and old == value:
            continue
        if isinstance(old, dict) and isinstance(value, dict):
            patch[name] = changes(old, value)
        else:
            patch[name] = value
    return patch
