"""The file of ``SqliteStore``: an SQLite database that is only loaded as a whole and written.

All reads use the structures in memory, so the file has no index: one row per version of an object (``sqlite_format``).
Writes append; rows that history no longer needs are removed in small steps together with later writes. The row of the
latest revision is never removed before there is a newer one.

SQLite detects a damaged tree, but not a damaged value: each row has a checksum, and everything is verified before
anything is served.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pilothouse.env import Log
from pilothouse.storage import sqlite_format
from pilothouse.storage.errors import DamagedStore, DataDirectoryError, NewerFormat
from pilothouse.storage.records import Change
from pilothouse.storage.sqlite_format import (
    APPLICATION,
    DELETED,
    FORMAT,
    MIGRATIONS,
    WRITTEN,
    Migration,
    checksum,
    floor_checksum,
)
from pilothouse.storage.sqlite_loading import Floors, Loaded, Loading

_ROW = "(?,?,?,?,?,?,?,?)"
_ROWS_PER_STATEMENT = 500
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_log = Log("storage")
_encode_origin = msgspec.json.Encoder().encode
_Row = tuple[int, int, int, float, str, int, bytes | None, bytes | None]


class Pruning(msgspec.Struct, frozen=True):
    """The rows that a write may remove: revisions that are not needed above these floors."""

    revisions: Sequence[int]
    floors: Floors


class SqliteFile:
    """One store file. ``load`` it first, then ``write``. Not thread-safe.

    ``quota_bytes`` limits the database; 0: no limit. Without ``fsync`` writes only survive a crash of the process.
    """

    def __init__(
        self,
        path: Path,
        *,
        quota_bytes: int = 0,
        fsync: bool = True,
        format_version: int = FORMAT,
        migrations: Mapping[int, Migration] = MIGRATIONS,
    ) -> None:
        self.path = path
        self.revision = 0
        """The latest revision in the file, 0 for a new one."""
        self._quota_bytes = quota_bytes
        self._fsync = fsync
        self._format = format_version
        self._migrations = migrations
        self._connection: sqlite3.Connection | None = None

    # Reading

    def load(self) -> Loaded:
        """Open the file, or create it, verify all of it and return its content.

        Raises ``DamagedStore``, ``NewerFormat``, or ``DataDirectoryError`` if it is no store or can't be opened.
        """
        try:
            self._connection = self._connect()
            self._check_format(self._connection)
            return self._read(self._connection)
        except sqlite3.Error as error:
            self.close()
            if _code(error) in _DAMAGE:
                raise DamagedStore(self.path, str(error)) from error
            raise DataDirectoryError(f"the store {self.path} can't be opened: {error}") from error
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        # Created here, so that no other user can ever read it; SQLite uses the same mode for its log.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            # The directory is locked by this process: SQLite needs no shared memory file and no lock per write.
            connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={'FULL' if self._fsync else 'OFF'}")
            connection.execute("PRAGMA journal_size_limit=67108864")
            if self._quota_bytes:
                (page_size,) = connection.execute("PRAGMA page_size").fetchone()
                connection.execute(f"PRAGMA max_page_count={max(4, self._quota_bytes // page_size)}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables and not application and not version:
            sqlite_format.create(connection, self._format)
            return
        if application != APPLICATION:
            raise DataDirectoryError(f"{self.path} is a database of another program, not a pilothouse store")
        if version > self._format:
            raise NewerFormat(self.path, version, self._format)
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise DamagedStore(self.path, result)
        while version < self._format:
            migrate = self._migrations.get(version)
            if migrate is None:
                raise DataDirectoryError(
                    f"the store {self.path} has format {version}, which this pilothouse can no longer read; "
                    "open it once with an older release that can"
                )
            connection.execute("BEGIN IMMEDIATE")
            try:
                migrate(connection)
                version += 1
                connection.execute(f"PRAGMA user_version={version}")
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    def _read(self, connection: sqlite3.Connection) -> Loaded:
        loading = Loading(self.path, connection.execute("SELECT prefix, revision, at, checksum FROM floors"))
        for row in connection.execute(
            "SELECT revision, created, kind, at, key, checksum, origin, value FROM versions ORDER BY revision"
        ):
            loading.add(*row)
        loaded = loading.done()
        self.revision = loaded.revision
        return loaded

    # Writing

    def write(self, changes: Sequence[Change], timestamp: float = 0.0, pruning: Pruning | None = None) -> str:
        """Make changes durable atomically, with that time, and remove rows that are no longer needed. Returns an empty
        string, or the reason why nothing was written.

        After a failure the next write can succeed: a full disk may have been freed.
        """
        try:
            if self._connection is None:
                self._reconnect()
            assert self._connection is not None
            self._write_or_make_room(self._connection, changes, timestamp, pruning)
        except (sqlite3.Error, OSError) as error:
            return self._failure(error)
        self.revision = changes[-1].revision
        return ""

    def _write_or_make_room(
        self, connection: sqlite3.Connection, changes: Sequence[Change], timestamp: float, pruning: Pruning | None
    ) -> None:
        try:
            self._write(connection, changes, timestamp, pruning)
        except sqlite3.Error as error:
            if _code(error) != sqlite3.SQLITE_FULL:
                raise
            connection.rollback()
            self._write_without_history(connection, changes, timestamp)
            _log.warning("No space left: history was removed from the store", store=str(self.path))

    def _write(
        self, connection: sqlite3.Connection, changes: Sequence[Change], timestamp: float, pruning: Pruning | None
    ) -> None:
        rows = [_row(change, timestamp) for change in changes]
        if len(rows) <= _ROWS_PER_STATEMENT and pruning is None:
            # One statement is one transaction. That matters if the loop is busy: each call of SQLite releases the
            # interpreter lock and may wait a switch interval (5 ms) to get it back. Ten rows with a busy loop: 7.5 ms
            # as one statement, 48 ms as executemany between BEGIN and COMMIT.
            self._put(connection, rows)
            return
        connection.execute("BEGIN IMMEDIATE")
        if pruning is not None:
            # First, because these pages may be the only free ones. The latest revision is in the rows inserted below.
            pruned_revisions = f"[{','.join(map(str, pruning.revisions))}]"
            connection.execute(
                "DELETE FROM versions WHERE revision IN (SELECT value FROM json_each(?))", (pruned_revisions,)
            )
            self._raise_floors(connection, pruning.floors)
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            self._put(connection, rows[start : start + _ROWS_PER_STATEMENT])
        connection.execute("COMMIT")

    def _write_without_history(
        self, connection: sqlite3.Connection, changes: Sequence[Change], timestamp: float
    ) -> None:
        """Keep only the latest version of each object. Then a deletion frees space instead of using it."""
        newest = {change.created: change for change in changes}
        rows = [_row(change, timestamp, with_history=False) for change in newest.values()]
        connection.execute("BEGIN IMMEDIATE")
        replaced = f"[{','.join(map(str, newest))}]"
        connection.execute(
            "DELETE FROM versions WHERE kind <> 0 OR created IN (SELECT value FROM json_each(?))"
            " OR revision NOT IN (SELECT max(revision) FROM versions GROUP BY created)",
            (replaced,),
        )
        connection.execute("DELETE FROM floors")
        self._raise_floors(connection, {"": (changes[-1].revision, timestamp)})
        for start in range(0, len(rows), _ROWS_PER_STATEMENT):
            self._put(connection, rows[start : start + _ROWS_PER_STATEMENT])
        connection.execute("COMMIT")

    @staticmethod
    def _raise_floors(connection: sqlite3.Connection, floors: Floors) -> None:
        (lowest,) = connection.execute("SELECT coalesce(max(revision), 0) FROM floors WHERE prefix=''").fetchone()
        for prefix, (revision, timestamp) in floors.items():
            if revision > lowest:
                connection.execute(
                    "INSERT OR REPLACE INTO floors VALUES (?,?,?,?)",
                    (prefix, revision, timestamp, floor_checksum(prefix, revision, timestamp)),
                )
        connection.execute("DELETE FROM floors WHERE revision < (SELECT max(revision) FROM floors WHERE prefix='')")

    @staticmethod
    def _put(connection: sqlite3.Connection, rows: Sequence[_Row]) -> None:
        statement = "INSERT INTO versions VALUES " + ",".join([_ROW] * len(rows))  # noqa: S608  # only marks
        connection.execute(statement, [value for row in rows for value in row])

    def _failure(self, error: Exception) -> str:
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_FULL:
            assert self._connection is not None
            self._connection.rollback()
            limit = f", or its quota of {self._quota_bytes} bytes is used up" if self._quota_bytes else ""
            return f"no space left for {self.path}{limit}"
        # After an I/O error the kernel may have dropped pages that it could not write, and SQLite parts of its log
        # index. The next write reads the file again.
        self.close()
        return f"{self.path}: {error}"

    def _reconnect(self) -> None:
        connection = self._connect()
        (revision,) = connection.execute("SELECT coalesce(max(revision), 0) FROM versions").fetchone()
        if revision != self.revision:
            connection.close()
            raise OSError(
                f"after an earlier error the file is at revision {revision} and not at {self.revision}; "
                "restart to continue from there"
            )
        self._connection = connection

    def close(self) -> None:
        """Close the file, with a checkpoint of its log. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _row(change: Change, timestamp: float, *, with_history: bool = True) -> _Row:
    created, is_deleted = change.created, change.type == "DELETED"
    origin = _encode_origin(change.origin) if with_history and change.origin is not None else None
    value = change.value if with_history or not is_deleted else None
    kind = DELETED if is_deleted else WRITTEN
    crc = checksum(change.revision, created, kind, timestamp, change.key, origin, value)
    return change.revision, created, kind, timestamp, change.key, crc, origin, value


def _code(error: sqlite3.Error) -> int:
    """The primary result code, 0 if SQLite was not called."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
