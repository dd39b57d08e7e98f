"""The result of a run: checked histories of each object, lists, watches, and acknowledged writes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec
from tests.robustness.linearizability import Operation, Outcome, Undecided, Verb, linearized
from tests.robustness.watch_guarantees import Snapshot, Stored, Watch, list_violations, violations


def resolved(history: Sequence[Operation], stored: Sequence[Stored]) -> list[Operation]:
    """Writes without an answer whose value etcd has get their revision; those that it never had are left out.

    Deletions without an answer stay open: what etcd has does not say whose they were.
    """
    revisions = {one.value: one.revision for one in stored if one.value}
    found = []
    for one in history:
        if one.outcome is Outcome.UNKNOWN and one.verb is not Verb.DELETE:
            if one.value in revisions:
                found.append(msgspec.structs.replace(one, revision=revisions[one.value]))
        else:
            found.append(one)
    return found


def lost_writes(operations: Iterable[tuple[str, Operation]], stored: Sequence[Stored]) -> list[str]:
    """Acknowledged writes that are missing or different in etcd, and duplicate values."""
    has = {(one.revision, one.key, one.value) for one in stored}
    found = [
        f"lost write: {one.verb.value} {name} = {one.value} at {one.revision}"
        for name, one in operations
        if one.outcome is Outcome.OK and one.verb in (Verb.CREATE, Verb.UPDATE)
        if (one.revision, name, one.value) not in has
    ]
    times = Counter(one.value for one in stored if one.value)
    return found + [
        f"doubled write: {value} was stored {number} times" for value, number in times.items() if number > 1
    ]


def check(
    operations: Sequence[tuple[str, Operation]],
    stored: Sequence[Stored],
    watches: Sequence[Watch],
    snapshots: Sequence[Snapshot],
) -> list[str]:
    """All violations of a run. ``stored`` must be complete."""
    found = lost_writes(operations, stored)
    by_name: dict[str, list[Operation]] = defaultdict(list)
    stored_by_name: dict[str, list[Stored]] = defaultdict(list)
    for name, operation in operations:
        by_name[name].append(operation)
    for one in stored:
        stored_by_name[one.key].append(one)
    for name, history in by_name.items():
        try:
            fits, order = linearized(resolved(history, stored_by_name[name]))
        except Undecided as error:
            found.append(f"undecided: {name}: {error}")
            continue
        if not fits:
            left = [one for one in resolved(history, stored_by_name[name]) if one not in order]
            left.sort(key=lambda one: one.end)
            found.append(
                f"not linearizable: {name} after {order[-4:]}: one of {left[:4]}; stored {stored_by_name[name]}"
            )
    return [*found, *list_violations(stored, snapshots), *violations(stored, watches)]
