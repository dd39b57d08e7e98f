"""Storage: revisions, watch history, and three stores: in memory, in an SQLite file, on etcd.

A write has two steps. ``stage`` checks it against the latest staged state and assigns its revision; ``commit`` waits
until it is durable and visible. Reads and watches only see committed writes. The API server chooses keys and values;
nothing here decodes a value. ``MemoryStore`` is not persistent, ``SqliteStore`` is, and ``EtcdStore`` shares its state
with other servers; they share everything but the commit, and one suite (``tests/conformance/test_store_*.py``) tests
all of them.

    OSError
     └─ DataDirectoryError        a data directory that can't be used
         ├─ DataDirectoryLocked   another process uses it
         ├─ NewerFormat           written by a newer pilothouse
         └─ DamagedStore          checksums or contents are wrong
    StoreError
     ├─ Mismatch                  the key is not in the state that the write requires
     ├─ CommitFailed              the write was staged but could not be made durable
     ├─ Compacted                 the history does not reach back to the revision
     ├─ FutureRevision            the revision does not exist yet
     ├─ WatcherOverrun            the watcher was too slow
     ├─ StoreUnavailable          the backend does not respond, or rejects writes
     │   └─ BackendError          with the message of the backend (etcd)
     └─ StoreClosed
"""

from pilothouse.storage.errors import (
    BackendError,
    CommitFailed,
    Compacted,
    DamagedStore,
    DataDirectoryError,
    DataDirectoryLocked,
    FutureRevision,
    Mismatch,
    NewerFormat,
    StoreClosed,
    StoreError,
    StoreUnavailable,
    WatcherOverrun,
)
from pilothouse.storage.history import Retention
from pilothouse.storage.memory import MemoryStore
from pilothouse.storage.records import Change, Page, Record, Staged
from pilothouse.storage.store import Store, resource_prefix
from pilothouse.storage.watchers import Watcher

__all__ = [
    "BackendError",
    "Change",
    "CommitFailed",
    "Compacted",
    "DamagedStore",
    "DataDirectoryError",
    "DataDirectoryLocked",
    "FutureRevision",
    "MemoryStore",
    "Mismatch",
    "NewerFormat",
    "Page",
    "Record",
    "Retention",
    "Staged",
    "Store",
    "StoreClosed",
    "StoreError",
    "StoreUnavailable",
    "Watcher",
    "WatcherOverrun",
    "resource_prefix",
]
