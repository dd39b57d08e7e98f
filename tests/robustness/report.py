"""The result of a run: checked histories of each object, lists, watches, and acknowledged writes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec
from tests.robustness.linearizability import Operation, Outcome, Undecided, Verb, linearized
from tests.robustness.watch_guarantees import Snapshot, Stored, Watch, list_violations, violations


def resolved(history: Sequence[Operation], stored: Sequence[Stored]) -> list[Operation]:
    """Writes without a response whose value is in etcd get their revision; others are removed.

    Deletions without a response remain undecided: etcd does not record who deleted.
    """
    revisions = {one.value: one.revision for one in stored if one.value}
    result = []
    for item in history:
        if item.outcome is Outcome.UNKNOWN and item.verb is not Verb.DELETE:
            if item.value in revisions:
                result.append(msgspec.structs.replace(item, revision=revisions[item.value]))
        else:
            result.append(item)
    return result


def lost_writes(operations: Iterable[tuple[str, Operation]], stored: Sequence[Stored]) -> list[str]:
    """Acknowledged writes that are missing or different in etcd, and duplicate values."""
    has = {(item.revision, item.key, item.value) for item in stored}
    result = [
        f"lost write: {one.verb.value} {name} = {one.value} at {one.revision}"
        for name, one in operations
        if one.outcome is Outcome.OK and one.verb in (Verb.CREATE, Verb.UPDATE)
        if (one.revision, name, one.value) not in has
    ]
    times = Counter(item.value for item in stored if item.value)
    return result + [
        f"doubled write: {value} was stored {number} times" for value, number in times.items() if number > 1
    ]


def check(
    operations: Sequence[tuple[str, Operation]],
    stored: Sequence[Stored],
    watches: Sequence[Watch],
    snapshots: Sequence[Snapshot],
) -> list[str]:
    """All violations of a run. ``stored`` must be complete."""
    result = lost_writes(operations, stored)
    by_name: dict[str, list[Operation]] = defaultdict(list)
    stored_by_name: dict[str, list[Stored]] = defaultdict(list)
    for name, operation in operations:
        by_name[name].append(operation)
    for item in stored:
        stored_by_name[item.key].append(item)
    for name, history in by_name.items():
        try:
            fits, order = linearized(resolved(history, stored_by_name[name]))
        except Undecided as error:
            result.append(f"undecided: {name}: {error}")
            continue
        if not fits:
            remaining = [one for one in resolved(history, stored_by_name[name]) if one not in order]
            remaining.sort(key=lambda one: one.end)
            result.append(
                f"not linearizable: {name} after {order[-4:]}: one of {remaining[:4]}; stored {stored_by_name[name]}"
            )
    return [*result, *list_violations(stored, snapshots), *violations(stored, watches)]
