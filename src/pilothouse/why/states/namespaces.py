"""Namespaces that are being deleted."""

from pilothouse.why.deletions import deletion_request
from pilothouse.why.evidence import Reference
from pilothouse.why.states.terminating import finalizer_steps
from pilothouse.why.steps import STATE, TIME, Step
from pilothouse.why.view import Finding, View

_CONDITIONS = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
)
"""True while the deletion is blocked (``namespaced_resources_deleter.go``, v1.36). NamespaceFinalizersRemaining is left
out: the finalizers are shown for each object."""
_SHOWN = 5
_IGNORED = frozenset({"events", "events.events.k8s.io", "pods.metrics.k8s.io"})


async def namespace(view: View) -> Finding | None:
    """The remaining objects of a terminating namespace, and their finalizers."""
    if not view.metadata.get("deletionTimestamp"):
        return None
    steps: list[Step] = []
    for type_ in _CONDITIONS:
        condition = view.condition(type_)
        if condition.get("status") == "True":
            steps.append(view.step(f"is not empty: {condition.get('reason')}: {condition.get('message')}", root=STATE))
    finalizers = view.spec.get("finalizers") or []
    other_finalizers = [finalizer for finalizer in finalizers if finalizer != "kubernetes"]
    if other_finalizers:
        steps.append(view.step(f"is held by spec.finalizers {', '.join(other_finalizers)}", root=STATE))
    if steps:
        steps[-1].because = await _remaining_objects(view)
    else:
        steps.append(await _being_emptied(view))
    request = await deletion_request(view.evidence, await view.own_changes())
    if request is not None:
        steps.append(await view.chain.step(request))
    return Finding("terminating", tuple(steps))


async def _being_emptied(view: View) -> Step:
    """The remaining objects, when the conditions report none: before the first sync, and while pods are deleted, which
    upstream does not report (``deleteAllContent``, v1.36)."""
    counts = {
        resource: len(await view.evidence.objects(resource, view.reference.name))
        for resource in view.evidence.namespaced
        if resource not in _IGNORED
    }
    remaining = [f"{count} {resource}" for resource, count in counts.items() if count]
    unreadable = [name for name in counts if view.evidence.is_unreadable(Reference(name, view.reference.name, ""))]
    if not remaining and not unreadable:
        return view.step("is empty: namespace-controller removes it with its next sync", root=TIME)
    parts = [f"{_first(remaining)} remain"] if remaining else []
    parts += [f"{_first(unreadable)} can't be read"] if unreadable else []
    step = view.step(f"is being emptied: {'; '.join(parts)}", root=TIME)
    step.table.append(
        "namespace-controller begins some seconds after the deletion, deletes pods first, and waits for half of their "
        "grace period before the next sync"
    )
    step.because = await _remaining_objects(view)
    return step


def _first(kinds: list[str]) -> str:
    more = f" and {len(kinds) - _SHOWN} more kinds" if len(kinds) > _SHOWN else ""
    return f"{', '.join(kinds[:_SHOWN])}{more}"


async def _remaining_objects(view: View) -> list[Step]:
    """The remaining objects that are being deleted, with their finalizers."""
    steps: list[Step] = []
    for resource in view.evidence.namespaced:
        for document in await view.evidence.objects(resource, view.reference.name):
            metadata = document.get("metadata") or {}
            if metadata.get("finalizers") and metadata.get("deletionTimestamp"):
                steps += await finalizer_steps(
                    view.of(resource, str(metadata.get("name")), document, namespace=view.reference.name)
                )
                if len(steps) >= _SHOWN:
                    return steps[:_SHOWN]
    return steps
