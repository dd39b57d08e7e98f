"""Converts the log records of one object to changes: joins both logs, orders them, and finds creation, delete request
and removal. Pure."""

from collections.abc import Callable, Sequence

import msgspec

from pilothouse.machinery.causes import Origin
from pilothouse.why.evidence import ObjectChange, Reference
from pilothouse.why.logs.index import Located
from pilothouse.why.logs.lines import AUDIT, Record

SHIFT = 40
"""A position has the resourceVersion of a write in the high bits, and in the low bits the microseconds since that
version, for writes without one."""
_SAME_SECONDS = 2_000_000
"""Records without a common audit ID are joined if they are at most this far apart (microseconds)."""


class Write(msgspec.Struct, frozen=True):
    """One write, recorded in one log or both."""

    record: Record
    """The fields of both records."""
    locations: tuple[int, ...] = ()
    """The location of the audit event, if there is one."""
    decided: bool = False
    """Whether it is in a decision log."""


def join_records(records: Sequence[Located], request: Callable[[str], Record | None]) -> list[Write]:
    """Join the records of decision and audit logs. ``request`` finds the audit event of a create with generateName."""
    audits = [located for located in records if located.record.source == AUDIT]
    by_id = {audit.record.audit_id: audit for audit in audits if audit.record.audit_id}
    writes: list[Write] = []
    used: set[int] = set()
    for located in records:
        record = located.record
        if record.source == AUDIT:
            continue
        event = by_id.get(record.audit_id) if record.audit_id else _matching_event(record, audits, used)
        if event is not None:
            used.add(event.location)
            writes.append(Write(_merge(record, event.record), (event.location,), decided=True))
        else:
            create_event = request(record.audit_id) if record.audit_id else None
            writes.append(Write(_merge(record, create_event) if create_event is not None else record, decided=True))
    writes += [Write(audit.record, (audit.location,)) for audit in audits if audit.location not in used]
    return writes


def _matching_event(decision: Record, audits: Sequence[Located], used: set[int]) -> Located | None:
    """The audit event of the same write: with the same resourceVersion, or with verb and User-Agent at nearly the same
    time."""
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


def _merge(decision: Record, event: Record) -> Record:
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
    """The position of a write in the order of all writes: by its resourceVersion, or by its time."""
    if version:
        return version << SHIFT
    before, since = version_at(at)
    return (before << SHIFT) + min(max(at - since, 0) + 1, (1 << SHIFT) - 1)


def version_before(position_: int) -> int:
    """The last resourceVersion at or before a position."""
    return position_ >> SHIFT


class Timeline(msgspec.Struct, frozen=True):
    """The changes of one object, oldest first, and their log records."""

    changes: tuple[ObjectChange, ...]
    writes: dict[int, Write]
    """By the position of the change."""


def build_timeline(
    reference: Reference,
    writes: Sequence[Write],
    version_at: Callable[[int], tuple[int, int]],
    live: tuple[str, str] | None,
) -> Timeline:
    """Build the timeline. ``live`` is the uid and the creationTimestamp of the existing object; None if there is
    none."""
    placed: dict[int, Write] = {}
    for write in sorted(writes, key=lambda write: write.record.at):
        position_ = position(write.record.version, write.record.at, version_at)
        while position_ in placed:
            position_ += 1  # a no-op update or the final deletion, whose response has an earlier version
        placed[position_] = write
    objects = _split_by_object(sorted(placed.items()))
    changes: list[ObjectChange] = []
    for number, members in enumerate(objects):
        is_live = live is not None and number == len(objects) - 1 and not _is_older(members, live)
        if not is_live:
            _move_before_removal(members, placed)
        uid = (live[0] if is_live and live is not None else "") or _uid(members) or f"life {number}"
        types = _types(members, is_over=not is_live)
        for (position_, write), type_ in zip(members, types, strict=True):
            changes.append(_change(reference, position_, write, type_, uid))
    return Timeline(tuple(changes), placed)


def _change(reference: Reference, position_: int, write: Write, type_: str, uid: str) -> ObjectChange:
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
        position_,
        uid,
        record.time,
        origin,
        record.cause if write.decided else None,
        str(record.version) if position_ == record.version << SHIFT else "",
    )


_Placed = tuple[int, Write]


def _split_by_object(placed: Sequence[_Placed]) -> list[list[_Placed]]:
    """Split the writes of a name by object: a create or another uid starts a new one."""
    objects: list[list[_Placed]] = []
    uid = ""
    for member in placed:
        record = member[1].record
        if not objects or _creates(record) or (uid and record.uid and record.uid != uid):
            objects.append([])
            uid = ""
        objects[-1].append(member)
        uid = uid or record.uid
    return objects


def _creates(record: Record) -> bool:
    return not record.subresource and (record.verb == "create" or record.code == 201)


def deletes(record: Record) -> bool:
    """Whether a write is a delete request or eviction."""
    return record.verb in ("delete", "deletecollection") or record.subresource == "eviction"


def _move_before_removal(members: list[_Placed], placed: dict[int, Write]) -> None:
    """Move writes that can't remove an object before the last one that can. Writes without a resourceVersion are
    ordered by the time of the request, and a busy server may execute a later binding before an earlier deletion."""
    removal = next((at for at in reversed(range(len(members))) if _may_remove(members[at][1].record)), None)
    if removal is None or not any(deletes(write.record) for _place, write in members):
        return
    for at in reversed(range(removal + 1, len(members))):
        position_, write = members[at]
        if write.record.version:
            continue
        del placed[position_]
        position_ = members[removal][0] - 1
        while position_ in placed:
            position_ -= 1
        placed[position_] = write
        members[at] = (position_, write)
    members.sort(key=lambda member: member[0])


def _may_remove(record: Record) -> bool:
    """Whether a write may remove an object: a deletion, or an update that removes the last finalizer."""
    return record.subresource in ("", "eviction", "finalize")


def _uid(members: Sequence[_Placed]) -> str:
    return next((write.record.uid for _place, write in members if write.record.uid), "")


def _is_older(members: Sequence[_Placed], live: tuple[str, str]) -> bool:
    """Whether the writes are of an earlier object with the name of the existing one."""
    uid = _uid(members)
    if uid:
        return uid != live[0]
    return members[-1][1].record.time[:19] < live[1][:19]


def _types(members: Sequence[_Placed], *, is_over: bool) -> list[str]:
    """ADDED, MODIFIED or DELETED. The first delete request only sets deletionTimestamp; the last write of an object
    that no longer exists removed it."""
    types = ["ADDED" if _creates(write.record) else "MODIFIED" for _place, write in members]
    if is_over and any(deletes(write.record) for _place, write in members):
        types[-1] = "DELETED"
    return types
