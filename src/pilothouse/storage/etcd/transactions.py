"""What is written with one transaction of etcd, and what became of it."""

import asyncio

from pilothouse.storage.errors import StoreError
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
        """None removes the key. Set when it is sent."""

    @property
    def expected(self) -> int:
        """The revision of the last change of the key that the transaction requires; known once ``prior`` is stored."""
        if self.prior is not None:
            record = self.prior.record
        else:
            record = self.staged.change.before
        return 0 if record is None else record.revision


class Transaction:
    """All that ``stage`` has staged in one call: a write, and what its hooks have staged with it. It becomes visible
    under one revision, as a whole."""

    __slots__ = ("after", "belongs_to", "built_on", "failure", "task", "writes")

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.after: list[Transaction] = []
        """Those that must have been carried out before, since they write the same keys."""
        self.built_on: list[Transaction] = []
        """Those that were checked against what this one writes."""
        self.failure: StoreError | None = None
        self.belongs_to: Transaction | None = None
        """One that was staged in the same step: without it, this one is not to be carried out either."""
        self.task: asyncio.Task[StoreError | None] | None = None
        """Carries it out; its result is what went wrong."""

    def has(self, key: str) -> bool:
        """Whether it writes that key."""
        return any(write.staged.change.key == key for write in self.writes)
