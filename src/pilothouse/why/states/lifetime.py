"""What holds for objects of all kinds: that they are gone, are being deleted, were created or last changed."""

from pilothouse.why.actors import who
from pilothouse.why.changes import METADATA, SPEC, summary
from pilothouse.why.deletions import deletion_request
from pilothouse.why.evidence import ObjectChange, newest_of_spec
from pilothouse.why.requests import is_binding, last_request
from pilothouse.why.steps import NOT_FOUND, UNKNOWN, Step
from pilothouse.why.view import Finding, View


async def gone(view: View) -> Finding:
    """An object that is not there: who deleted it, or why nothing is known of it."""
    changes = await view.changes()
    ended = next((change for change in reversed(changes) if change.type == "DELETED"), None)
    if ended is None and changes:
        last = await view.chain.step(changes[-1])
        text = f"{view.title} is gone, and its deletion is not recorded; what is known last of it follows"
        return Finding("deleted", (Step(text=text, object=view.title, because=[last]),))
    if ended is None:
        step = Step(text=f"{view.title} is not there, and no change of it is known", object=view.title, root=UNKNOWN)
        return Finding(NOT_FOUND, (step,))
    return Finding("deleted", (await deletion(view, changes, ended),))


async def deletion(view: View, changes: list[ObjectChange], ended: ObjectChange) -> Step:
    """The step of a deletion. Of one that took its time, what led to it is what led to its beginning."""
    asked = await deletion_request(view.evidence, [change for change in changes if change.uid == ended.uid])
    if asked is None:
        return await view.chain.step(ended, text="was deleted")
    step = await view.chain.step(asked, text="was deleted")
    step.table = [*step.table, *_end_lines(asked, ended)]
    return step


def _end_lines(asked: ObjectChange, ended: ObjectChange) -> list[str]:
    if ended.revision == asked.revision:
        return []
    by = who(ended)
    return [f"removed at {ended.time[11:19]}{f' by {by}' if by else ''}, when its deletion was complete"]


async def created(view: View) -> Step | None:
    """The step of the creation, if history has it."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    made = next((change for change in changes if change.type == "ADDED"), None)
    return None if made is None else await view.chain.step(made)


async def last_change(view: View, *, undone: bool = False) -> Step | None:
    """The step of the last change of what the object asks for that still holds; of its creation, if there was none.
    ``undone``: also a change that only took back another, which a rollout may be due to."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    born = str(view.metadata.get("creationTimestamp") or "")
    found = await last_request(view.evidence, changes, born, undone=undone)
    return await view.chain.step(found[0], text=found[1].text) if found is not None else await created(view)


async def newest_change(view: View) -> Step | None:
    """The step of the last change of anything but the status; of the creation, if there was none."""
    changes = [change for change in await view.changes() if not view.uid or change.uid == view.uid]
    for each in reversed(newest_of_spec(view.evidence, changes)):
        described = summary(each, await view.evidence.before(each), await view.evidence.after(each))
        if each.type != "ADDED" and described.weight in (SPEC, METADATA) and not is_binding(each):
            return await view.chain.step(each, text=described.text)
    return await created(view)
