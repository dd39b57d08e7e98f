"""Watchers, and the index that finds the watchers of a change.

The store delivers each commit's changes in one batch to the watchers of all prefixes of the changed key: watchers of
other resources, namespaces or objects cost nothing. All watchers of one prefix get the *same* list.
"""

import asyncio
from collections.abc import Callable, Iterator

from pilothouse.storage.errors import WatcherOverrun
from pilothouse.storage.records import Change

CAPACITY = 4096
"""Maximum number of changes that wait for one watcher. Upstream's channels have 10 to 1,000, and block for up to 50 ms
when full (``storage/cacher``, v1.36); here writers never wait."""

WAITING_BYTES = 32 * 1024 * 1024
"""The maximum size of the changes that may wait for one watcher; as much as the history of a resource
(``Retention``)."""


class Watcher:
    """The committed changes under one prefix, in revision order, in batches: an asynchronous iterator for one reader.

    No change is skipped or repeated, even if a wait is cancelled. If more than ``capacity`` changes, or more than
    ``WAITING_BYTES``, wait for the reader, the watcher is ended: the reader still gets the waiting ones, then
    ``WatcherOverrun`` is raised. A batch is always accepted if nothing is waiting, whatever its size. ``close`` ends
    the iteration; so does closing the store. Batches are shared between watchers and must not be changed.
    """

    __slots__ = (
        "_after",
        "_bytes",
        "_closed",
        "_index",
        "_pending",
        "_waiter",
        "_waiting",
        "capacity",
        "handler",
        "overrun",
        "prefix",
    )

    def __init__(self, index: "WatcherIndex", prefix: str, after: int, backlog: list[Change], capacity: int) -> None:
        self._index = index
        self._after = after
        self._pending: list[list[Change]] = [backlog] if backlog else []
        self._waiting = len(backlog)
        self._bytes = size_of(backlog)
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self.prefix = prefix
        self.capacity = capacity
        self.overrun = False
        """Whether the reader was too slow and gets no further changes."""
        self.handler: Callable[[list[Change]], bool] | None = None
        """Handles changes while the reader waits, without waking it; if it returns false, the changes are queued."""

    @property
    def accepts_direct_delivery(self) -> bool:
        """Whether the reader is waiting, and has a handler for changes."""
        waiter = self._waiter
        return self.handler is not None and waiter is not None and not waiter.done() and not self._pending

    @property
    def idle(self) -> bool:
        """Whether the reader has everything up to the store's revision, so that it may send a bookmark."""
        return not (self._pending or self.overrun or self._closed)

    def __aiter__(self) -> "Watcher":
        return self

    async def __anext__(self) -> list[Change]:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            if self.overrun:
                bounds = f"{self.capacity} changes or {WAITING_BYTES} bytes of them"
                raise WatcherOverrun(f"more than {bounds} under {self.prefix!r} waited for their reader")
            await self.changed()
        return self.take()

    @property
    def ended(self) -> bool:
        """Whether nothing will be delivered but what is already waiting."""
        return self._closed or self.overrun

    async def changed(self) -> None:
        """Return when there may be something to ``take``, the watcher has ended, or ``nudge`` was called."""
        if self._pending or self._closed or self.overrun:
            return
        assert self._waiter is None, "a watcher has one reader"
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def nudge(self) -> None:
        """Make a reader that waits in ``changed`` check again."""
        self._notify()

    def take(self) -> list[Change]:
        """The waiting changes, without waiting; possibly none."""
        pending = self._pending
        if not pending:
            return []
        self._pending = []
        self._waiting = self._bytes = 0
        return pending[0] if len(pending) == 1 else [change for batch in pending for change in batch]

    def close(self) -> None:
        """Receive nothing more, and end the iteration. Idempotent."""
        if not self._closed:
            self._closed = True
            self._pending = []
            self._waiting = self._bytes = 0
            self._index.remove(self)
            self._notify()

    def deliver_directly(self, batch: list[Change]) -> bool:
        """Called by the store if ``accepts_direct_delivery``. Returns whether the reader has handled the changes."""
        assert self.handler is not None, "accepts_direct_delivery was checked"
        return batch[0].revision > self._after and self.handler(batch)

    def deliver(self, batch: list[Change], size: int) -> None:
        """Called by the store with a commit's changes under this prefix, and their size in bytes."""
        if batch[0].revision <= self._after:
            # A watch may start at a future revision; changes until then are not delivered to it.
            batch = [change for change in batch if change.revision > self._after]
            if not batch:
                return
        waiting, total_bytes = self._waiting + len(batch), self._bytes + size
        if self._pending and (waiting > self.capacity or total_bytes > WAITING_BYTES):
            self.overrun = True
            self._index.remove(self)
        else:
            self._pending.append(batch)
            self._waiting, self._bytes = waiting, total_bytes
        self._notify()

    def _notify(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def size_of(changes: list[Change]) -> int:
    """The size of the objects in these changes."""
    return sum([len(change.value) for change in changes])


class WatcherIndex:
    """Watchers by prefix. Within a prefix, and between prefixes, they are notified in the order in which they were
    opened."""

    __slots__ = ("_by_prefix", "_narrow", "_wide", "deliveries")

    def __init__(self) -> None:
        self.deliveries = 0
        """The number of delivered batches, counting each watcher."""
        self._by_prefix: dict[str, dict[Watcher, None]] = {}
        self._narrow: dict[str, int] = {}
        """The number of watchers of less than a resource, by the resource's prefix."""
        self._wide = 0
        """The number of watchers of more than one resource."""

    def add(self, watcher: Watcher) -> None:
        """Add a watcher, which gets the following commits."""
        self._by_prefix.setdefault(watcher.prefix, {})[watcher] = None
        self._count(watcher.prefix, 1)

    def remove(self, watcher: Watcher) -> None:
        """Remove a watcher. Idempotent."""
        watchers = self._by_prefix.get(watcher.prefix)
        if watchers is None or watcher not in watchers:
            return
        del watchers[watcher]
        if not watchers:
            del self._by_prefix[watcher.prefix]
        self._count(watcher.prefix, -1)

    def _count(self, prefix: str, difference: int) -> None:
        end = resource_end(prefix)
        if not end:
            self._wide += difference
        elif end < len(prefix):
            resource = prefix[:end]
            self._narrow[resource] = self._narrow.get(resource, 0) + difference
            if not self._narrow[resource]:
                del self._narrow[resource]

    def __len__(self) -> int:
        return sum(map(len, self._by_prefix.values()))

    def __iter__(self) -> Iterator[Watcher]:
        return iter([watcher for watchers in self._by_prefix.values() for watcher in watchers])

    def publish(self, changes: list[Change], resources: list[str], *, direct: bool = False) -> None:
        """Deliver one commit's changes to their watchers. ``resources`` has the prefix of each one's resource.

        ``direct``: readers that support it are called without a wakeup. Either all watchers of a change or none,
        because their order must be kept.
        """
        by_prefix = self._by_prefix
        if not by_prefix:
            return
        if len(changes) == 1 and not self._wide and resources[0] not in self._narrow:
            # The usual case in memory: one change, for watchers of the whole resource.
            watchers = by_prefix.get(resources[0])
            if watchers is not None:
                self.deliveries += len(watchers)
                if direct:
                    for watcher in watchers:
                        if not watcher.accepts_direct_delivery:
                            direct = False
                            break
                for watcher in list(watchers):
                    if not (direct and watcher.deliver_directly(changes)):
                        watcher.deliver(changes, len(changes[0].value))
            return
        batches: dict[str, list[Change]] = {}
        for change, resource in zip(changes, resources, strict=True):
            for prefix in self._prefixes(change.key, resource):
                if prefix in by_prefix:
                    batch = batches.get(prefix)
                    if batch is None:
                        batches[prefix] = [change]
                    else:
                        batch.append(change)
        for prefix, batch in batches.items():
            size = size_of(batch)
            watchers = by_prefix[prefix]
            self.deliveries += len(watchers)
            for watcher in list(watchers):
                watcher.deliver(batch, size)

    def _prefixes(self, key: str, resource: str) -> list[str]:
        """The prefixes of a key that may have watchers, given which widths exist."""
        prefixes = [resource]
        if self._wide:
            prefixes += ["", key[: key.index("/") + 1]]
        if self._narrow and resource in self._narrow:
            end = key.find("/", len(resource)) + 1
            while end:
                prefixes.append(key[:end])
                end = key.find("/", end) + 1
            prefixes.append(key)
        return prefixes


def resource_end(key: str) -> int:
    """The end of ``<group>/<resource>/`` in a key; 0 if the key is shorter."""
    return key.find("/", key.find("/") + 1) + 1
