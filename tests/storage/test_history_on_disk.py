"""History in a data directory: it survives restarts with its times, within its bounds."""

import asyncio
import contextlib
import sqlite3
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.env import Env
from pilothouse.machinery.causes import Cause, Origin, Trigger
from pilothouse.storage import (
    Change,
    CommitFailed,
    Compacted,
    DamagedStore,
    DataDirectoryError,
    Record,
    Retention,
    Staged,
)
from pilothouse.storage.history import KEPT
from pilothouse.storage.sqlite import FILE_NAME, SqliteStore

ORIGIN = Origin(
    "system:serviceaccount:kube-system:replicaset-controller",
    "manager/v1.36",
    "create",
    cause=Cause(
        "replicaset-controller", "shop/web", "wants 3: „2“ more", (Trigger("ADDED", "pods", "shop", "a", "4"),)
    ),
    time=1000.0,
)


@contextlib.asynccontextmanager
async def opened(
    env: Env, directory: Path, retention: Retention = KEPT, quota_bytes: int = 0
) -> AsyncIterator[SqliteStore]:
    store = SqliteStore.open(env, directory, retention=retention, inline=True, fsync=False, quota_bytes=quota_bytes)
    try:
        yield store
    finally:
        await store.close()


async def put(store: SqliteStore, key: str, value: bytes = b"v") -> int:
    staged = store.stage(key, lambda revision: b"%d %b" % (revision, value))
    await store.commit(staged)
    return staged.revision


async def remove(store: SqliteStore, key: str) -> int:
    staged = store.stage(key, None, last=lambda revision: b"last %d" % revision)
    await store.commit(staged)
    return staged.revision


def rows(directory: Path, query: str) -> list[tuple[object, ...]]:
    """What a query of the closed file finds."""
    with contextlib.closing(sqlite3.connect(directory / FILE_NAME)) as connection:
        return connection.execute(query).fetchall()


def stamp(staged: Staged) -> None:
    staged.change.origin = ORIGIN


# Surviving


async def test_changes_survive_with_origin_and_cause(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        store.on_stage.append(stamp)
        await put(store, "/pods/shop/a")
        await put(store, "/pods/shop/a")
        store.on_stage.clear()
        await remove(store, "/pods/shop/a")
    async with opened(env, tmp_path) as store:
        assert store.changes("/pods/") == [
            Change(2, "/pods/shop/a", "ADDED", b"2 v", None, None, ORIGIN),
            Change(3, "/pods/shop/a", "MODIFIED", b"3 v", Record("/pods/shop/a", b"2 v", 2, 2), None, ORIGIN),
            Change(4, "/pods/shop/a", "DELETED", b"last 4", Record("/pods/shop/a", b"3 v", 3, 2)),
        ]


async def test_watch_and_list_from_before_the_restart(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        first = await put(store, "/pods/shop/a")
        await put(store, "/nodes/n")
        await remove(store, "/pods/shop/a")
    async with opened(env, tmp_path) as store:
        last = await put(store, "/pods/shop/b")
        assert [(change.type, change.revision) for change in store.watch("/pods/", first).take()] == [
            ("DELETED", 4),
            ("ADDED", last),
        ]
        assert [record.key for record in store.list("", revision=3).records] == ["/nodes/n", "/pods/shop/a"]
        assert store.list("", revision=1).records == []


async def test_times_survive(env: Env, tmp_path: Path) -> None:
    written = []
    async with opened(env, tmp_path) as store:
        for _ in range(3):
            written.append(await put(store, "/pods/shop/a"))
            await asyncio.sleep(10)
    await asyncio.sleep(100)
    async with opened(env, tmp_path) as store:
        assert [store.revision_at(seconds) for seconds in (130, 125, 120, 110, 0)] == [
            written[0], written[0], written[1], written[2], written[2],
        ]  # fmt: skip
        assert store.seconds_since(written[1]) == 120
        with pytest.raises(Compacted):
            store.revision_at(131)


async def test_expired_history_is_not_loaded(env: Env, tmp_path: Path) -> None:
    retention = Retention(seconds=100)
    async with opened(env, tmp_path, retention) as store:
        first = await put(store, "/pods/shop/a")
        await asyncio.sleep(60)
        second = await put(store, "/pods/shop/a")
    await asyncio.sleep(60)
    async with opened(env, tmp_path, retention) as store:
        with pytest.raises(Compacted):
            store.watch("/pods/", first - 1)
        assert [change.revision for change in store.watch("/pods/", first).take()] == [second]
        assert store.compacted == first
        assert store.revision_at(61) == first


async def test_last_mark_before_the_retention_survives(env: Env, tmp_path: Path) -> None:
    retention = Retention(seconds=100)
    async with opened(env, tmp_path, retention) as store:
        for _ in range(300):
            last = await put(store, "/pods/shop/a")
        await asyncio.sleep(101)
        now = [await put(store, "/pods/shop/b") for _ in range(2)][-1]
        await asyncio.sleep(10)
    async with opened(env, tmp_path, retention) as store:
        assert store.revision_at(50) == last
        assert store.revision_at(5) == now
    assert rows(tmp_path, "SELECT count(*) FROM versions") == [(3,)]


async def test_clock_set_back_keeps_marks_ordered(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        for _ in range(3):
            await put(store, "/pods/shop/a")
            await asyncio.sleep(10)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        # As if the second write had come an hour later: the clock was set back after it.
        for revision, created, at, key, value in connection.execute(
            "SELECT revision, created, at, key, value FROM versions WHERE revision=3"
        ).fetchall():
            crc = zlib.crc32(value, zlib.crc32(f"{created} {revision} + {key} {at + 3600}".encode()))
            connection.execute("UPDATE versions SET at=?, checksum=? WHERE revision=3", (at + 3600, crc))
        connection.commit()
    async with opened(env, tmp_path) as store:
        assert store.revision_at(0) == 4
        assert store.revision_at(25) == 2
        assert [revision for _seconds, revision in store.history_marks()] == [2, 4]


# Bounds


async def test_changed_bounds_apply_to_stored_history(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        for _ in range(50):
            await put(store, "/pods/shop/a", b"x" * 1000)
        for _ in range(5):
            await put(store, "/nodes/n")
    async with opened(env, tmp_path, Retention(changes=10)) as store:
        assert len(store.changes("/pods/")) == 10
        assert len(store.changes("/nodes/")) == 5
    async with opened(env, tmp_path, Retention(bytes=5_000)) as store:
        assert len(store.changes("/pods/")) == 3
    async with opened(env, tmp_path, Retention(total_bytes=8_000)) as store:
        assert len(store.changes("/pods/")) == 4
        assert len(store.changes("/nodes/")) == 5
    async with opened(env, tmp_path) as store:
        assert len(store.changes("/pods/")) == 50, "the file is pruned with writes alone"


async def test_largest_resource_history_is_pruned_first(env: Env, tmp_path: Path) -> None:
    retention = Retention(total_bytes=100_000)
    async with opened(env, tmp_path, retention) as store:
        for number in range(200):
            await put(store, "/pods/shop/a", b"x" * 1000)
            if number % 20 == 0:
                await put(store, "/nodes/n")
        assert len(store.changes("/nodes/")) == 10
        assert 50 < len(store.changes("/pods/")) < 70
        assert store.history_floor("/pods/") > store.history_floor("/nodes/") == 0


async def test_lease_history_is_short(env: Env, tmp_path: Path) -> None:
    retention = Retention(seconds=1000, brief=(("coordination.k8s.io/leases/", 50),))
    async with opened(env, tmp_path, retention) as store:
        first = await put(store, "/pods/shop/a")
        for _ in range(100):
            await asyncio.sleep(2)
            await put(store, "coordination.k8s.io/leases/kube-system/manager")
        assert 24 <= len(store.changes("coordination.k8s.io/leases/")) <= 27
        assert len(store.changes("/pods/")) == 1
        assert store.watch("/pods/", first - 1).take() != []
        with pytest.raises(Compacted):
            store.watch("coordination.k8s.io/leases/", first)
    async with opened(env, tmp_path, retention) as store:
        assert 24 <= len(store.changes("coordination.k8s.io/leases/")) <= 27


async def test_pruning_is_spread_over_writes(env: Env, tmp_path: Path) -> None:
    retention = Retention(changes=20)
    async with opened(env, tmp_path, retention) as store:
        for number in range(3000):
            await put(store, f"/pods/shop/{number % 5}", b"x" * 500)
            if number % 7 == 0:
                await remove(store, f"/pods/shop/{number % 5}")
    ((count,),) = rows(tmp_path, "SELECT count(*) FROM versions")
    assert isinstance(count, int)
    assert count < 5 + 2 * 20 + 200 + 2, "live, history, and what waits for the next step"
    assert (tmp_path / FILE_NAME).stat().st_size < 500_000
    async with opened(env, tmp_path, retention) as store:
        assert len(store.changes("/pods/")) == 20


async def test_history_is_dropped_before_writes_fail_on_a_full_disk(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path, quota_bytes=400_000) as store:
        for number in range(1000):
            await put(store, f"/pods/shop/{number % 20}", b"x" * 3000)
        assert len(store.changes("/pods/")) == 1000, "in memory it is as long as before"
        expected = store.list("").records
    async with opened(env, tmp_path, quota_bytes=400_000) as store:
        assert store.list("").records == expected
        kept = store.changes("/pods/")
        assert 0 < len(kept) < 100
        assert kept == sorted(kept, key=lambda change: change.revision)
        assert store.compacted == kept[0].revision - 1
        with pytest.raises(CommitFailed, match="or its quota of 400000 bytes is used up"):
            await put(store, "/pods/shop/large", b"x" * 400_000)
        for number in range(20):
            await remove(store, f"/pods/shop/{number}")
        await put(store, "/pods/shop/large", b"x" * 300_000)
    async with opened(env, tmp_path, quota_bytes=400_000) as store:
        assert [record.key for record in store.list("").records] == ["/pods/shop/large"]


# Formats, and damage

FORMAT_1 = """
CREATE TABLE objects (created INTEGER PRIMARY KEY, revision INTEGER NOT NULL, key TEXT NOT NULL,
  checksum INTEGER NOT NULL, value BLOB);
PRAGMA application_id=1885957231; PRAGMA user_version=1;
"""


def make_format_1(directory: Path, objects: list[tuple[int, int, str, bytes | None]]) -> None:
    """A store as written by releases until 0.3: (created, revision, key, value)."""
    directory.mkdir()
    with contextlib.closing(sqlite3.connect(directory / FILE_NAME)) as connection:
        connection.executescript(FORMAT_1)
        for created, revision, key, value in objects:
            crc = zlib.crc32(f"{created} {revision} {'-' if value is None else '+'} {key}".encode())
            crc = zlib.crc32(value, crc) if value is not None else crc
            connection.execute("INSERT INTO objects VALUES (?,?,?,?,?)", (created, revision, key, crc, value))
        connection.commit()


OLD = [
    (2, 9, "/pods/shop/a", b"a"),
    (3, 3, "/pods/shop/b", b"b"),
    (4, 6, "/pods/shop/c", None),
    (5, 5, "/nodes/n", b"n"),
]


@cases(
    "more, revision",
    {
        "last write is an object": ([], 9),
        "last write is a deletion": ([(7, 10, "/pods/shop/d", None)], 10),
    },
)
async def test_format_1_is_migrated(
    env: Env, tmp_path: Path, more: list[tuple[int, int, str, bytes | None]], revision: int
) -> None:
    directory = tmp_path / "data"
    make_format_1(directory, OLD + more)
    async with opened(env, directory) as store:
        assert store.revision == store.compacted == revision
        assert store.list("").records == [
            Record("/nodes/n", b"n", 5, 5),
            Record("/pods/shop/a", b"a", 9, 2),
            Record("/pods/shop/b", b"b", 3, 3),
        ]
        with pytest.raises(Compacted):
            store.watch("/pods/", revision - 1)
        with pytest.raises(Compacted):
            store.revision_at(1)
        assert await put(store, "/pods/shop/b") == revision + 1
    async with opened(env, directory) as store:
        assert store.revision == revision + 1
        (change,) = store.changes("/pods/")
        assert change.old == Record("/pods/shop/b", b"b", 3, 3)
        assert len(store.list("", revision=revision).records) == 3
    assert rows(directory, "PRAGMA user_version") == [(2,)]


async def test_empty_format_1_is_migrated(env: Env, tmp_path: Path) -> None:
    make_format_1(tmp_path / "data", [])
    async with opened(env, tmp_path / "data") as store:
        assert await put(store, "/pods/shop/a") == 2
        assert len(store.watch("/pods/", 1).take()) == 1


async def test_corrupt_format_1_is_rejected(env: Env, tmp_path: Path) -> None:
    make_format_1(tmp_path / "data", OLD)
    path = tmp_path / "data" / FILE_NAME
    data = path.read_bytes()
    at = data.index(b"/pods/shop/b")
    path.write_bytes(data[: at + 11] + b"X" + data[at + 12 :])
    with pytest.raises(DamagedStore, match="'/pods/shop/X' is not what was written"):
        async with opened(env, tmp_path / "data"):
            pass


async def test_migration_on_a_full_disk_fails_without_changes(env: Env, tmp_path: Path) -> None:
    make_format_1(tmp_path / "data", [(2, 2, "/pods/shop/a", b"a" * 200_000)])
    with pytest.raises(DataDirectoryError, match=r"can't be opened: database or disk is full"):
        async with opened(env, tmp_path / "data", quota_bytes=250_000):
            pass
    async with opened(env, tmp_path / "data") as store:
        assert store.count("/pods/") == 1


async def test_history_with_a_gap_starts_after_it(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        for name in "ab":
            for _ in range(3):
                await put(store, f"/pods/shop/{name}")
        await put(store, "/nodes/n")
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("DELETE FROM versions WHERE revision=2")
        connection.commit()
    async with opened(env, tmp_path) as store:
        assert [change.revision for change in store.changes("/pods/")] == [4, 5, 6, 7]
        assert store.history_floor("/pods/") == 3
        assert [change.revision for change in store.changes("/nodes/")] == [8]


async def test_corrupt_compacted_revision_is_rejected(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path, Retention(changes=5)) as store:
        for _ in range(300):
            await put(store, "/pods/shop/a")
    assert rows(tmp_path, "SELECT count(*) FROM floors") == [(1,)]
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("UPDATE floors SET revision=1")
        connection.commit()
    with pytest.raises(DamagedStore, match="where its history begins is not what was written"):
        async with opened(env, tmp_path):
            pass
