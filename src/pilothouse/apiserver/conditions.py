"""Conditions that the server sets itself: of CustomResourceDefinitions and APIServices."""

from pilothouse.apiserver.objects import Object

LOCAL = (True, "Local", "Local APIServices are always available")
"""Status, reason and message of the condition ``Available`` of a local APIService."""


def set_condition(status: Object, now: str, type_: str, holds: bool, reason: str, message: str) -> None:
    """Set a condition; its transition time only changes with its status."""
    conditions: list[Object] = status.get("conditions") or []
    value = "True" if holds else "False"
    before = next((found for found in conditions if found.get("type") == type_), None)
    since: str | None = now
    if before is not None and before.get("status") == value:
        since = before.get("lastTransitionTime")
    new = {"type": type_, "status": value, "lastTransitionTime": since, "reason": reason, "message": message}
    status["conditions"] = (
        [*conditions, new] if before is None else [new if found is before else found for found in conditions]
    )
