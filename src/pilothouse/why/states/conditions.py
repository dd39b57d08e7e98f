"""Conditions of objects of all other kinds: APIServices, CustomResourceDefinitions, custom resources."""

from typing import Any

from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.pods import missing_object
from pilothouse.why.steps import AS_DESIRED, STATE, Step
from pilothouse.why.view import Finding, View

_GOOD = ("Available", "Ready", "Established", "NamesAccepted", "Accepted", "Healthy", "Synced", "Programmed", "Bound")
"""Types of conditions that are True while all is well."""
_BAD = ("Degraded", "Stalled", "Failed", "NonStructuralSchema")
"""Types of conditions that are True while something is wrong."""
_SHOWN = 3


async def unfulfilled(view: View) -> Finding | None:
    """An object one of whose conditions says that it is not as it should be."""
    conditions = view.status.get("conditions") or ()
    wrong = [condition for condition in conditions if isinstance(condition, dict) and _is_wrong(condition)]
    if not wrong:
        return None
    steps = [await _step(view, each) for each in wrong[:_SHOWN]]
    kind, status = str(wrong[0].get("type")), wrong[0].get("status")
    return Finding(kind.lower() if status == "True" else f"not {kind.lower()}", tuple(steps))


def _is_wrong(condition: dict[str, Any]) -> bool:
    kind, status = condition.get("type"), condition.get("status")
    return (kind in _GOOD and status == "False") or (kind in _BAD and status == "True")


async def _step(view: View, condition: dict[str, Any]) -> Step:
    said = ": ".join(str(each) for each in (condition.get("reason"), condition.get("message")) if each)
    step = view.step(f"has the condition {condition.get('type')} {condition.get('status')}: {said}", root=STATE)
    if since := condition.get("lastTransitionTime"):
        step.table.append(f"since {since}")
    step.because = await _service(view)
    missing = await missing_object(view, str(condition.get("message") or "")) if not step.because else None
    if missing is not None:
        step.because = [missing]
    if not step.because:
        changed = await last_change(view)
        step.because = [changed] if changed is not None else []
    return step


async def _service(view: View) -> list[Step]:
    """For an APIService: the Service that is missing, or leads nowhere."""
    reference = view.spec.get("service") if view.reference.resource == "apiservices.apiregistration.k8s.io" else None
    if not reference:
        return []
    about = await view.read("services", str(reference.get("name")), namespace=str(reference.get("namespace")))
    found = await about.finding()
    return [] if found.state == AS_DESIRED else list(found.steps)
