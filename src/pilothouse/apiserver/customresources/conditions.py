"""Conditions of definitions. Requests and the controller set them."""

from pilothouse.apiserver.objects import Object


def with_condition(
    conditions: list[Object], now: str, type_: str, holds: bool, reason: str, message: str
) -> list[Object]:
    """The conditions with one of them set; its transition time changes only with its status."""
    status = "True" if holds else "False"
    before = next((found for found in conditions if found.get("type") == type_), None)
    since = before["lastTransitionTime"] if before is not None and before.get("status") == status else now
    new = {"type": type_, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    if before is None:
        return [*conditions, new]
    return [new if found is before else found for found in conditions]
