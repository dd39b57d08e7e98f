"""Whether the last change of a workload is a reason of what is the matter with its pods."""

from collections.abc import Iterator

from pilothouse.why.changes import is_healthy
from pilothouse.why.states import lifetime
from pilothouse.why.steps import FAULT, STATE, Step
from pilothouse.why.view import View

_MOST_STATES = 40
"""So many states after a change are read, to find out whether all was well then."""


async def add_last_change(view: View, step: Step, *, rolls: bool) -> None:
    """The last change of a workload, unless what holds up the pods led there already, or has another reason: all was
    well after the change, or it came later than that. ``rolls``: pods of an older template, or too few, are there."""
    last = await lifetime.last_change(view, undone=rolls)
    if last is not None and not _leads_to(step, last) and not await _is_no_reason(view, last, step, rolls=rolls):
        step.because.append(last)
    if not step.because:
        step.root = STATE


def _leads_to(step: Step, root: Step) -> bool:
    known = {(each.object, each.resource_version) for reason in step.because for each in reason.roots()}
    return any((each.object, each.resource_version) in known for each in (root, *root.roots()))


async def _is_no_reason(view: View, last: Step, step: Step, *, rolls: bool) -> bool:
    roots = [root for each in step.because for root in each.roots()]
    if any(root.root == FAULT and root.object.startswith("pod/") for root in roots):
        return False  # an exit may still be due to the template
    begun = [time for each in step.because if (time := next(_times(each), ""))]
    if begun and not rolls and last.time > max(begun):
        return True
    return bool(roots or not rolls) and await _was_healthy_since(view, last)


def _times(step: Step) -> Iterator[str]:
    if step.time:
        yield step.time
    for each in step.because:
        yield from _times(each)


async def _was_healthy_since(view: View, last: Step) -> bool:
    """Whether the workload had all its pods ready at some time after a change."""
    if _rollout_is_complete(view, last):
        return True
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    place = next((n for n, each in enumerate(changes) if each.resource_version == last.resource_version), None)
    if place is None or not last.resource_version:
        return False
    for change in changes[place + 1 :][:_MOST_STATES]:
        after = await view.evidence.after(change)
        if after is not None and is_healthy(view.reference.resource, after):
            return True
    return False


def _rollout_is_complete(view: View, last: Step) -> bool:
    """A Deployment says of its last template that its rollout was complete."""
    created = last.text.endswith(" was created")
    begins = created or (" changed: spec.template." in last.text and "spec.replicas" not in last.text)
    return begins and view.condition("Progressing").get("reason") == "NewReplicaSetAvailable"
