"""SQLite and etcd on a full disk: errors, no acknowledged write lost, recovery."""

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.small_disks import fill, is_full, small_disk
from tests.storage.test_sqlite import CHILD_ENVIRONMENT, content, put

from pilothouse.env import Env
from pilothouse.storage import CommitFailed, DataDirectoryError
from pilothouse.storage.sqlite import SqliteStore

INLINE = pytest.mark.parametrize(
    "inline",
    [pytest.param(True, id="inline"), pytest.param(False, id="commit thread", marks=pytest.mark.real_loop)],
)
MIB = 1024 * 1024


async def _put_until_full(store: SqliteStore, name: str) -> tuple[list[str], str]:
    """The names of acknowledged objects, and the error of the first rejected write."""
    acknowledged: list[str] = []
    for number in range(2000):
        try:
            await put(store, f"/pods/default/{name}-{number}", b"x" * 3000)
        except CommitFailed as failed:
            return acknowledged, failed.reason
        acknowledged.append(f"{name}-{number}")
    raise AssertionError("the disk never ran full")


def _names(store: SqliteStore) -> list[str]:
    return sorted(record.key.rpartition("/")[2] for record in store.list("/pods/").records)


@INLINE
async def test_writes_fail_on_a_full_disk_and_recover(env: Env, tmp_path: Path, inline: bool) -> None:
    with small_disk(tmp_path / "disk", 4 * MIB) as disk:
        store = SqliteStore.open(env, disk / "data", inline=inline)
        ballast = fill(disk, leave=MIB)
        watcher = store.watch("/pods/", store.revision)
        acknowledged, reason = await _put_until_full(store, "a")
        assert len(acknowledged) > 20
        assert reason.startswith((f"no space left for {disk}/data", f"{disk}/data"))
        assert is_full(disk)
        # Repeatedly: a failed write leaves nothing behind, nor does it use space.
        for attempt in range(20):
            with pytest.raises(CommitFailed):
                await put(store, f"/pods/default/lost-{attempt}", b"x" * 30_000)
        assert _names(store) == sorted(acknowledged)
        assert len(watcher.take()) == len(acknowledged)
        ballast.unlink()
        more = [await put(store, f"/pods/default/b-{number}", b"x" * 3000) for number in range(20)]
        assert more == [*range(more[0], more[0] + 20)], "each has the next revision"
        await store.commit(store.stage("/pods/default/a-0", None))
        expected = sorted([*acknowledged[1:], *(f"b-{number}" for number in range(20))])
        assert _names(store) == expected
        await store.close()
        assert await content(env, disk / "data") == (store.revision, store.list("").records)


_FILLER = """
import os, sys
from pilothouse.env import Env, loops
from pilothouse.storage import CommitFailed
from pilothouse.storage.sqlite import SqliteStore

async def main():
    store = SqliteStore.open(Env(), sys.argv[1])
    for number in range(5000):
        try:
            staged = store.stage(f"/pods/default/{number % 50}", lambda r: b"%d " % r * 600)
            await store.commit(staged)
        except CommitFailed:
            os.kill(os.getpid(), 9)
        os.write(1, b"%d %d\\n" % (number % 50, staged.revision))

loops.run(main())
"""


@pytest.mark.real_loop
async def test_process_killed_on_a_full_disk_loses_nothing(env: Env, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 3 * MIB) as disk:
        ballast = fill(disk, leave=2 * MIB)
        command = [sys.executable, "-c", _FILLER, str(disk / "data")]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, env=CHILD_ENVIRONMENT, check=False)
        assert done.returncode == -9, done.stderr.decode()
        acknowledged = dict(line.split() for line in done.stdout.decode().splitlines())
        assert len(acknowledged) == 50
        # It opens on the full disk, shows everything, and can't be written; with room it can.
        store = SqliteStore.open(env, disk / "data", inline=True)
        result = {record.key.rpartition("/")[2]: str(record.revision) for record in store.list("/pods/").records}
        assert result == acknowledged
        fill(disk)
        with pytest.raises(CommitFailed):
            await put(store, "/pods/default/more", os.urandom(MIB))
        ballast.unlink()
        await put(store, "/pods/default/more")
        await store.close()
        revision, records = await content(env, disk / "data")
        assert (revision, len(records)) == (store.revision, 51)


async def test_data_directory_on_a_full_disk_is_rejected_unchanged(env: Env, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", MIB) as disk:
        ballast = fill(disk)
        for _attempt in range(2):
            with pytest.raises(
                DataDirectoryError, match=r"No space left on device|database or disk is full|disk I/O error"
            ):
                SqliteStore.open(env, disk / "data", inline=True)
        ballast.unlink()
        store = SqliteStore.open(env, disk / "data", inline=True)
        await put(store, "/pods/default/a")
        await store.close()


@INLINE
async def test_durable_write_is_acknowledged_if_the_lock_file_cannot_be_updated(
    env: Env, tmp_path: Path, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On file systems where overwriting needs space, too (copy on write)."""
    store = SqliteStore.open(env, tmp_path, inline=inline)
    await put(store, "/pods/default/a")

    def pwrite(_fd: int, _data: bytes, _offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        assert await put(store, "/pods/default/b") == 3
    assert await put(store, "/pods/default/c") == 4
    await store.close()
    assert (await content(env, tmp_path))[0] == 4


@INLINE
async def test_closing_on_a_full_disk_keeps_acknowledged_writes(env: Env, tmp_path: Path, inline: bool) -> None:
    with small_disk(tmp_path / "disk", 3 * MIB) as disk:
        store = SqliteStore.open(env, disk / "data", inline=inline)
        ballast = fill(disk, leave=MIB)
        acknowledged, _reason = await _put_until_full(store, "a")
        fill(disk)
        await store.close()
        ballast.unlink()
        _revision, records = await content(env, disk / "data")
        assert sorted(record.key.rpartition("/")[2] for record in records) == sorted(acknowledged)
        await asyncio.sleep(0)
