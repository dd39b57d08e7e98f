"""What led to a write if users' writes are not recorded: decision logs alone have only those of pilothouse's programs.

A controller's status update or a kubelet's report is then often the only recorded change before a write, and not what
led to it. The object whose change did is named instead, and that it is not recorded who made it.
"""

from pilothouse.machinery.causes import RETRY, TIMER, Cause, Trigger
from pilothouse.why.actors import root_kind
from pilothouse.why.changes import FAILED, Summary, asks_deletion
from pilothouse.why.evidence import Evidence, ObjectChange, Reference
from pilothouse.why.steps import FAULT, TIME, UNKNOWN, Step

_KUBELET = "kubelet"
_NAMESPACES = "namespace-controller"
_BY_WHOM = "and by whom is not recorded"


def is_evidence_of(trigger: Trigger, change: ObjectChange) -> bool:
    """Whether a change that was found for a trigger is the one that the trigger reports, and not just the nearest."""
    if trigger.type == "DELETED":
        return change.type == "DELETED" or asks_deletion(change)
    return trigger.type != "ADDED" or change.type == "ADDED" or change.resource_version == trigger.resource_version


async def unrecorded_write(
    evidence: Evidence, change: ObjectChange, cause: Cause, key: Reference | None, described: Summary
) -> Step | None:
    """The step for the change that led to ``change``, which has no recorded one; None if none is missing."""
    if cause.component == _KUBELET and (change.type == "DELETED" or asks_deletion(change)):
        # A kubelet only removes pods that are being deleted.
        return _step(evidence, change.reference, f"was marked for deletion, {_BY_WHOM}")
    if cause.component == _NAMESPACES and key is not None:
        # It only acts in namespaces that are being deleted.
        return _step(evidence, key, f"was marked for deletion, {_BY_WHOM}")
    for trigger in cause.triggers:
        reference = Reference(trigger.resource, trigger.namespace, trigger.name)
        if trigger.type in (RETRY, TIMER) or not trigger.name or not trigger.resource_version:
            continue
        found_change = await evidence.change_at(reference, trigger.resource_version)
        if found_change is None or not is_evidence_of(trigger, found_change):
            return _step(evidence, reference, _text(trigger))
    if described.weight == FAILED or root_kind(change) in (FAULT, TIME):
        return None
    if key is None or (key == change.reference and change.type == "ADDED"):
        return None
    return _step(evidence, key, f"was created or its spec was changed, {_BY_WHOM}")


def _text(trigger: Trigger) -> str:
    if trigger.type == "DELETED":
        return f"was deleted, {_BY_WHOM}"
    if trigger.type == "MODIFIED":
        return f"was changed (resourceVersion {trigger.resource_version}), {_BY_WHOM}"
    # Objects that were there when the program started are reported as added, too.
    return f"was created or changed (resourceVersion {trigger.resource_version}), {_BY_WHOM}"


def _step(evidence: Evidence, reference: Reference, text: str) -> Step:
    name = f"{evidence.kind_of(reference.resource)}/{reference.name}"
    return Step(text=f"{name} {text}", object=name, namespace=reference.namespace, root=UNKNOWN)
