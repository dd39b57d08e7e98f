"""Steps for objects of all kinds: deletion, creation and last change."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why.actors import actor
from pilothouse.why.changes import METADATA, SPEC, summary
from pilothouse.why.deletions import deletion_request
from pilothouse.why.evidence import Document, ObjectChange, newest_spec_changes
from pilothouse.why.requests import is_binding, last_request
from pilothouse.why.steps import NOT_FOUND, UNKNOWN, UNREADABLE, Step, tree_lines
from pilothouse.why.view import Finding, View


async def deleted(view: View) -> Finding:
    """An object that does not exist: who deleted it, or that nothing is recorded."""
    step = await last_deletion(view)
    if step is not None:
        return Finding("deleted", (step,))
    changes = await view.changes()
    if changes:
        # Its last recorded change, such as that it became ready, did not lead to its deletion.
        text = f"{view.title} is gone, and by whom it was deleted is not recorded"
        last = await view.chain.step(changes[-1])
        step = Step(text=text, object=view.title, root=UNKNOWN, table=["recorded before:", *tree_lines(last)])
        return Finding("deleted", (step,))
    step = Step(text=f"{view.title} is not there, and no change of it is known", object=view.title, root=UNKNOWN)
    return Finding(NOT_FOUND, (step,))


async def unreadable(view: View) -> Finding:
    """An object whose read failed: its deletion, if that is recorded, otherwise its last recorded change."""
    changes = await view.changes()
    if changes and changes[-1].type == "DELETED":
        return await deleted(view)
    last = tree_lines(await view.chain.step(changes[-1])) if changes else []
    step = view.step("can't be read", root=UNKNOWN, table=["recorded last:", *last] if last else [])
    return Finding(UNREADABLE, (step,))


async def last_deletion(view: View, uid: str = "") -> Step | None:
    """The step of the last recorded deletion of an object of this name, or of the one with the uid."""
    changes = await view.changes()
    deletions = (change for change in reversed(changes) if change.type == "DELETED" and uid in ("", change.uid))
    last = next(deletions, None)
    return None if last is None else await deletion(view, changes, last)


async def deletion(view: View, changes: list[ObjectChange], deletion_change: ObjectChange) -> Step:
    """The step of a deletion: the delete request with its causes, and when the object was removed."""
    request = await deletion_request(view.evidence, [change for change in changes if change.uid == deletion_change.uid])
    if request is None:
        return await view.chain.step(deletion_change, text="was deleted")
    step = await view.chain.step(request, text="was deleted")
    step.table = [*step.table, *_end_lines(request, deletion_change)]
    return step


def _end_lines(request: ObjectChange, deletion_change: ObjectChange) -> list[str]:
    if deletion_change.revision == request.revision:
        return []
    by = f" by {name}" if (name := actor(deletion_change)) else ""
    return [f"removed at {deletion_change.time[11:19]}{by}, when its deletion was complete"]


async def created(view: View) -> Step | None:
    """The step of the creation; None if it is not recorded."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    creation = next((change for change in changes if change.type == "ADDED"), None)
    return None if creation is None else await view.chain.step(creation)


def unrecorded(view: View) -> Step:
    """The step for an object without recorded changes. If the history is complete, the object is older; otherwise its
    creation, as far as its metadata shows it."""
    if view.evidence.is_complete:
        return view.step("is older than the history", root=UNKNOWN)
    time = str(view.metadata.get("creationTimestamp") or "")
    manager = creating_manager(view.metadata)
    text = "was created" if time or manager else "is there"
    table = [] if manager else ["who created it is not recorded"]
    return view.step(text, root=UNKNOWN, time=time, by=manager, table=table)


def creating_manager(metadata: Mapping[str, Any]) -> str:
    """The field manager that created an object, if its ``managedFields`` show it, otherwise empty.

    An entry has the time of the manager's last write, so the creator is known as long as it has not written again. The
    times of one request may differ by a second.
    """
    try:
        created_at = parse_time(str(metadata.get("creationTimestamp") or ""))
        entries = [
            entry
            for entry in metadata.get("managedFields") or ()
            if entry.get("manager")
            and not entry.get("subresource")
            and abs((parse_time(str(entry.get("time") or "")) - created_at).total_seconds()) <= 1
        ]
    except TimeError:
        return ""
    # Releases before v1.22 record no subresource; a controller adds the status, or an annotation, within a second.
    of_content = [entry for entry in entries if set(entry.get("fieldsV1") or ()) - {"f:metadata", "f:status"}]
    managers = {str(entry["manager"]) for entry in of_content or entries}
    return managers.pop() if len(managers) == 1 else ""


async def last_change(view: View, *, reverted: bool = False) -> Step | None:
    """The step of the last change of the spec that was not reverted; otherwise of the creation. With ``reverted``,
    changes that only revert another count too, since they start a rollout."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    created_at = str(view.metadata.get("creationTimestamp") or "")
    last = await last_request(view.evidence, changes, created_at, reverted=reverted)
    return await view.chain.step(last[0], text=last[1].text) if last is not None else await created(view)


async def newest_change(view: View, *, weights: Collection[int] = (SPEC, METADATA)) -> Step | None:
    """The step of the last change other than a status update; otherwise of the creation. ``weights`` are those of the
    changes that count."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    for change in reversed(newest_spec_changes(view.evidence, changes)):
        described = summary(change, await view.evidence.before(change), await view.evidence.after(change))
        if change.type != "ADDED" and described.weight in weights and not is_binding(change):
            return await view.chain.step(change, text=described.text)
    return await created(view)


async def change_that_set(view: View, is_set: Callable[[Document], bool]) -> Step | None:
    """The step of the last change since which ``is_set`` holds for the object; the creation, if it always did. A change
    without the object before and after counts unless its request is recorded and does not set it."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    for change in reversed(newest_spec_changes(view.evidence, changes)):
        if change.type == "ADDED":
            break
        old, new = await view.evidence.before(change), await view.evidence.after(change)
        if old is None or new is None:
            may_have_set = not change.sent or is_set(change.sent)
        else:
            may_have_set = is_set(new) and not is_set(old)
        if may_have_set:
            return await view.chain.step(change)
    return await created(view)
