"""Conditions that the server sets itself: of CustomResourceDefinitions and APIServices."""

from pilothouse.apiserver.objects import Object

LOCAL = (True, "Local", "Local APIServices are always available")
"""Status, reason and message of the condition ``Available`` of a local APIService."""


def set_condition(status: Object, now: str, type_: str, is_true: bool, reason: str, message: str) -> None:
    """Set a condition; its transition time only changes with its status."""
    conditions: list[Object] = status.get("conditions") or []
    value = "True" if is_true else "False"
    existing = next((condition for condition in conditions if condition.get("type") == type_), None)
    last_transition_time: str | None = now
    if existing is not None and existing.get("status") == value:
        last_transition_time = existing.get("lastTransitionTime")
    new = {
        "type": type_,
        "status": value,
        "lastTransitionTime": last_transition_time,
        "reason": reason,
        "message": message,
    }
    status["conditions"] = (
        [*conditions, new]
        if existing is None
        else [new if condition is existing else condition for condition in conditions]
    )
