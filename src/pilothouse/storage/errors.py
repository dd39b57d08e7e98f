"""The errors of a store. The hierarchy is in the package's docstring."""

import os

from pilothouse.storage.records import Record


class StoreError(Exception):
    """A store cannot perform the operation."""


class Mismatch(StoreError):
    """The key is not in the state that the write expects. ``current`` is the latest staged record, None if there is
    none."""

    def __init__(self, key: str, expected: int | None, current: Record | None) -> None:
        actual = "absent" if current is None else f"at revision {current.revision}"
        expectation = "present" if expected is None else "absent" if expected == 0 else f"at revision {expected}"
        super().__init__(f"{key} is {actual}, and was expected {expectation}")
        self.key = key
        self.current = current


class CommitFailed(StoreError):
    """The write was staged but could not be made durable. It is not visible, and neither are writes that were staged
    with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the write could not be stored: {reason}")
        self.reason = reason


class Compacted(StoreError):
    """History at or below ``oldest`` is no longer available: watches and lists cannot start at an older revision."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is no longer kept, the oldest that is: {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """A list was requested at a revision that is not committed yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} does not exist yet, the newest is {current}")
        self.revision = revision
        self.current = current


class WatcherOverrun(StoreError):
    """The watcher was too slow and was ended. Everything that was delivered before is complete; a new watch may start
    from there."""


class StoreUnavailable(StoreError):
    """The storage is not reachable, or accepts no writes. A write that was in progress may have been stored."""


class BackendError(StoreUnavailable):
    """The response of the backend (etcd), or the failure of the connection, with its message."""


class StoreClosed(StoreError):
    """The store is closed."""


class DataDirectoryError(OSError):
    """A data directory that can't be used."""


class DataDirectoryLocked(DataDirectoryError):
    """Another process uses this data directory; ``pid`` is its process id, None if unknown."""

    def __init__(self, directory: str | os.PathLike[str], pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"the data directory {os.fspath(directory)} is in use by {holder}; stop it or choose another")
        self.pid = pid


class NewerFormat(DataDirectoryError):
    """The store was written by a newer pilothouse."""

    def __init__(self, path: str | os.PathLike[str], version: int, supported: int) -> None:
        super().__init__(
            f"the store {os.fspath(path)} has format {version}, and this pilothouse reads formats up to {supported}; "
            "use the pilothouse that wrote it, or a newer one"
        )


class DamagedStore(DataDirectoryError):
    """The file's content is not what was written. The store is not opened."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(
            f"the store {os.fspath(path)} is damaged and is not served: {reason}. "
            "Replace it by a backup, or move the data directory away to start with an empty one"
        )
        self.reason = reason
