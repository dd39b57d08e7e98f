"""The keys and the history of one resource, and the limits of the history.

History is kept per resource, as by upstream's watch caches: a burst of pod changes does not remove the few changes of
Deployments that a reconnecting watch still needs.
"""

from collections import deque

import msgspec

from pilothouse.storage.cold_values import ColdValues
from pilothouse.storage.ordered_keys import OrderedKeys
from pilothouse.storage.records import Change, Record

_OVERHEAD = 400
"""Bytes of one change without its values: the structs, its origin and the entry in the deque."""
_CAUSE_OVERHEAD = 300
"""Bytes of the cause of a change, without its sentence and its triggers."""
_TRIGGER = 400
"""Bytes of a trigger, which has its own strings."""
_FRESH = 1024
"""Maximum number of changes that keep data computed by readers (``Change.memo``): active watchers are rarely further
behind, and others compute it again. It needs as much memory as the values themselves."""
_FRESH_BYTES = 8 * 1024 * 1024
"""Maximum bytes of the values of these changes, of one resource."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How much history is kept. All limits apply; ``changes`` and ``bytes`` per resource, the others to the store.

    etcd behind kube-apiserver keeps 5 to 10 minutes (``--etcd-compaction-interval``, v1.36) and the watch cache at
    least 75 s within its capacity of up to 102,400 events per resource. Bytes count the values that only history keeps
    in memory, and causes; encoded events in ``Change.memo`` are not included.
    """

    seconds: float = 300.0
    changes: int = 50_000
    bytes: int = 32 * 1024 * 1024
    total_bytes: int = 128 * 1024 * 1024
    """Of all resources. The one with the most history drops its oldest changes first."""
    brief: tuple[tuple[str, float], ...] = ()
    """Prefixes of resources whose history is kept for fewer seconds: Leases change every few seconds, and are of no
    interest for the past."""


KEPT = Retention()
"""The default limits."""


class Superseded:
    """Revisions of values that are no longer referenced by a record or the history, for a store that has them on
    disk."""

    __slots__ = ("revisions", "size")

    def __init__(self) -> None:
        self.revisions: list[int] = []
        self.size = 0
        """The size of the values."""

    def add(self, change: Change) -> None:
        """Report values that no longer need to be kept because history drops this change."""
        if change.old is not None:
            self.revisions.append(change.old.revision)
            self.size += len(change.old.value)
        if change.type == "DELETED":
            self.revisions.append(change.revision)
            self.size += len(change.value)


class Collection:
    """One resource: its keys in order, and its changes above ``floor``, oldest first."""

    __slots__ = (
        "_fresh", "_fresh_size", "changes", "cold_values", "floor", "keys", "prefix", "size", "superseded", "written",
    )  # fmt: skip

    def __init__(
        self,
        prefix: str,
        floor: int,
        keys: OrderedKeys | None = None,
        superseded: Superseded | None = None,
        cold_values: ColdValues | None = None,
    ) -> None:
        self.prefix = prefix
        self.keys = keys if keys is not None else OrderedKeys()
        self.changes: deque[Change] = deque()
        self._fresh: deque[Change] = deque()
        """The latest ones."""
        self._fresh_size = 0
        self.size = 0
        self.floor = floor
        """Changes at or below this revision were dropped."""
        self.superseded = superseded
        self.cold_values = cold_values
        self.written = 0
        """How many changes there were since the process started, kept or not."""

    def remember(self, change: Change, retention: Retention) -> None:
        """Add the latest change, and drop changes beyond the limits."""
        changes, fresh = self.changes, self._fresh
        changes.append(change)
        fresh.append(change)
        self._fresh_size += len(change.value)
        self.written += 1
        while len(fresh) > _FRESH or (self._fresh_size > _FRESH_BYTES and len(fresh) > 1):
            self._take_fresh().memo = None
        self.size += _weight(change)
        while self.size > retention.bytes or len(changes) > retention.changes:
            self.drop_oldest()

    def forget(self, revision: int) -> None:
        """Drop everything at or below ``revision``."""
        changes, fresh, superseded, cold_values = self.changes, self._fresh, self.superseded, self.cold_values
        size = 0
        while changes and changes[0].revision <= revision:
            # ``drop_oldest``; almost every change is dropped here, long after it was fresh
            oldest = changes.popleft()
            if fresh[0] is oldest:
                self._take_fresh()
            size += _weight(oldest)
            if superseded is not None:
                superseded.add(oldest)
            if cold_values is not None:
                cold_values.dropped(self.prefix, oldest)
        self.size -= size
        self.floor = max(self.floor, revision)

    def drop_oldest(self) -> None:
        """Drop the oldest change."""
        oldest = self.changes.popleft()
        if self._fresh[0] is oldest:
            self._take_fresh()
        self.size -= _weight(oldest)
        self.floor = oldest.revision
        if self.superseded is not None:
            self.superseded.add(oldest)
        if self.cold_values is not None:
            self.cold_values.dropped(self.prefix, oldest)

    def _take_fresh(self) -> Change:
        change = self._fresh.popleft()
        self._fresh_size -= len(change.value)
        return change

    def since(self, revision: int) -> list[Change]:
        """The changes after ``revision``, oldest first. The cost depends on their number, not on that of the
        history."""
        changes = []
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def undo(self, revision: int) -> dict[str, Record | None]:
        """The values at ``revision`` of the keys that have changed since; None if the key did not exist."""
        previous_records: dict[str, Record | None] = {}
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            # Backwards: the oldest change after the revision is applied last.
            previous_records[change.key] = change.old
        return previous_records


def _weight(change: Change) -> int:
    weight = _OVERHEAD
    if change.old is not None:
        weight += change.old.bytes_in_memory
    if change.type == "DELETED":
        weight += len(change.value)
    origin = change.origin
    if origin is not None:
        cause = origin.cause
        if cause is not None:
            weight += _CAUSE_OVERHEAD + len(cause.decision) + _TRIGGER * len(cause.triggers)
    return weight
