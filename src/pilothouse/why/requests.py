"""Finds the last change of an object's spec that its controller acts on and that was not reverted."""

from collections.abc import Sequence

from pilothouse.machinery.differences import Difference, differences
from pilothouse.why.changes import METADATA, SPEC, Summary, summary
from pilothouse.why.effective_edits import Edit, controller_acts_on, last_effective_edit
from pilothouse.why.evidence import Document, Evidence, ObjectChange, newest_spec_changes

_MAX_EDITS = 30
"""The last changes that are checked for having been reverted."""


async def last_request(
    evidence: Evidence,
    changes: Sequence[ObjectChange],
    created_at: str = "",
    *,
    reverted: bool = False,
    keeps_records: bool = False,
) -> tuple[ObjectChange, Summary] | None:
    """The last change of one object that its controller acts on and that was not reverted, with its description; with
    ``reverted``, changes that only revert another count too. ``keeps_records`` as in ``controller_acts_on``."""
    candidates: list[tuple[ObjectChange, Summary]] = []
    edits: list[Edit] = []
    for number, change in enumerate(reversed(newest_spec_changes(evidence, changes))):
        if change.type in ("ADDED", "DELETED") or is_binding(change):
            continue
        old, new = await evidence.before(change), await evidence.after(change)
        described = summary(change, old, new)
        relevant = relevant_differences(change, old, new, keeps_records=keeps_records)
        if described.weight not in (SPEC, METADATA) or (not relevant and old is not None and new is not None):
            continue
        if reverted or old is None or new is None:
            return change, described
        candidates.append((change, described))
        edits.append(Edit(change.time, tuple(relevant)))
        if number >= _MAX_EDITS:
            break
    index = last_effective_edit(edits[::-1], created_at)
    return None if index is None else candidates[::-1][index]


def relevant_differences(
    change: ObjectChange, old: Document | None, new: Document | None, *, keeps_records: bool = False
) -> list[Difference]:
    """The changed fields that a controller acts on."""
    if old is None or new is None:
        return []
    resource = change.reference.resource
    return [
        difference
        for difference in differences(old, new)
        if controller_acts_on(resource, difference.path, keeps_records=keeps_records)
    ]


def is_binding(change: ObjectChange) -> bool:
    """Whether a change is the binding of a pod, which only sets ``spec.nodeName``."""
    return change.origin is not None and change.origin.subresource == "binding"
