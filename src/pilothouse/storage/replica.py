"""A store that follows another one with a delay, as the watch cache of an API server follows etcd.

Used by servers that return stale state on purpose (``apiserver.lagging``, ``sim.replica``).
"""

import asyncio
import math
from collections import deque

import msgspec

from pilothouse.env import Env
from pilothouse.storage.records import Change, Record, Staged
from pilothouse.storage.store import Store, resource_prefix


class ReplicaStore(Store):
    """Applies another store's changes ``lag`` seconds late, with the same revisions and commits.

    It starts with the current state and no history: a watch from an earlier revision gets 410, as from a server that
    has just started.
    """

    def __init__(self, env: Env, primary: Store) -> None:
        super().__init__(
            env,
            records=primary.list("").records,
            revision=primary.revision,
            retention=primary.retention,
            quota=None,
        )
        self._primary = primary
        self._waiting: deque[tuple[float, list[Change]]] = deque()
        self._lag: float | None = 0.0
        primary.on_commit.append(self._on_commit)

    @property
    def has_unreadable(self) -> bool:
        """As the primary."""
        return self._primary.has_unreadable

    def set_lag(self, seconds: float | None) -> None:
        """Set the delay of changes; with None (or infinity) they wait until the next call."""
        self._lag = None if seconds is None or math.isinf(seconds) else seconds
        if self._lag is not None:
            for committed_at, _changes in self._waiting:
                self._set_timer(committed_at + self._lag)
            self._catch_up()

    async def commit(self, staged: Staged) -> None:
        """A replica is read-only."""
        raise AssertionError(f"{staged.change.key} was written to a replica; writes go to the first server")

    async def close(self) -> None:
        """Stop following, and end the watchers."""
        if self._on_commit in self._primary.on_commit:
            self._primary.on_commit.remove(self._on_commit)
        self._waiting.clear()
        await super().close()

    def _on_commit(self, changes: list[Change]) -> None:
        now = self._env.monotonic()
        self._waiting.append((now, changes))
        if self._lag == 0:
            self._catch_up()
        elif self._lag is not None:
            self._set_timer(now + self._lag)

    def _apply_changes(self, changes: list[Change]) -> None:
        """A value that was unreadable and can be read now is reported again, with its revision."""
        for change in changes:
            record = self._records.get(change.key)
            if record is not None and record.revision == change.revision:
                self._records[change.key] = Record(change.key, change.value, change.revision, record.created)

    def _set_timer(self, deadline: float) -> None:
        asyncio.get_running_loop().call_at(deadline, self._catch_up, deadline)

    def _catch_up(self, deadline: float = -math.inf) -> None:
        # A timer of a loop with millisecond resolution may fire slightly early, and there would be no other one.
        now = max(self._env.monotonic(), deadline)
        while self._waiting and self._lag is not None and self._waiting[0][0] + self._lag <= now:
            _committed_at, changes = self._waiting.popleft()
            if changes[-1].revision <= self.revision:
                self._apply_changes(changes)
                continue
            self._apply([_as_staged(change) for change in changes])


def _as_staged(change: Change) -> Staged:
    record = None
    if change.type != "DELETED":
        record = Record(change.key, change.value, change.revision, change.created)
    # The encoded events of the first server's watchers belong to that server.
    return Staged(msgspec.structs.replace(change, memo=None), record, resource_prefix(change.key))
