"""What somebody asked of an object: the changes of its spec, without those that were taken back or that do nothing."""

from collections.abc import Sequence

from pilothouse.machinery.differences import Difference, differences
from pilothouse.why.changes import METADATA, SPEC, Summary, summary
from pilothouse.why.evidence import Document, Evidence, ObjectChange, newest_of_spec
from pilothouse.why.standing import Edit, acts, last_standing

_MOST_EDITS = 30
"""Of so many of the last changes it is found out whether they were taken back."""


async def last_request(
    evidence: Evidence,
    changes: Sequence[ObjectChange],
    born: str = "",
    *,
    undone: bool = False,
    keeps_records: bool = False,
) -> tuple[ObjectChange, Summary] | None:
    """The last of the changes of one object that asks its controller for something and still holds; with ``undone``,
    also if it only took back another. ``keeps_records`` as in ``acts``."""
    found: list[tuple[ObjectChange, Summary]] = []
    edits: list[Edit] = []
    for number, each in enumerate(reversed(newest_of_spec(evidence, changes))):
        if each.type in ("ADDED", "DELETED") or is_binding(each):
            continue
        before, after = await evidence.before(each), await evidence.after(each)
        described = summary(each, before, after)
        acting = acting_differences(each, before, after, keeps_records=keeps_records)
        if described.weight not in (SPEC, METADATA) or (not acting and before is not None and after is not None):
            continue
        if undone or before is None or after is None:
            return each, described
        found.append((each, described))
        edits.append(Edit(each.time, tuple(acting)))
        if number >= _MOST_EDITS:
            break
    place = last_standing(edits[::-1], born)
    return None if place is None else found[::-1][place]


def acting_differences(
    change: ObjectChange, before: Document | None, after: Document | None, *, keeps_records: bool = False
) -> list[Difference]:
    """The fields that a change changed, and that make a controller do something."""
    if before is None or after is None:
        return []
    resource = change.reference.resource
    return [
        difference
        for difference in differences(before, after)
        if acts(resource, difference.path, keeps_records=keeps_records)
    ]


def is_binding(change: ObjectChange) -> bool:
    """Whether a change is the binding of a pod: its spec then is what it was created with."""
    return change.origin is not None and change.origin.subresource == "binding"
