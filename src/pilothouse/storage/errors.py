"""What can go wrong in a store. The tree is drawn in the package's docstring."""

import os

from pilothouse.storage.records import Record


class StoreError(Exception):
    """A store can't do what was asked."""


class Mismatch(StoreError):
    """The key is not in the state that the write expects. ``current`` is the newest staged record, None when absent."""

    def __init__(self, key: str, expected: int | None, current: Record | None) -> None:
        found = "absent" if current is None else f"at revision {current.revision}"
        desired = "present" if expected is None else "absent" if expected == 0 else f"at revision {expected}"
        super().__init__(f"{key} is {found}, and was expected {desired}")
        self.key = key
        self.current = current


class CommitFailed(StoreError):
    """The write was staged and could not be made durable. It is not visible, and neither is anything staged with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the write could not be stored: {reason}")
        self.reason = reason


class Compacted(StoreError):
    """History at or below ``oldest`` is gone: no watch and no list can start at an older revision."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} is no longer kept, the oldest that is: {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """A list was asked for at a revision that is not committed yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} does not exist yet, the newest is {current}")
        self.revision = revision
        self.current = current


class WatcherOverrun(StoreError):
    """The watcher did not keep up and was ended. What it was handed before is complete; it may watch on from there."""


class StoreUnavailable(StoreError):
    """Where the state is kept can't be reached, or takes no writes. What was being written may have been stored."""


class StoreClosed(StoreError):
    """The store is closed."""


class DataDirectoryError(OSError):
    """A data directory that can't be used."""


class DataDirectoryLocked(DataDirectoryError):
    """Another process works in this data directory; ``pid`` is its process id, None when it is unknown."""

    def __init__(self, directory: str | os.PathLike[str], pid: int | None) -> None:
        holder = f"process {pid}" if pid is not None else "another process"
        super().__init__(f"the data directory {os.fspath(directory)} is in use by {holder}; stop it or choose another")
        self.pid = pid


class NewerFormat(DataDirectoryError):
    """The store was written by a newer pilothouse."""

    def __init__(self, path: str | os.PathLike[str], found: int, known: int) -> None:
        super().__init__(
            f"the store {os.fspath(path)} has format {found}, and this pilothouse knows formats up to {known}; "
            "use the pilothouse that wrote it, or a newer one"
        )


class DamagedStore(DataDirectoryError):
    """What is on disk is not what was written. Nothing of it is served."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(
            f"the store {os.fspath(path)} is damaged and nothing of it was served: {reason}. "
            "Put a backup in its place, or move the data directory away to begin with an empty one"
        )
        self.reason = reason
