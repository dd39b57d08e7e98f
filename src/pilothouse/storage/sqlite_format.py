"""The format of a store's file: tables, checksums of rows, and conversion from older formats.

Format 2 has one row per version of an object, with the revision that wrote it: append-only, so that a write is one
insert. A version that was replaced or deleted is kept as long as history needs it. ``floors`` has the start of history:
at or below a floor there are no changes, although rows of objects that were not written since may be older. A floor is
never lower than a removed revision.

Format 1 (until 0.3) had only the latest version, and rows without a value for deleted objects.
"""

import sqlite3
import zlib
from collections.abc import Callable, Mapping

FORMAT = 2
"""The format that this code reads and writes (``PRAGMA user_version``)."""

APPLICATION = 0x70696C6F  # "pilo": identifies our files

WRITTEN, DELETED = 0, 1
"""``versions.kind``."""

Migration = Callable[[sqlite3.Connection], None]

_TABLES = (
    "CREATE TABLE versions (revision INTEGER PRIMARY KEY, created INTEGER NOT NULL, kind INTEGER NOT NULL, at REAL,"
    " key TEXT NOT NULL, checksum INTEGER NOT NULL, origin BLOB, value BLOB)",
    "CREATE TABLE floors (prefix TEXT PRIMARY KEY, revision INTEGER NOT NULL, at REAL, checksum INTEGER NOT NULL)"
    " WITHOUT ROWID",
)
"""``at`` is seconds since the epoch, ``origin`` JSON, ``value`` the stored value, for a deletion the last state. The
floor of the empty prefix applies to all resources; its ``at`` is when that revision was current, if known.
"""


def create(connection: sqlite3.Connection, format_version: int) -> None:
    """Create the tables of an empty file."""
    statements = ";".join(_TABLES)
    connection.executescript(
        f"BEGIN;{statements};PRAGMA application_id={APPLICATION}; PRAGMA user_version={format_version};COMMIT"
    )


def checksum(
    revision: int, created: int, kind: int, timestamp: float | None, key: str, origin: bytes | None, value: bytes | None
) -> int:
    """The checksum of a version. In format 1 it is that of the version without time and origin."""
    time = "" if timestamp is None else f" {timestamp}"
    head = f"{created} {revision} {'-' if kind else '+'} {key}{time}".encode()
    return zlib.crc32(value or b"", zlib.crc32(origin or b"", zlib.crc32(head)))


def floor_checksum(prefix: str, revision: int, timestamp: float | None) -> int:
    """The checksum of a floor."""
    return zlib.crc32(f"{prefix} {revision} {timestamp}".encode())


def _to_2(connection: sqlite3.Connection) -> None:
    """Format 1 to 2: its objects become versions, and history starts after them."""
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO versions SELECT revision, created, 0, NULL, key, checksum, NULL, value"
        " FROM objects WHERE value IS NOT NULL ORDER BY revision"
    )
    # The latest revision is kept, even if it is a deletion.
    connection.execute(
        "INSERT OR IGNORE INTO versions SELECT revision, created, 1, NULL, key, checksum, NULL, NULL"
        " FROM objects WHERE value IS NULL ORDER BY revision DESC LIMIT 1"
    )
    (newest,) = connection.execute("SELECT coalesce(max(revision), 0) FROM objects").fetchone()
    connection.execute("INSERT INTO floors VALUES ('', ?, NULL, ?)", (newest, floor_checksum("", newest, None)))
    connection.execute("DROP TABLE objects")


MIGRATIONS: Mapping[int, Migration] = {1: _to_2}
"""Conversions from a format to the next. Each runs in its own transaction, which also sets the new format."""
