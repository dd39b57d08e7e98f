"""``SqliteStore``: what is acknowledged survives, in one file in a data directory.

Writes are staged on the loop and handed to one writer thread in groups: everything staged in a turn of the loop, and
everything staged while the previous group was being written. The thread touches nothing but the file; what is visible
changes on the loop, once the group is on the disk.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pilothouse.env import Env, Log
from pilothouse.storage.data_directory import DataDirectory
from pilothouse.storage.errors import CommitFailed, DamagedStore, StoreClosed
from pilothouse.storage.history import KEPT, Retention
from pilothouse.storage.records import Record, Staged
from pilothouse.storage.sqlite_file import SqliteFile
from pilothouse.storage.store import FIRST_REVISION, Store

FILE_NAME = "pilothouse.db"

_log = Log("storage")


class SqliteStore(Store):
    """A store on disk. Made by ``open``; ``close`` it, although nothing acknowledged is lost if the process just ends.

    History does not survive: watches and lists of a time before the opening are ``Compacted``.
    """

    def __init__(
        self,
        env: Env,
        directory: DataDirectory,
        file: SqliteFile,
        records: list[Record],
        *,
        retention: Retention,
        inline: bool,
    ) -> None:
        super().__init__(env, retention=retention, records=records, revision=max(file.revision, FIRST_REVISION))
        self._directory = directory
        self._file = file
        self._writer = None if inline else _Writer()
        self._writing: list[Staged] = []
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
        quota_bytes: int = 0,
        inline: bool = False,
        fsync: bool = True,
    ) -> Self:
        """Take the directory, made if need be, load and verify its store.

        Without ``fsync`` what is acknowledged survives the process, but not a crash of the machine.

        ``inline`` commits on the loop itself, without a thread: for simulation, where there are none. Raises
        ``DataDirectoryLocked``, ``DamagedStore``, ``NewerFormat`` or another ``DataDirectoryError``.
        """
        held = DataDirectory(directory)
        try:
            file = SqliteFile(Path(directory) / FILE_NAME, quota_bytes=quota_bytes, fsync=fsync)
            records = file.load()
            if file.revision < held.acknowledged:
                file.close()
                raise DamagedStore(
                    file.path,
                    f"it ends at revision {file.revision}, and revision {held.acknowledged} was acknowledged "
                    f"(to accept the loss, remove {held.path / 'lock'})",
                )
            return cls(env, held, file, records, retention=retention, inline=inline)
        except BaseException:
            held.release()
            raise

    async def commit(self, staged: Staged) -> None:
        """Return once the write is on the disk and visible."""
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

    def _write(self, group: list[Staged]) -> str:
        """Put a group on the disk; on the writer thread, or inline. Returns why it failed, or an empty string."""
        failure = self._file.write([staged.change for staged in group])
        if not failure:
            self._directory.acknowledge(group[-1].revision)
        return failure

    def _commit_inline(self) -> None:
        group, self._queue = self._queue, []
        if group:
            self._finish(group, self._write(group))

    def _schedule(self) -> None:
        """Hand over at the end of this turn of the loop, so that whatever is staged in it goes together."""
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
        self._writer.submit(lambda: self._write(group), self._written)

    def _written(self, failure: str) -> None:
        group, self._writing = self._writing, []
        self._finish(group, failure)
        if self._queue:
            self._begin()
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _finish(self, group: list[Staged], failure: str) -> None:
        if failure:
            _log.error("Commit failed", writes=len(group), reason=failure)
            failed, self._queue = group + self._queue, []
            self._fall_back(failed, failure)
            return
        self._apply(group)
        for staged in group:
            if staged.waiter is not None and not staged.waiter.done():
                staged.waiter.set_result(None)

    def size(self) -> int | None:
        """The bytes of the database file."""
        return self._file.path.stat().st_size

    async def close(self) -> None:
        """Commit what is staged, end every watcher, close the file and give the directory back. Safe to call twice."""
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


class _Writer:
    """One thread that runs one piece of work after the other and reports back to the loop."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, Callable[[], str], Callable[[str], object]]] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._stopped = False

    def submit(self, work: Callable[[], str], report: Callable[[str], object]) -> None:
        """Run ``work`` on the thread and hand its result to ``report`` on the loop."""
        if self._thread is None:
            # A daemon: a program that ends without closing the store must end, and loses nothing acknowledged.
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
        """Run ``last`` on the thread, after everything else, and end it."""
        done = asyncio.get_running_loop().create_future()

        def finish() -> str:
            self._stopped = True
            last()
            return ""

        self.submit(finish, done.set_result)
        failure = await done
        assert self._thread is not None
        self._thread.join()
        if failure:
            _log.error("The store file could not be closed", reason=failure)
