"""Decides whether the last change of a workload is a cause of its unready pods."""

from collections.abc import Iterator

from pilothouse.why.changes import is_healthy
from pilothouse.why.states import lifetime
from pilothouse.why.steps import FAULT, STATE, Step
from pilothouse.why.view import View

_MAX_STATES = 40
"""Versions after a change that are read to check whether the workload was healthy."""


async def add_last_change(view: View, step: Step, *, rolls: bool) -> None:
    """Add the last change of a workload as a cause, unless it is already among the root causes, the workload was
    healthy after it, or the failure began before it. ``rolls``: a rollout or scaling is in progress."""
    last = await lifetime.last_change(view, reverted=rolls)
    if last is not None and not _leads_to(step, last) and not await _is_unrelated(view, last, step, rolls=rolls):
        step.because.append(last)
    if not step.because:
        step.root = STATE


def _leads_to(step: Step, root: Step) -> bool:
    roots = {(step.object, step.resource_version) for reason in step.because for step in reason.roots()}
    return any((step.object, step.resource_version) in roots for step in (root, *root.roots()))


async def _is_unrelated(view: View, last: Step, step: Step, *, rolls: bool) -> bool:
    roots = [root for cause in step.because for root in cause.roots()]
    if any(root.root == FAULT and root.object.startswith("pod/") for root in roots):
        return False  # a container may exit because of the template
    started = [time for cause in step.because if (time := next(_times(cause), ""))]
    if started and not rolls and last.time > max(started):
        return True
    return bool(roots or not rolls) and await _was_healthy_since(view, last)


def _times(step: Step) -> Iterator[str]:
    if step.time:
        yield step.time
    for cause in step.because:
        yield from _times(cause)


async def _was_healthy_since(view: View, last: Step) -> bool:
    """Whether a version of the workload after a change was healthy."""
    if _rollout_is_complete(view, last):
        return True
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    index = next((n for n, change in enumerate(changes) if change.resource_version == last.resource_version), None)
    if index is None or not last.resource_version:
        return False
    for change in changes[index + 1 :][:_MAX_STATES]:
        after = await view.evidence.after(change)
        if after is not None and is_healthy(view.reference.resource, after):
            return True
    return False


def _rollout_is_complete(view: View, last: Step) -> bool:
    """Whether a Deployment's condition Progressing shows the last rollout as complete."""
    created = last.text.endswith(" was created")
    begins = created or (" changed: spec.template." in last.text and "spec.replicas" not in last.text)
    return begins and view.condition("Progressing").get("reason") == "NewReplicaSetAvailable"
