"""Conditions of objects of all other kinds: APIServices, CustomResourceDefinitions, custom resources."""

from typing import Any

from pilothouse.why.states.lifetime import last_change
from pilothouse.why.states.pods import missing_object
from pilothouse.why.states.stored import WITHOUT_STATUS
from pilothouse.why.steps import AS_DESIRED, STATE, UNREMARKABLE, Step
from pilothouse.why.view import Finding, View

_TRUE_IF_OK = (
    "Available",
    "Ready",
    "Established",
    "NamesAccepted",
    "Accepted",
    "Healthy",
    "Synced",
    "Programmed",
    "Bound",
)
"""Condition types that are True in the desired state."""
_TRUE_ON_ERROR = ("Degraded", "Stalled", "Failed", "NonStructuralSchema", "Dangling")
"""Condition types that are True on errors."""
_TEXTS = ("phase", "state", "reason", "message", "error")
"""Fields of a status in which custom resources report their state, if they have no conditions."""
_STATES = {"True": "{}", "False": "not {}"}
_MAX_LINES = 10
_SHOWN = 3
_OWNED_RESOURCES = (
    *("deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch", "cronjobs.batch"),
    *("pods", "persistentvolumeclaims"),
)
"""The resources of objects whose state explains that of the custom resource that owns them; those of its own API group
come after them."""
_MAX_OF_GROUP = 20
"""Each is listed, and some groups have hundreds of resources."""
_MAX_OWNED = 100
"""Of one resource: to find the state of each takes several reads. Those that are not ready come first."""
_UNREMARKABLE = UNREMARKABLE | {"", "completed", "waiting for its time"}
"""States of owned objects that explain nothing."""


async def unfulfilled(view: View) -> Finding | None:
    """An object with a condition that reports an error."""
    failing = [condition for condition in view.conditions if _reports_error(condition)]
    if not failing:
        return None
    steps = [await _step(view, condition) for condition in failing[:_SHOWN]]
    kind, status = str(failing[0].get("type")), failing[0].get("status")
    return Finding(_STATES.get(str(status), "{} is not known").format(kind.lower()), tuple(steps))


def _reports_error(condition: dict[str, Any]) -> bool:
    kind, status = condition.get("type"), condition.get("status")
    return (kind in _TRUE_IF_OK and status != "True") or (kind in _TRUE_ON_ERROR and status == "True")


def other_lines(view: View) -> list[str]:
    """What the status reports besides known conditions: others that are not True, and the phase and messages."""
    lines = [
        _line(condition)
        for condition in view.conditions
        if condition.get("type") not in _TRUE_IF_OK + _TRUE_ON_ERROR
        if condition.get("status") != "True" or not _has_known(view)
    ]
    reported = [f"status.{key}: {' '.join(str(view.status[key]).split())}" for key in _TEXTS if view.status.get(key)]
    return [*lines[:_MAX_LINES], *reported]


def has_unknown_conditions(view: View) -> bool:
    """Whether there are conditions, none of them of a type whose desired status is known, and not all are True."""
    return not _has_known(view) and any(condition.get("status") != "True" for condition in view.conditions)


def _has_known(view: View) -> bool:
    return any(condition.get("type") in _TRUE_IF_OK + _TRUE_ON_ERROR for condition in view.conditions)


def _line(condition: dict[str, Any]) -> str:
    detail = ": ".join(" ".join(str(condition[key]).split()) for key in ("reason", "message") if condition.get(key))
    return f"condition {condition.get('type')} {condition.get('status')}{f': {detail}' if detail else ''}"


async def _step(view: View, condition: dict[str, Any]) -> Step:
    detail = ": ".join(str(text) for text in (condition.get("reason"), condition.get("message")) if text)
    step = view.step(f"has the condition {condition.get('type')} {condition.get('status')}: {detail}", root=STATE)
    if since := condition.get("lastTransitionTime"):
        step.table.append(f"since {since}")
    step.because = await _service(view) or await _owned(view)
    missing = await missing_object(view, str(condition.get("message") or "")) if not step.because else None
    if missing is not None:
        step.because = [missing]
    if not step.because:
        change = await last_change(view)
        step.because = [change] if change is not None else []
    return step


async def not_reported(view: View) -> Finding | None:
    """An object without conditions, as those of many operators, that owns one which is not as desired."""
    if view.reference.resource in WITHOUT_STATUS or view.conditions or not (view.spec or view.status):
        return None
    first = await _first_owned(view)
    if first is None:
        return None
    owned, finding = first
    step = view.step(f"owns {owned.title}: {finding.state}", because=list(finding.steps))
    return Finding("what it owns is not as desired", (step,))


async def _owned(view: View) -> list[Step]:
    """The state of the first object that this one controls and that is not as desired."""
    first = await _first_owned(view)
    return [] if first is None else list(first[1].steps)


async def _first_owned(view: View) -> tuple[View, Finding] | None:
    """The first object that this one controls and that is not as desired, with its state."""
    if not view.reference.namespace or not view.uid:
        return None
    group = view.reference.resource.partition(".")[2]
    of_group = [resource for resource in view.evidence.namespaced if resource.partition(".")[2] == group and group]
    for resource in (*_OWNED_RESOURCES, *of_group[:_MAX_OF_GROUP]):
        owned_objects = sorted(await view.owned(resource), key=_is_ready)
        for owned in owned_objects[:_MAX_OWNED]:
            finding = await owned.finding()
            if finding.state not in _UNREMARKABLE:
                return owned, finding
        if len(owned_objects) > _MAX_OWNED:
            view.evidence.unseen[f"{resource} that {view.title} owns, beyond the first {_MAX_OWNED}"] = None
    return None


def _is_ready(view: View) -> bool:
    return view.condition("Ready").get("status") == "True"


async def _service(view: View) -> list[Step]:
    """For an APIService: its Service, if it does not exist or has no endpoints."""
    reference = view.spec.get("service") if view.reference.resource == "apiservices.apiregistration.k8s.io" else None
    if not reference:
        return []
    service = await view.read("services", str(reference.get("name")), namespace=str(reference.get("namespace")))
    finding = await service.finding()
    return [] if finding.state == AS_DESIRED else list(finding.steps)
