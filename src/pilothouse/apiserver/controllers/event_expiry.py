"""Deletes Events one hour after their last write; upstream uses leases of etcd.

Each write of an Event restarts its hour (upstream ``pkg/registry/core/event/storage``, TTL on create and update).
"""

import asyncio
from array import array
from collections import deque

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.update import remove
from pilothouse.apiserver.origins import own_writes
from pilothouse.storage import Change, Mismatch

_PREFIX = "/events/"
_SWEEP_SECONDS = 10.0


class _Queue:
    """Revisions and keys with the times at which they expire, which never decrease. There may be hundreds of thousands:
    each takes 24 bytes, as a tuple it would be 120."""

    __slots__ = ("_begin", "_keys", "_revisions", "_times")

    def __init__(self) -> None:
        self._times = array("d")
        self._revisions = array("q")
        self._keys: deque[str] = deque()
        self._begin = 0
        """The entries of the arrays before it were removed."""

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def expires_at(self) -> float:
        """When the first one expires."""
        return self._times[self._begin]

    def append(self, expires_at: float, revision: int, key: str) -> None:
        self._times.append(expires_at)
        self._revisions.append(revision)
        self._keys.append(key)

    def pop(self) -> tuple[int, str]:
        """Remove the first one."""
        revision = self._revisions[self._begin]
        self._begin += 1
        if self._begin > 1024 and self._begin * 2 > len(self._times):
            del self._times[: self._begin], self._revisions[: self._begin]
            self._begin = 0
        return revision, self._keys.popleft()


class EventExpiry:
    """Deletes Events an hour after their last write, within ten seconds. Idle while there are none."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._queue = _Queue()
        self._notify: asyncio.Future[None] | None = None
        self._loaded = False
        self._decision = f"events are kept for {core.options.event_ttl_seconds:g} s (--event-ttl)"
        core.store.follow(_PREFIX, self._on_commit)

    def _on_commit(self, changes: list[Change]) -> None:
        if not self._loaded:
            return
        for change in changes:
            if change.type != "DELETED":
                self._add(change.key, change.revision)

    def _add(self, key: str, revision: int) -> None:
        expires_at = self._core.env.monotonic() + self._core.options.event_ttl_seconds
        self._queue.append(expires_at, revision, key)
        if self._notify is not None and not self._notify.done():
            self._notify.set_result(None)

    async def run(self) -> None:
        """Delete expired Events until cancelled. For Events from before the start of the server the hour starts with
        it."""
        self._loaded = True
        for record in self._core.store.list(_PREFIX).records:
            self._add(record.key, record.revision)
        loop = asyncio.get_running_loop()
        while True:
            if not self._queue:
                self._notify = loop.create_future()
                await self._notify
                continue
            seconds = self._queue.expires_at - loop.time()
            if seconds > 0:
                # Slightly late, so that many are deleted together.
                await asyncio.sleep(seconds + _SWEEP_SECONDS)
            await self._sweep(loop.time())

    async def _sweep(self, now: float) -> None:
        queue, store = self._queue, self._core.store
        while queue and queue.expires_at <= now:
            revision, key = queue.pop()
            record = store.staged(key)
            if record is None or record.revision != revision:
                continue
            with own_writes(self._core.env, key.rpartition("/")[2], self._decision):
                try:
                    await remove(self._core, record)
                except Mismatch:
                    continue
