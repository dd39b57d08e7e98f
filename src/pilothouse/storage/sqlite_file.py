"""The file under ``SqliteStore``: one SQLite database that is only ever loaded whole and written to.

The memory structure above answers every read, so the file has no index and no history: one row per object, under the
revision that created it, replaced in place when the object changes. A deletion leaves a row without a value until a
later write sweeps it out; so the largest revision in the file is always the newest committed one.

SQLite notices a damaged tree, but not a damaged value: each row carries a checksum, and everything is verified before
anything is served.
"""

import os
import sqlite3
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from pilothouse.storage.errors import DamagedStore, DataDirectoryError, NewerFormat
from pilothouse.storage.records import Change, Record

FORMAT = 1
"""The format that this code reads and writes (``PRAGMA user_version``)."""

Migration = Callable[[sqlite3.Connection], None]

MIGRATIONS: Mapping[int, Migration] = {}
"""From a format to the next. Each runs in a transaction of its own, which also sets the new format."""

_APPLICATION = 0x70696C6F  # "pilo": marks our files
_ROW = "(?,?,?,?,?)"
_ROWS_PER_STATEMENT = 500
_SWEEP_AT = 500
"""Rows of deleted objects that are swept out together."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteFile:
    """One store file. ``load`` it first, then ``write``. Not for two threads at a time.

    ``quota_bytes`` bounds the database; 0 leaves that to the disk. Without ``fsync`` writes survive the process only.
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
        """The newest revision in the file, 0 for a new one."""
        self._quota_bytes = quota_bytes
        self._fsync = fsync
        self._format = format_version
        self._migrations = migrations
        self._deleted: list[int] = []
        self._sweep_at = _SWEEP_AT
        self._connection: sqlite3.Connection | None = None

    # Reading

    def load(self) -> list[Record]:
        """Open the file, made new if there is none, verify all of it and return its records.

        Raises ``DamagedStore``, ``NewerFormat``, or ``DataDirectoryError`` when it is no store or can't be opened.
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
        # Created here, so that no other user can ever read it; SQLite gives its log the same mode.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            # One process, as the directory's lock has it: SQLite needs no shared memory file and no lock per write.
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
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables and not application and not found:
            connection.executescript(
                "BEGIN;"
                "CREATE TABLE objects (created INTEGER PRIMARY KEY, revision INTEGER NOT NULL, key TEXT NOT NULL,"
                " checksum INTEGER NOT NULL, value BLOB);"
                f"PRAGMA application_id={_APPLICATION}; PRAGMA user_version={self._format};"
                "COMMIT"
            )
            return
        if application != _APPLICATION:
            raise DataDirectoryError(f"{self.path} is a database of another program, not a pilothouse store")
        if found > self._format:
            raise NewerFormat(self.path, found, self._format)
        while found < self._format:
            migrate = self._migrations.get(found)
            if migrate is None:
                raise DataDirectoryError(
                    f"the store {self.path} has format {found}, which this pilothouse can no longer read; "
                    "open it once with an older release that can"
                )
            connection.execute("BEGIN IMMEDIATE")
            try:
                migrate(connection)
                found += 1
                connection.execute(f"PRAGMA user_version={found}")
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise

    def _read(self, connection: sqlite3.Connection) -> list[Record]:
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            raise DamagedStore(self.path, result)
        records: dict[str, Record] = {}
        newest = 0
        for created, revision, key, checksum, value in connection.execute(
            "SELECT created, revision, key, checksum, value FROM objects ORDER BY created"
        ):
            if checksum != _checksum(created, revision, key, value):
                raise DamagedStore(self.path, f"the object under {key!r} is not what was written")
            newest = max(newest, revision)
            if value is None:
                self._deleted.append(created)
            elif key in records:
                raise DamagedStore(self.path, f"there are two objects under {key!r}")
            else:
                records[key] = Record(key, value, revision, created)
        self.revision = newest
        return list(records.values())

    # Writing

    def write(self, changes: list[Change]) -> str:
        """Make changes durable, all or none. Returns an empty string, or the reason why none was written.

        Afterwards the file can be tried again: a full disk may have been freed.
        """
        try:
            if self._connection is None:
                self._reconnect()
            assert self._connection is not None
            self._write(self._connection, changes)
        except (sqlite3.Error, OSError) as error:
            return self._give_up(error)
        self.revision = changes[-1].revision
        return ""

    def _write(self, connection: sqlite3.Connection, changes: list[Change]) -> None:
        # Of several changes to one object only the last needs to reach the file.
        rows: dict[int, tuple[int, int, str, int, bytes | None]] = {}
        deleted: list[int] = []
        for change in changes:
            created = change.created
            value = None if change.type == "DELETED" else change.value
            checksum = _checksum(created, change.revision, change.key, value)
            rows[created] = (created, change.revision, change.key, checksum, value)
            if value is None:
                deleted.append(created)
        batch = list(rows.values())
        sweep = self._deleted if len(self._deleted) >= self._sweep_at else []
        if len(batch) <= _ROWS_PER_STATEMENT and not sweep:
            # One statement is one transaction. That matters if the loop is busy: each call into SQLite gives up the
            # interpreter lock and may wait a switch interval (5 ms) to get it back. Ten rows with a loop that never
            # rests: 7.5 ms as one statement, 48 ms as executemany between BEGIN and COMMIT.
            self._put(connection, batch)
        else:
            connection.execute("BEGIN IMMEDIATE")
            if sweep:
                # First, because these pages may be the only free ones. The newest revision is safe in the rows below.
                gone = f"[{','.join(map(str, sweep))}]"
                connection.execute("DELETE FROM objects WHERE created IN (SELECT value FROM json_each(?))", (gone,))
            for start in range(0, len(batch), _ROWS_PER_STATEMENT):
                self._put(connection, batch[start : start + _ROWS_PER_STATEMENT])
            connection.execute("COMMIT")
        if sweep:
            self._deleted = []
            self._sweep_at = _SWEEP_AT
        self._deleted += deleted

    @staticmethod
    def _put(connection: sqlite3.Connection, rows: list[tuple[int, int, str, int, bytes | None]]) -> None:
        statement = "INSERT OR REPLACE INTO objects VALUES " + ",".join([_ROW] * len(rows))  # noqa: S608  # only marks
        connection.execute(statement, [value for row in rows for value in row])

    def _give_up(self, error: Exception) -> str:
        if isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_FULL:
            assert self._connection is not None
            self._connection.rollback()
            self._sweep_at = 1  # An emptied row keeps its page until it is swept out.
            limit = f", or its quota of {self._quota_bytes} bytes is used up" if self._quota_bytes else ""
            return f"no space left for {self.path}{limit}"
        # After an I/O error the kernel may have dropped what it could not write, and SQLite what it knew of the log.
        # The next write reads the file anew.
        self.close()
        return f"{self.path}: {error}"

    def _reconnect(self) -> None:
        connection = self._connect()
        (found,) = connection.execute("SELECT coalesce(max(revision), 0) FROM objects").fetchone()
        if found != self.revision:
            connection.close()
            raise OSError(
                f"after an earlier error the file is at revision {found} and not at {self.revision}; "
                "restart to go on from what it holds"
            )
        self._connection = connection

    def close(self) -> None:
        """Close the file; its log is folded into it. Safe to call twice."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _checksum(created: int, revision: int, key: str, value: bytes | None) -> int:
    head = f"{created} {revision} {'-' if value is None else '+'} {key}".encode()
    return zlib.crc32(value, zlib.crc32(head)) if value is not None else zlib.crc32(head)


def _code(error: sqlite3.Error) -> int:
    """The primary result code, 0 when SQLite was not asked at all."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
