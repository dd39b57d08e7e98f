"""``MemoryStore``: a store that is not persistent.

For tests, for simulation, and for ``pilothouse up`` without a data directory.
"""

from pilothouse.storage.errors import CommitFailed, StoreClosed
from pilothouse.storage.records import Staged
from pilothouse.storage.store import Store


class MemoryStore(Store):
    """Commits inline: ``commit`` makes all staged writes visible and returns without yielding to the loop."""

    supports_commit_nowait = True

    async def commit(self, staged: Staged) -> None:
        """Make the write visible, and with it all earlier staged ones. Fails only if the store is closed."""
        self._commit(staged)

    def commit_nowait(self, staged: Staged) -> None:
        """``commit``, which never waits."""
        if self._queue and not staged.committed and not staged.failure and not self._closed:
            group, self._queue = self._queue, []
            self._apply(group, direct=True)
        else:
            self._commit(staged, direct=True)

    def _commit(self, staged: Staged, *, direct: bool = False) -> None:
        if staged.committed:
            return
        if staged.failure:
            raise CommitFailed(staged.failure)
        if self._closed:
            raise StoreClosed("the store is closed")
        self._commit_queue(direct=direct)

    def _commit_queue(self, *, direct: bool = False) -> None:
        group = self._queue
        if group:
            self._queue = []
            self._apply(group, direct=direct)

    async def close(self) -> None:
        """Commit the staged writes, end every watcher, and accept no more writes."""
        self._commit_queue()
        await super().close()
