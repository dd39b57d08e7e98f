"""An object of which only the recorded changes are known: there are logs, and no cluster."""

from pilothouse.why.evidence import ObjectChange, Reference
from pilothouse.why.states import lifetime
from pilothouse.why.steps import NOT_FOUND, UNKNOWN, Step
from pilothouse.why.view import Finding, View

_MAX_DEPTH = 2
_MAX_CREATED = 2
"""Of the objects that were created for another, the newest."""


async def recorded(view: View) -> Finding:
    """The last change with its causes; a kubelet's report of a pod with the creation of the pod. Its details are the
    last changes of what was created for it, such as the pods of a Deployment."""
    changes = await view.changes()
    if not changes:
        step = Step(text=f"{view.title}: the logs have no change of it", object=view.title, root=UNKNOWN)
        return Finding(NOT_FOUND, (step,))
    last = changes[-1]
    if last.type == "DELETED":
        return Finding("deleted", (await lifetime.deletion(view, changes, last),))
    step = await view.chain.step(last)
    creation = next((change for change in changes if change.type == "ADDED" and change.uid == last.uid), None)
    if not step.because and creation is not None and creation != last and view.reference.resource == "pods":
        step.because, step.root = [await view.chain.step(creation)], ""
    for change in await _last_changes_of_created(view, view.reference):
        name = f"{view.evidence.kind_of(change.reference.resource)}/{change.reference.name}"
        decision = f": {change.cause.decision}" if change.cause is not None else ""
        step.table.append(f"{name}, at {change.time[:19]}Z{decision}")
    return Finding(f"as recorded at {last.time[:19]}Z", (step,))


async def _last_changes_of_created(view: View, reference: Reference, depth: int = 0) -> list[ObjectChange]:
    """Those of the objects that were created for it or, as the pods of a Deployment, for those."""
    result: list[ObjectChange] = []
    for created in await view.evidence.created_for(reference):
        changes = await view.evidence.changes(created)
        if not changes or changes[-1].type == "DELETED":
            continue
        below = await _last_changes_of_created(view, created, depth + 1) if depth < _MAX_DEPTH else []
        result += below or [changes[-1]]
        if len(result) >= _MAX_CREATED:
            break
    return result[:_MAX_CREATED]
