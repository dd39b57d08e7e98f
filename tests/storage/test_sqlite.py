"""The SQLite store: durability, rejection of corrupt or locked files, and failed commits."""

import asyncio
import contextlib
import os
import random
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.env import Env
from pilothouse.storage import (
    Change,
    CommitFailed,
    DamagedStore,
    DataDirectoryError,
    DataDirectoryLocked,
    NewerFormat,
    Record,
    Retention,
)
from pilothouse.storage.data_directory import DataDirectory
from pilothouse.storage.history import KEPT
from pilothouse.storage.sqlite import FILE_NAME, SqliteStore
from pilothouse.storage.sqlite_file import Pruning, SqliteFile
from pilothouse.storage.sqlite_format import APPLICATION

CHILD_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
"""What a child process needs to import what this one does."""

FILL = """
import os, sys
from pilothouse.env import Env, virtual
from pilothouse.storage.sqlite import SqliteStore

async def main(env):
    store = SqliteStore.open(env, sys.argv[1], inline=True)
    for i in range(40):
        await store.commit(store.stage(f'/pods/default/{i % 10}', lambda r: b'%d ' % r * 700))
    os._exit(0)

virtual.run(main)
"""
"""Writes forty revisions, and ends without closing the store."""


def filled_at(revision: int) -> dict[str, int]:
    """The objects that ``FILL`` has written at this revision, and their revisions."""
    return {f"/pods/default/{i % 10}": i + 2 for i in range(revision - 1)}


def run_child(code: str, directory: Path) -> str:
    """Run a program with the directory as its argument; returns its output."""
    command = [sys.executable, "-c", code, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=CHILD_ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def put(store: SqliteStore, key: str, value: bytes = b"v") -> int:
    staged = store.stage(key, lambda _revision: value)
    await store.commit(staged)
    return staged.revision


@contextlib.asynccontextmanager
async def opened(env: Env, directory: Path, retention: Retention = KEPT) -> AsyncIterator[SqliteStore]:
    """Open the store in the directory, and close it at the end."""
    store = SqliteStore.open(env, directory, retention=retention, inline=True)
    try:
        yield store
    finally:
        await store.close()


async def content(env: Env, directory: Path) -> tuple[int, list[Record]]:
    """What a store is opened with: its revision and its records."""
    async with opened(env, directory) as store:
        return store.revision, store.list("").records


async def put_three_pods(store: SqliteStore) -> None:
    for name in "abc":
        await put(store, f"/pods/default/{name}", name.encode() * 3000)


async def make_three_pods(env: Env, directory: Path) -> None:
    """Fill the store there."""
    async with opened(env, directory) as store:
        await put_three_pods(store)


# Surviving


async def test_records_revisions_and_history_survive(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        await put_three_pods(store)
        await put(store, "/pods/default/a", b"again")
        await store.commit(store.stage("/pods/default/c", None))
        changes = store.changes("/pods/")

    async with opened(env, tmp_path) as store:
        assert store.revision == 6
        assert store.list("").records == [
            Record("/pods/default/a", b"again", 5, 2),
            Record("/pods/default/b", b"b" * 3000, 3, 3),
        ]
        assert store.compacted == 0
        assert store.changes("/pods/") == changes
        watcher = store.watch("/pods/", 5)
        assert await put(store, "/pods/default/c") == 7
        assert [change.type for change in watcher.take()] == ["DELETED", "ADDED"]
        assert len(store.list("/pods/", revision=4).records) == 3

    assert (await content(env, tmp_path))[0] == 7


async def test_object_created_and_deleted_in_one_commit(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path) as store:
        store.stage("/pods/default/a", lambda _revision: b"1")
        store.stage("/pods/default/a", lambda _revision: b"2")
        await store.commit(store.stage("/pods/default/a", None))
    assert await content(env, tmp_path) == (4, [])


async def test_large_commits_and_deletions_survive(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path, Retention(changes=100)) as store:
        for round_ in range(3):
            staged = [store.stage(f"/pods/default/{i}", lambda _revision: b"x") for i in range(1200)]
            await store.commit(staged[-1])
            staged = [store.stage(f"/pods/default/{i}", None) for i in range(1200) if i > round_]
            await store.commit(staged[-1])
        for _ in range(5):
            await put(store, "/pods/default/0")
    revision, records = await content(env, tmp_path)
    assert revision == 1 + 2 * 3600 - 1 - 2 - 3 + 5
    assert len(records) == 3
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM versions").fetchone()
    connection.close()
    assert rows < 3 + 100 * 2 + 500


async def test_file_mode_is_private(env: Env, tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"

    async with opened(env, directory) as store:
        await put(store, "/pods/default/a")
        names = sorted(path.name for path in directory.iterdir())
        assert names == ["lock", FILE_NAME, FILE_NAME + "-wal"]
        for name in names:
            assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


CHILD = """
import asyncio, os, sys
from pilothouse.env import Env, loops
from pilothouse.storage.sqlite import SqliteStore

async def main():
    store = SqliteStore.open(Env(), sys.argv[1])
    os.write(1, b"%d\\n" % store.revision)

    async def write(worker):
        step = 0
        while True:
            step += 1
            key = f"/pods/default/{worker}-{step % 7}"
            if step % 5 == 0 and store.staged(key) is not None:
                staged = store.stage(key, None)
            else:
                staged = store.stage(key, lambda revision: b"%d " % revision * 300)
            kind = b"-" if staged.record is None else b"+"
            os.write(2, b"%s %d %s\\n" % (kind, staged.revision, key.encode()))
            await store.commit(staged)
            os.write(1, b"%d\\n" % staged.revision)

    await asyncio.gather(*(write(worker) for worker in range(8)))

loops.run(main())
"""
"""Says what it stages on standard error, in revision order, and what was acknowledged on standard output."""


def kill_writer(directory: Path, revision: int, *, after: int) -> int:
    """Start ``CHILD``, and kill it after this many writes. Returns the last acknowledged revision."""
    with (directory / "staged").open("wb") as staged:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(directory / "data")],
            stdout=subprocess.PIPE,
            stderr=staged,
            env=CHILD_ENVIRONMENT,
        )
        assert child.stdout is not None
        assert int(child.stdout.readline()) == revision
        for _ in range(after):
            child.stdout.readline()
        child.kill()
        output = child.stdout.read().split(b"\n")
        child.wait()
        child.stdout.close()
    return max((int(line) for line in output[:-1]), default=0)


async def test_kill_9_under_load_loses_no_acknowledged_write(env: Env, tmp_path: Path, soak: bool) -> None:
    """The recovered state is a prefix of the writes in revision order, with all acknowledged ones. So is the history,
    in which every previous state can be read."""
    state: dict[str, int] = {}
    states = {1: state}
    revision = 1
    rng = random.Random(9)
    for _ in range(40 if soak else 4):
        acknowledged = kill_writer(tmp_path, revision, after=rng.randrange(50, 400))
        stored, records = await content(env, tmp_path / "data")
        assert stored >= acknowledged
        for line in (tmp_path / "staged").read_text().splitlines():
            kind, number, key = line.split()
            if int(number) <= stored:
                state = {other: written for other, written in state.items() if other != key}
                if kind == "+":
                    state[key] = int(number)
                states[int(number)] = state
        assert {record.key: record.revision for record in records} == state
        async with opened(env, tmp_path / "data") as store:
            for then in rng.sample(sorted(states), 50):
                page = store.list("", revision=then)
                assert {record.key: record.revision for record in page.records} == states[then]
        assert all(record.value == b"%d " % record.revision * 300 for record in records)
        revision = stored


async def test_truncated_wal_opens_to_a_prefix(env: Env, tmp_path: Path, soak: bool) -> None:
    """A user that accepts the loss by removing the lock file gets a prefix of the writes, none of them in part."""
    whole = tmp_path / "whole"
    run_child(FILL, whole)
    data = (whole / (FILE_NAME + "-wal")).read_bytes()
    rng = random.Random(3)
    observed = set()
    for number in range(400 if soak else 25):
        cut = tmp_path / f"cut-{number}"
        cut.mkdir()
        (cut / FILE_NAME).write_bytes((whole / FILE_NAME).read_bytes())
        (cut / (FILE_NAME + "-wal")).write_bytes(data[: rng.randrange(len(data) + 1)])
        revision, records = await content(env, cut)
        observed.add(revision)
        assert {record.key: record.revision for record in records} == filled_at(revision)
        assert all(record.value == b"%d " % record.revision * 700 for record in records)
    assert len(observed) > 10, "the cuts fell everywhere"


# One process at a time


async def test_second_store_is_rejected_with_the_pid_of_the_first(env: Env, tmp_path: Path) -> None:
    async with opened(env, tmp_path):
        with pytest.raises(DataDirectoryLocked, match=f"in use by process {os.getpid()}") as refused:
            SqliteStore.open(Env(), tmp_path)
        assert refused.value.pid == os.getpid()
    await make_three_pods(env, tmp_path)


@pytest.mark.parametrize("name", ["lock", "pilothouse.db", "admin.token"])
def test_symlinks_in_the_data_directory_are_rejected(tmp_path: Path, name: str) -> None:
    """Another user could have one of our files overwritten, or a foreign one trusted."""
    victim, data = tmp_path / "victim", tmp_path / "data"
    victim.write_text("precious")
    data.mkdir()
    (data / name).symlink_to(victim)
    with pytest.raises(DataDirectoryError, match=rf"can't be used: {re.escape(name)} in it is a symbolic link"):
        DataDirectory(data)
    assert victim.read_text() == "precious"


def test_data_directory_writable_by_others_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("known to its owner")
    tmp_path.chmod(0o777)
    with pytest.raises(DataDirectoryError, match=r"can't be used: others may write into it \(mode 0777\)"):
        DataDirectory(tmp_path)


def test_lock_is_released_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pilothouse.storage.data_directory import DataDirectory\n"
        "held = DataDirectory(sys.argv[1]); print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=CHILD_ENVIRONMENT) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(DataDirectoryLocked, match=f"in use by process {child.pid};"):
            DataDirectory(tmp_path)
        child.kill()
    DataDirectory(tmp_path).release()


def test_failed_creation_of_the_data_directory_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="can't be used"):
        SqliteStore.open(Env(), tmp_path / "file" / "data")


# Damage, formats


async def test_any_flipped_byte_is_rejected_or_harmless(env: Env, tmp_path: Path) -> None:
    await make_three_pods(env, tmp_path)
    path = tmp_path / FILE_NAME
    whole = await content(env, tmp_path)
    good = path.read_bytes()
    rng = random.Random(5)
    refused = 0
    for _ in range(150):
        offset = rng.randrange(len(good))
        path.write_bytes(good[:offset] + bytes([good[offset] ^ (1 << rng.randrange(8))]) + good[offset + 1 :])
        try:
            assert await content(env, tmp_path) == whole
        except DataDirectoryError:
            refused += 1
        path.write_bytes(good)
    assert refused > 50
    assert await content(env, tmp_path) == whole


async def test_corrupt_value_error_names_the_key(env: Env, tmp_path: Path) -> None:
    await make_three_pods(env, tmp_path)
    path = tmp_path / FILE_NAME
    data = path.read_bytes()
    at = data.index(b"b" * 2000)
    path.write_bytes(data[:at] + b"X" + data[at + 1 :])
    with pytest.raises(DamagedStore, match="'/pods/default/b' is not what was written"):
        await content(env, tmp_path)


@cases(
    "keep, reason",
    {
        "cut short": (lambda data: data[:5000], "damaged"),
        "emptied": (lambda data: b"", "revision 4 was acknowledged"),
        "overwritten": (lambda data: b"not a database" * 1000, "damaged"),
    },
)
async def test_corrupt_file_is_rejected(env: Env, tmp_path: Path, keep: Callable[[bytes], bytes], reason: str) -> None:
    await make_three_pods(env, tmp_path)
    path = tmp_path / FILE_NAME
    path.write_bytes(keep(path.read_bytes()))
    with pytest.raises(DamagedStore, match=reason):
        await content(env, tmp_path)


async def test_wal_without_acknowledged_writes_is_rejected(env: Env, tmp_path: Path) -> None:
    """SQLite treats a damaged log as one that ended earlier; the revision in the lock file detects it."""
    run_child(FILL, tmp_path)
    log = tmp_path / (FILE_NAME + "-wal")
    data = log.read_bytes()
    log.write_bytes(data[: len(data) // 2] + b"\xff" + data[len(data) // 2 + 1 :])
    with pytest.raises(DamagedStore, match="revision 41 was acknowledged"):
        await content(env, tmp_path)
    (tmp_path / "lock").unlink()
    revision, records = await content(env, tmp_path)
    assert 1 < revision < 41
    assert {record.key: record.revision for record in records} == filled_at(revision)


async def test_database_of_another_program_is_not_changed(env: Env, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with pytest.raises(DataDirectoryError, match="database of another program"):
        await content(env, tmp_path)


async def test_newer_format_is_rejected_unchanged(env: Env, tmp_path: Path) -> None:
    await make_three_pods(env, tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(NewerFormat, match="has format 7, and this pilothouse reads formats up to 2"):
        await content(env, tmp_path)


async def test_older_format_is_migrated_step_by_step(env: Env, tmp_path: Path) -> None:
    await make_three_pods(env, tmp_path)
    steps: list[int] = []

    def step(number: int) -> Callable[[sqlite3.Connection], None]:
        def migrate(connection: sqlite3.Connection) -> None:
            steps.append(number)
            connection.execute(f"CREATE TABLE step_{number} (x)")

        return migrate

    file = SqliteFile(tmp_path / FILE_NAME, format_version=4, migrations={2: step(2), 3: step(3)})
    assert len(file.load().records) == 3
    file.close()
    assert steps == [2, 3]
    again = SqliteFile(tmp_path / FILE_NAME, format_version=4)
    assert len(again.load().records) == 3
    again.close()
    with pytest.raises(NewerFormat):
        await content(env, tmp_path)


async def test_failed_migration_changes_nothing(env: Env, tmp_path: Path) -> None:
    await make_three_pods(env, tmp_path)

    def migrate(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM versions")
        raise sqlite3.OperationalError("no")

    with pytest.raises(DataDirectoryError, match="can't be opened"):
        SqliteFile(tmp_path / FILE_NAME, format_version=3, migrations={2: migrate}).load()
    with pytest.raises(DataDirectoryError, match="can no longer read"):
        SqliteFile(tmp_path / FILE_NAME, format_version=3, migrations={}).load()
    assert len((await content(env, tmp_path))[1]) == 3


async def test_sqlite_application_id_is_set(env: Env, tmp_path: Path) -> None:
    await make_three_pods(env, tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.close()


# Commits that fail, commits in groups


@pytest.mark.parametrize(
    "inline",
    [
        pytest.param(True, id="inline"),
        pytest.param(False, id="commit thread", marks=pytest.mark.real_loop),
    ],
)
async def test_full_disk_fails_the_write_and_recovers(env: Env, tmp_path: Path, inline: bool) -> None:
    store = SqliteStore.open(env, tmp_path, quota_bytes=200_000, inline=inline)
    watcher = store.watch("/pods/", store.revision)
    number = 1
    with contextlib.suppress(CommitFailed):
        while number < 100:
            await put(store, f"/pods/default/{number}", b"x" * 3000)
            number += 1
    assert 20 < number < 70
    assert store.revision == number == len(watcher.take()) + 1
    assert store.staged(f"/pods/default/{number}") is None
    assert store.next_revision() == store.revision + 1
    with pytest.raises(CommitFailed, match=r"no space left for .*, or its quota of 200000 bytes is used up"):
        await put(store, "/pods/default/more", b"x" * 30_000)
    for i in range(1, 11):
        await store.commit(store.stage(f"/pods/default/{i}", None))
    await put(store, "/pods/default/more", b"x" * 3000)
    assert [change.type for change in watcher.take()] == ["DELETED"] * 10 + ["ADDED"]
    await store.close()
    assert await content(env, tmp_path) == (store.revision, store.list("").records)


async def test_file_size_limit_fails_the_write_and_recovers(env: Env, tmp_path: Path) -> None:
    """The operating system rejects writes, in a separate process since the limit is the process's."""
    code = """
import resource, sys
from pilothouse.env import Env, loops
from pilothouse.storage import CommitFailed
from pilothouse.storage.sqlite import SqliteStore

async def main():
    store = SqliteStore.open(Env(), sys.argv[1])
    async def put(name):
        await store.commit(store.stage(f"/pods/default/{name}", lambda r: b"x" * 3000))
    await put("first")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    written = 0
    try:
        while True:
            await put(written)
            written += 1
    except CommitFailed as failed:
        print(failed)
    assert 5 < written < 40, written
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await put("last")
    print(store.revision, store.count("/pods/") == written + 2)
    await store.close()

loops.run(main())
"""
    reason, end = run_child(code, tmp_path).splitlines()
    assert reason.startswith("the write could not be stored: ")
    revision, records = await content(env, tmp_path)
    assert end == f"{revision} True"
    assert len(records) == revision - 1


class Gate(SqliteFile):
    """A file whose writes wait until they are released, or fail with a reason."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open = threading.Event()
        self.failure = ""
        self.groups: list[list[str]] = []

    def write(self, changes: Sequence[Change], at: float = 0.0, pruning: Pruning | None = None) -> str:
        self.groups.append([change.key.rpartition("/")[2] for change in changes])
        assert self.open.wait(10)
        return self.failure or super().write(changes, at, pruning)


@contextlib.asynccontextmanager
async def gated(env: Env, directory: Path) -> AsyncIterator[tuple[SqliteStore, Gate]]:
    """A store behind a gate, which is closed at first."""
    gate = Gate(directory / FILE_NAME)
    data_directory = DataDirectory(directory)
    store = SqliteStore(env, data_directory, gate, gate.load(), retention=Retention(), inline=False)
    yield store, gate
    gate.open.set()
    await store.close()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.real_loop
async def test_writes_staged_together_are_committed_together(env: Env, tmp_path: Path) -> None:
    async with gated(env, tmp_path) as (store, gate):
        watcher = store.watch("/pods/", store.revision)
        first = [asyncio.ensure_future(put(store, f"/pods/default/{name}")) for name in "ab"]
        await turns()
        second = [asyncio.ensure_future(put(store, "/pods/default/c"))]
        await turns()
        second.append(asyncio.ensure_future(put(store, "/pods/default/d")))
        await turns()
        assert watcher.take() == [] and store.revision == 1
        assert not any(task.done() for task in first + second)
        gate.open.set()
        assert await asyncio.gather(*first, *second) == [2, 3, 4, 5]
        assert gate.groups == [["a", "b"], ["c", "d"]]
        assert [change.revision for change in watcher.take()] == [2, 3, 4, 5]


@pytest.mark.real_loop
async def test_write_staged_during_a_transaction_stays_the_newest(env: Env, tmp_path: Path) -> None:
    async with gated(env, tmp_path) as (store, gate):
        observed: list[tuple[int, Record | None, Record | None]] = []
        store.on_commit.append(
            lambda _changes: observed.append(
                (store.revision, store.staged("/pods/default/a"), store.staged("/pods/default/b"))
            )
        )
        first = [asyncio.ensure_future(put(store, f"/pods/default/{name}", b"1")) for name in "ab"]
        await turns()
        second = [asyncio.ensure_future(put(store, "/pods/default/a", b"2"))]
        second.append(asyncio.ensure_future(store.commit(store.stage("/pods/default/b", None))))  # type: ignore[arg-type]
        await turns()
        gate.open.set()
        await asyncio.gather(*first, *second)
        newest = Record("/pods/default/a", b"2", 5, 2)
        assert observed[0] == (3, Record("/pods/default/a", b"2", 5, 2), None)
        assert observed[-1] == (5, newest, None)


@pytest.mark.real_loop
async def test_failed_commit_fails_all_staged_writes(env: Env, tmp_path: Path) -> None:
    async with gated(env, tmp_path) as (store, gate):
        gate.open.set()
        await put(store, "/pods/default/kept", b"kept")
        gate.open.clear()
        gate.failure = "the disk is on fire"
        watcher = store.watch("/pods/", store.revision)
        writing = [asyncio.ensure_future(put(store, f"/pods/default/{name}")) for name in ("kept", "a")]
        await turns()
        orphan = store.stage("/pods/default/b", lambda _revision: b"built on a failure")
        waiting = asyncio.ensure_future(store.commit(orphan))
        assert store.staged("/pods/default/a") is not None
        gate.open.set()
        outcomes = await asyncio.gather(*writing, waiting, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["the write could not be stored: the disk is on fire"] * 3
        assert gate.groups == [["kept"], ["kept", "a"]]
        assert store.staged("/pods/default/kept") == store.get("/pods/default/kept")
        assert store.staged("/pods/default/a") is store.staged("/pods/default/b") is None
        assert watcher.take() == []
        assert (store.revision, store.next_revision()) == (2, 3)
        with pytest.raises(CommitFailed):
            await store.commit(orphan)
        gate.failure = ""
        assert await put(store, "/pods/default/b") == 3
        assert [change.revision for change in watcher.take()] == [3]


@pytest.mark.real_loop
async def test_write_of_a_cancelled_caller_is_committed(env: Env, tmp_path: Path) -> None:
    async with gated(env, tmp_path) as (store, gate):
        cancelled = asyncio.ensure_future(put(store, "/pods/default/a"))
        await turns()
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        gate.open.set()
        await put(store, "/pods/default/b")
        assert store.count("/pods/") == 2


@pytest.mark.real_loop
async def test_close_waits_for_the_transaction_and_writes_the_rest(env: Env, tmp_path: Path) -> None:
    async with gated(env, tmp_path) as (store, gate):
        writing = asyncio.ensure_future(put(store, "/pods/default/a"))
        await turns()
        store.stage("/pods/default/b", lambda _revision: b"")
        closing = asyncio.ensure_future(store.close())
        await turns()
        assert not closing.done()
        gate.open.set()
        await closing
        await writing
    assert (await content(env, tmp_path))[0] == 3


@pytest.mark.real_loop
async def test_close_with_a_failing_disk(env: Env, tmp_path: Path) -> None:
    async with gated(env, tmp_path) as (store, gate):
        gate.failure = "no"
        writing = asyncio.ensure_future(put(store, "/pods/default/a"))
        await turns()
        store.stage("/pods/default/b", lambda _revision: b"")
        closing = asyncio.ensure_future(store.close())
        await turns()
        gate.open.set()
        with pytest.raises(CommitFailed):
            await writing
        await closing
    assert await content(env, tmp_path) == (1, [])
