"""The values in the interface of the store: records, changes, pages, staged writes.

A change has the record that it replaced, so that watchers see transitions and lists can go back in time. Keys, values
and records are shared by the current state, the history and all watchers; they must not be changed.
"""

import asyncio
from typing import Any, Literal

import msgspec

from pilothouse.machinery.causes import Origin


class Record(msgspec.Struct, frozen=True, gc=False):
    """The state of one object: ``revision`` is its last modification, ``created`` the revision of its creation."""

    key: str
    value: bytes
    revision: int
    created: int

    @property
    def size(self) -> int:
        """The size of the value, which may have to be decompressed to be read (``cold_values``)."""
        return len(self.value)

    @property
    def bytes_in_memory(self) -> int:
        """The size of the value in memory, where it may be compressed (``cold_values``)."""
        return len(self.value)


class Change(msgspec.Struct, gc=False):
    """One committed write.

    ``value`` is the new value or, for a deletion, the last state with the deletion's revision. ``old`` is the record
    that it replaced or removed. ``memo`` is for readers: data that is computed once for all watchers (the encoded
    event); it is dropped with the change. ``origin`` is None if no request caused the change.
    """

    revision: int
    key: str
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    value: bytes
    old: Record | None
    memo: dict[Any, Any] | None = None
    origin: Origin | None = None

    @property
    def old_value(self) -> bytes | None:
        """The value before this change, None if the key is new."""
        return None if self.old is None else self.old.value

    @property
    def created(self) -> int:
        """The revision of the object's creation."""
        return self.revision if self.old is None else self.old.created


class Page(msgspec.Struct, frozen=True, gc=False):
    """Records in key order, all at ``revision``; ``remaining`` more follow under the same prefix."""

    records: list[Record]
    revision: int
    more: bool
    remaining: int


class Staged(msgspec.Struct, eq=False):
    """A staged write: it has its revision, but its result is unknown until ``Store.commit`` returns."""

    change: Change
    record: Record | None
    """The record after this is committed; None for a deletion."""
    resource: str
    """The prefix of the key's resource (``/pods/``)."""
    committed: bool = False
    failure: str = ""
    waiter: "asyncio.Future[None] | None" = None
    """The result of the commit in a store that takes time for it."""

    @property
    def revision(self) -> int:
        """The revision of this write, if it is committed; until then, on etcd, a provisional one."""
        return self.change.revision
