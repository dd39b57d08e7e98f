"""The writes of one transaction of etcd, and its result."""

import asyncio

import msgspec

from pilothouse.storage.errors import StoreError
from pilothouse.storage.etcd import messages
from pilothouse.storage.records import Staged


class Write:
    """A staged write, in a transaction."""

    __slots__ = ("data", "etcd_key", "prior", "staged")

    def __init__(self, staged: Staged, prior: Staged | None, etcd_key: bytes) -> None:
        self.staged = staged
        self.prior = prior
        """The staged write that this one was checked against, if that was not committed yet."""
        self.etcd_key = etcd_key
        self.data: bytes | None = None
        """None deletes the key. Set when it is sent."""

    @property
    def expected(self) -> int:
        """The revision of the last change of the key that the transaction requires; known once ``prior`` is stored."""
        if self.prior is not None:
            record = self.prior.record
        else:
            record = self.staged.change.old
        return 0 if record is None else record.revision


class KnownPair(msgspec.Struct, frozen=True):
    """The part of etcd's ``KeyValue`` that a server knows of a change without having received it: without the revision
    of the creation."""

    key: bytes
    value: bytes
    mod_revision: int
    create_revision: int = 0


class OwnEvent(msgspec.Struct, frozen=True):
    """etcd's ``Event`` about it."""

    type: int
    kv: KnownPair


class Transaction:
    """All writes of one call of ``stage``: a write, and those that its hooks have staged. They become visible
    atomically, under one revision."""

    __slots__ = ("after", "dependents", "failure", "previous", "task", "writes")

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.after: list[Transaction] = []
        """The transactions that must be carried out before, because they write the same keys."""
        self.dependents: list[Transaction] = []
        """The transactions that were checked against the result of this one."""
        self.failure: StoreError | None = None
        self.previous: Transaction | None = None
        """A transaction that was staged in the same step: without it, this one must not be carried out."""
        self.task: asyncio.Task[StoreError | None] | None = None
        """The task that carries it out; its result is the error."""

    def events(self, revision: int) -> list[OwnEvent]:
        """Those that etcd reports of it, if it has given it that revision."""
        return [
            OwnEvent(
                messages.DELETE if write.data is None else messages.PUT,
                KnownPair(write.etcd_key, write.data or b"", revision),
            )
            for write in self.writes
        ]

    def has(self, key: str) -> bool:
        """Whether it writes that key."""
        return any(write.staged.change.key == key for write in self.writes)
