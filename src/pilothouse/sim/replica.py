"""An API server that is behind: it has its own copy of the state, which follows the first one's at a distance.

As in a cluster with several API servers, whose watch caches follow etcd each at its own pace. Lists and watches of
informers are answered from the copy; what must be the truth (writes, reads by name, lists without a version) is not
(``connection`` chooses).
"""

import asyncio
from collections import deque

import msgspec

from pilothouse.apiserver import ApiServer
from pilothouse.env import Env
from pilothouse.storage import Change, Record, Staged, Store


class Replica(Store):
    """A store that applies another one's changes, ``lag`` seconds late, under the same revisions."""

    def __init__(self, env: Env, primary: Store) -> None:
        super().__init__(env, records=primary.list("").records, revision=primary.revision, retention=primary.retention)
        self._primary = primary
        self._waiting: deque[tuple[float, list[Change]]] = deque()
        self._lag: float | None = 0.0
        primary.on_commit.append(self._hear)
        self.server = ApiServer(env, self)
        """Serves this copy. Nothing runs in its background: it writes nothing of its own."""

    @property
    def is_behind(self) -> bool:
        """Whether it lacks anything."""
        return bool(self._waiting)

    def set_lag(self, seconds: float | None) -> None:
        """From now on changes arrive so late; with None not at all, until told otherwise."""
        self._lag = seconds
        if seconds is not None:
            for heard_at, _changes in self._waiting:
                self._arm(heard_at + seconds)
            self._catch_up()

    async def commit(self, staged: Staged) -> None:
        """Nobody writes here."""
        raise AssertionError(f"{staged.change.key} was written to a replica; writes go to the first server")

    def _hear(self, changes: list[Change]) -> None:
        now = self._env.monotonic()
        self._waiting.append((now, changes))
        if self._lag == 0:
            self._catch_up()
        elif self._lag is not None:
            self._arm(now + self._lag)

    def _arm(self, when: float) -> None:
        asyncio.get_running_loop().call_at(when, self._catch_up)

    def _catch_up(self) -> None:
        now = self._env.monotonic()
        while self._waiting and self._lag is not None and self._waiting[0][0] + self._lag <= now:
            _heard_at, changes = self._waiting.popleft()
            self._apply([_as_staged(change) for change in changes])


def _as_staged(change: Change) -> Staged:
    record = None
    if change.type != "DELETED":
        record = Record(change.key, change.value, change.revision, change.created)
    # What was encoded for the first server's watchers belongs to that server.
    return Staged(msgspec.structs.replace(change, memo=None), record)
