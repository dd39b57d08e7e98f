"""Namespaces that are being deleted."""

from pilothouse.why.deletions import deletion_request
from pilothouse.why.states.terminating import held
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_CONDITIONS = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
)
"""Those that are True while the deletion does not get on (``namespaced_resources_deleter.go``, v1.36). What
NamespaceFinalizersRemaining says is said of the objects."""
_SHOWN = 5


async def namespace(view: View) -> Finding | None:
    """What is left in a namespace that is being deleted, and what holds it."""
    if not view.metadata.get("deletionTimestamp"):
        return None
    steps: list[Step] = []
    for type_ in _CONDITIONS:
        found = view.condition(type_)
        if found.get("status") == "True":
            steps.append(view.step(f"is not empty: {found.get('reason')}: {found.get('message')}", root=STATE))
    finalizers = view.spec.get("finalizers") or []
    others = [finalizer for finalizer in finalizers if finalizer != "kubernetes"]
    if others:
        steps.append(view.step(f"is held by spec.finalizers {', '.join(others)}", root=STATE))
    if steps:
        steps[-1].because = await _held(view)
    asked = await deletion_request(view.evidence, await view.changes())
    if asked is not None:
        steps.append(await view.chain.step(asked))
    if not steps:
        steps.append(view.step("is being emptied", root=STATE))
    return Finding("terminating", tuple(steps))


async def _held(view: View) -> list[Step]:
    """The objects that are left because of their finalizers."""
    steps: list[Step] = []
    for resource in view.evidence.namespaced:
        for each in await view.evidence.objects(resource, view.reference.name):
            metadata = each.get("metadata") or {}
            if metadata.get("finalizers"):
                steps += await held(view.of(resource, str(metadata.get("name")), each, namespace=view.reference.name))
                if len(steps) >= _SHOWN:
                    return steps[:_SHOWN]
    return steps
