"""A data directory: made private, locked against a second process, and remembering what was acknowledged.

It holds the keys of a cluster. A directory that others can write into is rejected, and files in it that are links or
belong to another user: they could have been put there to be trusted, or to be overwritten elsewhere.

The lock file holds two lines, the holder's process id and the newest revision that was acknowledged to anyone. The
second is written after each commit, without waiting for the disk, so it never runs ahead of the store. If the store
is found behind it, acknowledged writes are missing: a log that was cut or damaged looks, to SQLite,
like one that merely ended earlier.
"""

import os
from pathlib import Path

from pilothouse.env.lazy import lazy_imports
from pilothouse.env.private_files import Unsafe, check_private_files, make_private_directory
from pilothouse.storage.errors import DataDirectoryError, DataDirectoryLocked

with lazy_imports():
    import fcntl  # not on Windows, where there is no durable store

LOCK_NAME = "lock"
_PRIVATE = (".db", ".db-wal", ".key", ".token", LOCK_NAME)
_PID_WIDTH = 12
_REVISION_WIDTH = 20


class DataDirectory:
    """An exclusive hold on a directory, from construction to ``release``. It ends with the process in any case."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            make_private_directory(self.path)
            check_private_files(self.path, _PRIVATE)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path / LOCK_NAME, flags, 0o600)
        except FileExistsError as error:
            raise DataDirectoryError(f"the data directory {self.path} can't be used: it is a file") from error
        except Unsafe as error:
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
        """The newest revision that this directory's store acknowledged before, 0 when that is not known."""
        self._write_pid(str(os.getpid()))
        self.acknowledge(self.acknowledged)

    def _read(self) -> tuple[int | None, int]:
        lines = os.pread(self._fd, 100, 0).decode("ascii", "replace").split("\n")
        pid = lines[0].strip()
        revision = lines[1].strip() if len(lines) > 1 else ""
        return (int(pid) if pid.isdigit() else None), (int(revision) if revision.isdigit() else 0)

    def _write_pid(self, pid: str) -> None:
        os.pwrite(self._fd, f"{pid:<{_PID_WIDTH}}\n".encode(), 0)

    def acknowledge(self, revision: int) -> None:
        """Remember that everything up to ``revision`` is durable."""
        os.pwrite(self._fd, f"{revision:<{_REVISION_WIDTH}}\n".encode(), _PID_WIDTH + 1)

    def release(self) -> None:
        """Let another process have the directory. The file stays: removing it would race with the next process."""
        self._write_pid("")
        os.close(self._fd)
