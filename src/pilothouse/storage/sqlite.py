"""``SqliteStore``: a persistent store in one file in a data directory.

Writes are staged in the loop and passed to one writer thread in groups: all writes that were staged in one iteration of
the loop, or while the previous group was being written. The thread only accesses the file; the visible state changes in
the loop, when the group is on disk.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from pilothouse.env import Env, Log
from pilothouse.storage import marks
from pilothouse.storage.data_directory import DataDirectory
from pilothouse.storage.errors import CommitFailed, DamagedStore, DataDirectoryError, StoreClosed
from pilothouse.storage.history import KEPT, Retention, Superseded
from pilothouse.storage.quota import DEFAULT_QUOTA_BYTES
from pilothouse.storage.records import Change, Record, Staged
from pilothouse.storage.sqlite_file import Pruning, SqliteFile
from pilothouse.storage.sqlite_loading import Loaded
from pilothouse.storage.store import FIRST_REVISION, Store
from pilothouse.storage.watchers import resource_end

FILE_NAME = "pilothouse.db"
_PRUNE_AT = 200
_PRUNE_BYTES = 4 * 1024 * 1024
"""Rows that history no longer needs are removed from the file when there are this many, or this many bytes."""
_PRUNE_STEP = 500
"""Per transaction, or twice as many as it writes. More would delay the writes."""

_log = Log("storage")


class SqliteStore(Store):
    """A store on disk. Create it with ``open`` and ``close`` it, although no acknowledged write is lost if the process
    is killed.

    History is durable as well, within the retention: watches and lists can continue from a time before the restart.
    """

    def __init__(
        self,
        env: Env,
        directory: DataDirectory,
        file: SqliteFile,
        loaded: Loaded,
        *,
        retention: Retention,
        quota: int = DEFAULT_QUOTA_BYTES,
        inline: bool,
    ) -> None:
        self._pruned = Superseded()
        super().__init__(
            env,
            retention=retention,
            records=loaded.records,
            revision=max(loaded.revision, FIRST_REVISION),
            superseded=self._pruned,
            quota=quota,
        )
        self._floors = dict(loaded.floors)
        """The floors in the file."""
        self._loaded_times = loaded.times
        """Marks in wall time, until there is a loop time that they can be converted to."""
        self._restore(loaded)
        self._directory = directory
        self._file = file
        self._writer = None if inline else _Writer()
        self._writing: list[Staged] = []
        self._pruning: Pruning | None = None
        """The rows that are being removed."""
        self._begin_scheduled = False
        self._drained: asyncio.Future[None] | None = None
        self._released = False

    @classmethod
    def open(
        cls,
        env: Env,
        directory: str | os.PathLike[str],
        *,
        retention: Retention = KEPT,
        quota: int = DEFAULT_QUOTA_BYTES,
        quota_bytes: int = 0,
        inline: bool = False,
        fsync: bool = True,
    ) -> Self:
        """Lock the directory, which is created if necessary, and load and verify its store.

        ``quota`` limits keys and values, ``quota_bytes`` the file. Without ``fsync`` acknowledged writes survive a
        crash of the process, but not of the machine.

        ``inline`` commits in the loop itself, without a thread: for simulations. Raises ``DataDirectoryLocked``,
        ``DamagedStore``, ``NewerFormat`` or another ``DataDirectoryError``.
        """
        data_directory = DataDirectory(directory)
        try:
            file = SqliteFile(Path(directory) / FILE_NAME, quota_bytes=quota_bytes, fsync=fsync)
            loaded = file.load()
            if file.revision < data_directory.acknowledged:
                file.close()
                raise DamagedStore(
                    file.path,
                    f"it ends at revision {file.revision}, and revision {data_directory.acknowledged} was acknowledged "
                    f"(to accept the loss, remove {data_directory.path / 'lock'})",
                )
            return cls(env, data_directory, file, loaded, retention=retention, quota=quota, inline=inline)
        except BaseException:
            data_directory.release()
            raise

    async def commit(self, staged: Staged) -> None:
        """Return once the write is on disk and visible."""
        if staged.committed:
            return
        if not staged.failure:
            if self._released:
                raise StoreClosed("the store is closed")
            if self._writer is None:
                self._commit_inline()
            else:
                if staged.waiter is None or staged.waiter.done():
                    staged.waiter = asyncio.get_running_loop().create_future()
                self._schedule()
                await staged.waiter
                return
        if staged.failure:
            raise CommitFailed(staged.failure)

    def _restore(self, loaded: Loaded) -> None:
        """Load the history of the file, within the limits."""
        self.compacted = loaded.floors.get("", 0)
        for collection in self._collections.values():
            collection.floor = 0
        for prefix, floor in loaded.floors.items():
            if prefix:
                (self._collections.get(prefix) or self._new_collection(prefix)).floor = floor
        for change in loaded.changes:
            name = change.key[: resource_end(change.key)]
            (self._collections.get(name) or self._new_collection(name)).remember(change, self.retention)
        for collection in self._collections.values():
            collection.floor = max(collection.floor, self.compacted)
            collection.written = 0
        self._pruned.revisions += loaded.superseded
        self._history_size = sum(collection.size for collection in self._collections.values())
        if self._history_size > self.retention.total_bytes:
            self._shrink(self.retention.total_bytes)

    def _expire(self) -> None:
        if self._loaded_times:  # The first commit may have been before.
            self._restore_times()
        super()._expire()

    def _restore_times(self) -> None:
        """Convert the times of the file to loop time."""
        times, self._loaded_times = self._loaded_times, []
        now = self._env.monotonic()
        offset = now - self._env.now().timestamp()
        newer_marks, self._marks = self._marks, marks.Marks()
        for timestamp, revision in times:
            if revision >= self.compacted:
                self._marks.add(min(timestamp + offset, now), revision)  # the clock may have been set back
        for timestamp, revision in newer_marks.sample(len(newer_marks)):
            self._marks.add(timestamp, revision)

    def _write(self, group: list[Staged], timestamp: float, pruning: Pruning | None) -> str:
        """Write a group to disk; on the writer thread, or inline. Returns the error, or an empty string."""
        failure = self._file.write([staged.change for staged in group], timestamp, pruning)
        if not failure:
            self._directory.acknowledge(group[-1].revision)
        return failure

    def _next_pruning(self, writes: int) -> Pruning | None:
        """The rows to remove together with this many writes."""
        pruned = self._pruned
        if len(pruned.revisions) < _PRUNE_AT and pruned.size < _PRUNE_BYTES:
            return None
        count = max(_PRUNE_STEP, 2 * writes)
        revisions, pruned.revisions = pruned.revisions[:count], pruned.revisions[count:]
        if not pruned.revisions:
            pruned.size = 0
        floors: dict[str, tuple[int, float | None]] = {}
        if self.compacted > self._floors.get("", 0):
            expired = self._expired
            timestamp = None
            if expired is not None and expired[1] == self.compacted:
                timestamp = self._env.now().timestamp() - (self._env.monotonic() - expired[0])
            floors[""] = self.compacted, timestamp
        for prefix, collection in self._collections.items():
            if collection.floor > max(self._floors.get(prefix, 0), self.compacted):
                floors[prefix] = collection.floor, None
        return Pruning(revisions, floors)

    def _pruning_done(self, failure: str) -> None:
        pruning, self._pruning = self._pruning, None
        if pruning is None:
            return
        if failure:
            self._pruned.revisions[:0] = pruning.revisions
        else:
            self._floors.update({prefix: revision for prefix, (revision, _at) in pruning.floors.items()})

    def _commit_inline(self) -> None:
        group, self._queue = self._queue, []
        if group:
            self._pruning = self._next_pruning(len(group))
            self._finish(group, self._write(group, self._env.now().timestamp(), self._pruning))

    def _schedule(self) -> None:
        """Pass on the group at the end of this iteration of the loop, so that all writes staged in it are in one
        group."""
        if not self._begin_scheduled and not self._writing:
            self._begin_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._begin_scheduled = False
        if self._writing or not self._queue:
            return
        group, self._queue = self._queue, []
        self._writing = group
        assert self._writer is not None
        timestamp, pruning = self._env.now().timestamp(), self._next_pruning(len(group))
        self._pruning = pruning
        self._writer.submit(lambda: self._write(group, timestamp, pruning), self._written)

    def _written(self, failure: str) -> None:
        group, self._writing = self._writing, []
        self._finish(group, failure)
        if self._queue:
            self._begin()
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _finish(self, group: list[Staged], failure: str) -> None:
        self._pruning_done(failure)
        if failure:
            _log.error("Commit failed", writes=len(group), reason=failure)
            failed, self._queue = group + self._queue, []
            self._discard_staged(failed, failure)
            return
        self._apply(group)
        for staged in group:
            if staged.waiter is not None and not staged.waiter.done():
                staged.waiter.set_result(None)

    def size(self) -> int | None:
        """The size of the database file in bytes."""
        return self._file.path.stat().st_size

    async def close(self) -> None:
        """Commit the staged writes, end every watcher, close the file and release the directory. Idempotent."""
        if self._released:
            return
        self._closed = True
        if self._writer is None:
            self._commit_inline()
        else:
            while self._queue or self._writing:
                self._schedule()
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained
        await super().close()
        self._released = True
        if self._writer is None:
            self._file.close()
        else:
            await self._writer.stop(self._file.close)
        self._directory.release()


def create_store(directory: str | os.PathLike[str], records: Sequence[Record]) -> None:
    """Create the directory, if necessary, and in it a store with these records, in the order of their revisions,
    without history. All or nothing.

    Raises ``DataDirectoryError`` if it has a store that is not empty, or cannot be written.
    """
    data_directory = DataDirectory(directory)
    try:
        file = SqliteFile(data_directory.path / FILE_NAME)
        loaded = file.load()
        try:
            if loaded.revision:
                raise DataDirectoryError(
                    f"there is a cluster in the data directory {data_directory.path} already: name another"
                )
            newest = records[-1].revision
            changes = [Change(record.revision, record.key, "ADDED", record.value, None) for record in records]
            failure = file.write(changes, 0.0, Pruning((), {"": (newest, None)}))
            if failure:
                raise DataDirectoryError(f"the store could not be written: {failure}")
            data_directory.acknowledge(newest)
        finally:
            file.close()
    finally:
        data_directory.release()


class _Writer:
    """A thread that runs functions one by one and reports the results on the loop."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Callable[[], str], Callable[[str], object]]] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._stopped = False

    def submit(self, work: Callable[[], str], report: Callable[[str], object]) -> None:
        """Run ``work`` in the thread and call ``report`` with its result in the loop."""
        if self._thread is None:
            # A daemon thread: a program that exits without closing the store must not hang, and loses no acknowledged
            # write.
            self._thread = threading.Thread(target=self._run, name="pilothouse-committer", daemon=True)
            self._thread.start()
        self._jobs.put((asyncio.get_running_loop(), work, report))

    def _run(self) -> None:
        while not self._stopped:
            loop, work, report = self._jobs.get()
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001  # or the thread would die and every later commit would hang
                outcome = f"unexpected {type(error).__name__}: {error}"
            try:
                loop.call_soon_threadsafe(report, outcome)
            except RuntimeError:
                return  # The loop is closed: no task waits for the result.

    async def stop(self, last: Callable[[], None]) -> None:
        """Run ``last`` in the thread, after everything else, and end it."""
        finished = asyncio.get_running_loop().create_future()

        def finish() -> str:
            self._stopped = True
            last()
            return ""

        self.submit(finish, finished.set_result)
        failure = await finished
        assert self._thread is not None
        self._thread.join()
        if failure:
            _log.error("The store file could not be closed", reason=failure)
