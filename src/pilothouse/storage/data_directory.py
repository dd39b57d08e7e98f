"""A data directory: private, locked against a second process, with a record of the acknowledged revision.

It has the keys of a cluster. It is rejected if others can write into it, or if it has files that are links or belong to
another user: they could have been placed there to be trusted, or to be overwritten elsewhere.

The lock file has two lines, the process id of its holder and the latest revision that was acknowledged. The second one
is written after each commit, without fsync, so it is never ahead of the store. If the store is older, acknowledged
writes are missing: to SQLite, a truncated or damaged log looks like one that ended earlier.
"""

import contextlib
import os
from pathlib import Path

from pilothouse.env import Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.private_files import UnsafePath, check_private_files, make_private_directory
from pilothouse.storage.errors import DataDirectoryError, DataDirectoryLocked

with lazy_imports():
    import fcntl  # not on Windows, where there is no durable store

LOCK_NAME = "lock"
_PRIVATE = (".db", ".db-wal", ".key", ".token", LOCK_NAME)
_log = Log("storage")
_PID_WIDTH = 12
_REVISION_WIDTH = 20


class DataDirectory:
    """An exclusive lock on a directory, from construction to ``release``, or to the end of the process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            make_private_directory(self.path)
            check_private_files(self.path, _PRIVATE)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path / LOCK_NAME, flags, 0o600)
        except FileExistsError as error:
            raise DataDirectoryError(f"the data directory {self.path} can't be used: it is a file") from error
        except UnsafePath as error:
            raise DataDirectoryError(f"the data directory {self.path} can't be used: {error}") from None
        except OSError as error:
            raise DataDirectoryError(f"the data directory {self.path} can't be used: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid, _revision = self._read()
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise DataDirectoryLocked(self.path, pid) from None
            raise DataDirectoryError(f"the data directory {self.path} can't be locked: {error}") from error
        _pid, self.acknowledged = self._read()
        """The last acknowledged revision of this directory's store, 0 if unknown."""
        try:
            self._write_pid(str(os.getpid()))
            self._write_revision(self.acknowledged)
        except OSError as error:
            os.close(self._fd)
            raise DataDirectoryError(f"the data directory {self.path} can't be used: {error.strerror}") from error

    def _read(self) -> tuple[int | None, int]:
        lines = os.pread(self._fd, 100, 0).decode("ascii", "replace").split("\n")
        pid = lines[0].strip()
        revision = lines[1].strip() if len(lines) > 1 else ""
        return (int(pid) if pid.isdigit() else None), (int(revision) if revision.isdigit() else 0)

    def _write_pid(self, pid: str) -> None:
        os.pwrite(self._fd, f"{pid:<{_PID_WIDTH}}\n".encode(), 0)

    def _write_revision(self, revision: int) -> None:
        os.pwrite(self._fd, f"{revision:<{_REVISION_WIDTH}}\n".encode(), _PID_WIDTH + 1)

    def acknowledge(self, revision: int) -> None:
        """Record that everything up to ``revision`` is durable.

        If that fails (a full copy-on-write file system), the file keeps an earlier revision: a later loss might not be
        detected, but durable writes must not fail.
        """
        try:
            self._write_revision(revision)
        except OSError as error:
            _log.warning(
                "The acknowledged revision could not be recorded", file=str(self.path / LOCK_NAME), error=error
            )

    def release(self) -> None:
        """Release the directory for other processes. The file is kept: removing it would race with the next process."""
        with contextlib.suppress(OSError):  # closing releases the lock; the process id is only shown in errors
            self._write_pid("")
        os.close(self._fd)
