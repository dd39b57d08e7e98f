"""The values that cross the store's edge: records, changes, pages, staged writes.

A change keeps the record it replaced, so that watchers see transitions and lists can go back in time. Keys,
values and records are shared between the current state, the history and every watcher; they must not be changed.
"""

import asyncio
from typing import Any, Literal

import msgspec

from pilothouse.machinery.causes import Origin


class Record(msgspec.Struct, frozen=True, gc=False):
    """One object as it stands: ``revision`` is its last modification, ``created`` the revision that made it."""

    key: str
    value: bytes
    revision: int
    created: int


class Change(msgspec.Struct, gc=False):
    """One committed write.

    ``value`` is the new value, or, for a deletion, the last state as the writer stamped it with the deletion's
    revision. ``before`` is the record that it replaced or removed. ``memo`` belongs to the reader above: whatever is
    worth computing once for all watchers (the encoded event) may be kept there and goes when the history lets the
    change go. ``origin`` is None for what no request has asked for.
    """

    revision: int
    key: str
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    value: bytes
    before: Record | None
    memo: dict[Any, Any] | None = None
    origin: Origin | None = None

    @property
    def previous(self) -> bytes | None:
        """The value before this change, None when the key is new."""
        return None if self.before is None else self.before.value

    @property
    def created(self) -> int:
        """The revision that made the object."""
        return self.revision if self.before is None else self.before.created


class Page(msgspec.Struct, frozen=True, gc=False):
    """Records in key order, all as of ``revision``; ``remaining`` more follow under the same prefix."""

    records: list[Record]
    revision: int
    more: bool
    remaining: int


class Staged(msgspec.Struct, eq=False):
    """A write on its way: its revision is assigned, its fate is not known until ``Store.commit`` returns."""

    change: Change
    record: Record | None
    """What the key holds once this is committed; None for a deletion."""
    resource: str
    """The prefix of the key's resource (``/pods/``)."""
    committed: bool = False
    failure: str = ""
    waiter: "asyncio.Future[None] | None" = None
    """Awaits the commit in a store that takes time for it."""

    @property
    def revision(self) -> int:
        """The revision that this write has if it commits."""
        return self.change.revision
