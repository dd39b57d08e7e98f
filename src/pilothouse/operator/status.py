"""The status of an object as a value: collected during a sync, compared and written at its end."""

import datetime
from typing import Any

from pilothouse.machinery.times import format_time

OBSERVED = "observedGeneration"


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
    before = next((condition for condition in conditions if condition.get("type") == type_), None)
    same = before is not None and before.get("status") == status
    since = before.get("lastTransitionTime") if before is not None and same else None
    new = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        OBSERVED: generation,
        "lastTransitionTime": since or format_time(now),
    }
    if before is None:
        return [*conditions, new]
    return [new if condition is before else condition for condition in conditions]


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
