"""The request that began a deletion: objects with finalizers or a grace period are marked first, and removed later."""

from collections.abc import Sequence

from pilothouse.why.changes import asks_deletion
from pilothouse.why.evidence import Document, Evidence, ObjectChange


async def deletion_request(evidence: Evidence, changes: Sequence[ObjectChange]) -> ObjectChange | None:
    """The change that marked an object for deletion; None if it was deleted at once, or history does not have it.

    ``changes`` are those of one object. The mark is never removed, so it is found by bisection.
    """
    kept = [change for change in changes if change.type != "DELETED"]
    low, high = 0, len(kept)
    while low < high:
        middle = (low + high) // 2
        if _is_marked(await evidence.after(kept[middle])):
            high = middle
        else:
            low = middle + 1
    for each in kept[:low]:
        # A state that is not known can't show the mark: the request says so.
        if asks_deletion(each) and await evidence.after(each) is None:
            return each
    return None if low == len(kept) or _is_marked(await evidence.before(kept[low])) else kept[low]


def _is_marked(document: Document | None) -> bool:
    return bool(document and (document.get("metadata") or {}).get("deletionTimestamp"))
