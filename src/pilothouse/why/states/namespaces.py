"""Namespaces that are being deleted."""

from pilothouse.why.deletions import deletion_request
from pilothouse.why.states.terminating import finalizer_steps
from pilothouse.why.steps import STATE, Step
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
    request = await deletion_request(view.evidence, await view.own_changes())
    if request is not None:
        steps.append(await view.chain.step(request))
    if not steps:
        steps.append(view.step("is being emptied", root=STATE))
    return Finding("terminating", tuple(steps))


async def _remaining_objects(view: View) -> list[Step]:
    """The remaining objects with finalizers."""
    steps: list[Step] = []
    for resource in view.evidence.namespaced:
        for document in await view.evidence.objects(resource, view.reference.name):
            metadata = document.get("metadata") or {}
            if metadata.get("finalizers"):
                steps += await finalizer_steps(
                    view.of(resource, str(metadata.get("name")), document, namespace=view.reference.name)
                )
                if len(steps) >= _SHOWN:
                    return steps[:_SHOWN]
    return steps
