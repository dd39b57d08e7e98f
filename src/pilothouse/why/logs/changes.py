"""The records of one object as changes of it: which of them created it, asked for its deletion and removed it, and in
which order with those of other objects. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from pilothouse.machinery.causes import Origin
from pilothouse.why.evidence import ObjectChange, Reference
from pilothouse.why.logs.index import Located
from pilothouse.why.logs.lines import AUDIT, Record

SHIFT = 40
"""A position is the resourceVersion of a write, and below it the microseconds since, for writes without one."""
_SAME_SECONDS = 2_000_000
"""Two records without a common id are of one write if they are not farther apart."""


class Write(msgspec.Struct, frozen=True):
    """One write, of which one log or both have a record."""

    record: Record
    """With all that is known."""
    locations: tuple[int, ...] = ()
    """Of the audit event, if there is one."""
    decided: bool = False
    """A decision log has it."""


def joined(found: Sequence[Located], request: Callable[[str], Record | None]) -> list[Write]:
    """The writes, each once. ``request`` finds the audit event of a request whose object had no name yet."""
    audits = [each for each in found if each.record.source == AUDIT]
    by_id = {audit.record.audit_id: audit for audit in audits if audit.record.audit_id}
    writes: list[Write] = []
    used: set[int] = set()
    for each in found:
        record = each.record
        if record.source == AUDIT:
            continue
        event = by_id.get(record.audit_id) if record.audit_id else _alike(record, audits, used)
        if event is not None:
            used.add(event.location)
            writes.append(Write(_merged(record, event.record), (event.location,), decided=True))
        else:
            named = request(record.audit_id) if record.audit_id else None
            writes.append(Write(_merged(record, named) if named is not None else record, decided=True))
    writes += [Write(audit.record, (audit.location,)) for audit in audits if audit.location not in used]
    return writes


def _alike(decision: Record, audits: Sequence[Located], used: set[int]) -> Located | None:
    """The audit event of the same write: resourceVersion, or verb and agent at the same time."""
    for audit in audits:
        record = audit.record
        if audit.location in used or (record.verb, record.subresource) != (decision.verb, decision.subresource):
            continue
        if record.version and decision.version:
            if record.version == decision.version:
                return audit
        elif record.user_agent == decision.user_agent and abs(record.at - decision.at) <= _SAME_SECONDS:
            return audit
    return None


def _merged(decision: Record, event: Record) -> Record:
    return msgspec.structs.replace(
        decision,
        time=event.time,
        at=event.at,
        uid=decision.uid or event.uid,
        version=decision.version or event.version,
        user=event.user,
        user_agent=event.user_agent,
        field_manager=event.field_manager,
        audit_id=event.audit_id,
        level=event.level,
    )


def position(version: int, at: int, version_at: Callable[[int], tuple[int, int]]) -> int:
    """Where a write stands among all: by its resourceVersion, or between those that were known at its time."""
    if version:
        return version << SHIFT
    before, since = version_at(at)
    return (before << SHIFT) + min(max(at - since, 0) + 1, (1 << SHIFT) - 1)


def version_before(place: int) -> int:
    """The last resourceVersion up to a position."""
    return place >> SHIFT


class Timeline(msgspec.Struct, frozen=True):
    """The changes of one object, oldest first, and the write that each is."""

    changes: tuple[ObjectChange, ...]
    writes: dict[int, Write]
    """By the position of the change."""


def timeline(
    reference: Reference,
    writes: Sequence[Write],
    version_at: Callable[[int], tuple[int, int]],
    live: tuple[str, str] | None,
) -> Timeline:
    """``live`` is the uid and the creationTimestamp of the object that is there now; None if there is none."""
    placed: dict[int, Write] = {}
    for each in sorted(writes, key=lambda write: write.record.at):
        place = position(each.record.version, each.record.at, version_at)
        while place in placed:
            place += 1  # it changed nothing or removed the object, and was answered with the version that there was
        placed[place] = each
    lives = _lives(sorted(placed.items()))
    changes: list[ObjectChange] = []
    for number, members in enumerate(lives):
        is_live = live is not None and number == len(lives) - 1 and not _is_older(members, live)
        if not is_live:
            _end_with_removal(members, placed)
        uid = (live[0] if is_live and live is not None else "") or _uid(members) or f"life {number}"
        types = _types(members, is_over=not is_live)
        for (place, write), type_ in zip(members, types, strict=True):
            changes.append(_change(reference, place, write, type_, uid))
    return Timeline(tuple(changes), placed)


def _change(reference: Reference, place: int, write: Write, type_: str, uid: str) -> ObjectChange:
    record = write.record
    origin = Origin(
        record.user,
        record.user_agent,
        record.verb,
        record.subresource,
        record.field_manager,
        record.audit_id,
        record.cause,
    )
    return ObjectChange(
        reference,
        type_,
        place,
        uid,
        record.time,
        origin,
        record.cause if write.decided else None,
        str(record.version) if place == record.version << SHIFT else "",
    )


_Placed = tuple[int, Write]


def _lives(placed: Sequence[_Placed]) -> list[list[_Placed]]:
    """The writes of each object of the name: one begins with a creation, or with another uid."""
    lives: list[list[_Placed]] = []
    uid = ""
    for each in placed:
        record = each[1].record
        if not lives or _creates(record) or (uid and record.uid and record.uid != uid):
            lives.append([])
            uid = ""
        lives[-1].append(each)
        uid = uid or record.uid
    return lives


def _creates(record: Record) -> bool:
    return not record.subresource and (record.verb == "create" or record.code == 201)


def deletes(record: Record) -> bool:
    """Whether a write asks for a deletion."""
    return record.verb in ("delete", "deletecollection") or record.subresource == "eviction"


def _end_with_removal(members: list[_Placed], placed: dict[int, Write]) -> None:
    """Place writes that can't have removed an object before the one that did.

    A write without a resourceVersion has its place by the time at which its request came, and requests overtake each
    other: a busy server may carry out a binding, which came later, before the deletion.
    """
    removal = next((at for at in reversed(range(len(members))) if _may_remove(members[at][1].record)), None)
    if removal is None or not any(deletes(each.record) for _place, each in members):
        return
    for at in reversed(range(removal + 1, len(members))):
        place, write = members[at]
        if write.record.version:
            continue
        del placed[place]
        place = members[removal][0] - 1
        while place in placed:
            place -= 1
        placed[place] = write
        members[at] = (place, write)
    members.sort(key=lambda member: member[0])


def _may_remove(record: Record) -> bool:
    """Whether a write may be the last of an object: it deletes it, or takes its last finalizer away."""
    return record.subresource in ("", "eviction", "finalize")


def _uid(members: Sequence[_Placed]) -> str:
    return next((each.record.uid for _place, each in members if each.record.uid), "")


def _is_older(members: Sequence[_Placed], live: tuple[str, str]) -> bool:
    """Whether the writes are of an earlier object of the name than the one that is there."""
    uid = _uid(members)
    if uid:
        return uid != live[0]
    return members[-1][1].record.time[:19] < live[1][:19]


def _types(members: Sequence[_Placed], *, is_over: bool) -> list[str]:
    """ADDED, MODIFIED or DELETED. A deletion takes its time: the first that asks for it marks the object, and the last
    write of an object that is gone is what removed it."""
    types = ["ADDED" if _creates(each.record) else "MODIFIED" for _place, each in members]
    if is_over and any(deletes(each.record) for _place, each in members):
        types[-1] = "DELETED"
    return types
