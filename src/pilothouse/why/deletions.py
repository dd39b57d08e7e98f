"""Finds the delete request of an object: with finalizers or a grace period it only sets deletionTimestamp."""

from collections.abc import Sequence

from pilothouse.why.changes import asks_deletion
from pilothouse.why.evidence import Document, Evidence, ObjectChange


async def deletion_request(evidence: Evidence, changes: Sequence[ObjectChange]) -> ObjectChange | None:
    """The change that set deletionTimestamp; None if the object was deleted immediately, or the change is not recorded.

    ``changes`` are those of one object. deletionTimestamp is never unset, so bisection finds it.
    """
    updates = [change for change in changes if change.type != "DELETED"]
    low, high = 0, len(updates)
    while low < high:
        middle = (low + high) // 2
        if _is_terminating(await evidence.after(updates[middle])):
            high = middle
        else:
            low = middle + 1
    for change in updates[:low]:
        # Without the object, the verb of the request shows it.
        if asks_deletion(change) and await evidence.after(change) is None:
            return change
    return None if low == len(updates) or _is_terminating(await evidence.before(updates[low])) else updates[low]


def _is_terminating(document: Document | None) -> bool:
    return bool(document and (document.get("metadata") or {}).get("deletionTimestamp"))
