"""Audit log file rotation, after lumberjack's tests (v2.2.1)."""

import datetime
import errno
import gzip
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pilothouse.env.log_files import MEGABYTE, RotatedFile, Rotation, open_sink

HALF = b"x" * (MEGABYTE // 2 - 1) + b"\n"
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)


class Clock:
    """Each call returns a time one second later."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> datetime.datetime:
        self.at += datetime.timedelta(seconds=1)
        return self.at


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def _names(path: Path) -> list[str]:
    return sorted(item.name for item in path.parent.iterdir())


def _rotated(path: Path, **limits: Any) -> RotatedFile:
    sink = open_sink(str(path), Rotation(**{"max_megabytes": 1, **limits}), Clock())
    assert isinstance(sink, RotatedFile)
    return sink


async def test_log_is_private_and_its_directory_created(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "deep" / "audit.log"
    sink = open_sink(str(path), Rotation(), Clock())
    sink.write(b"one\n")
    sink.close()
    assert path.read_bytes() == b"one\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_unwritable_log_is_an_error_at_startup(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_sink(str(tmp_path), Rotation(), Clock())


async def test_full_file_is_rotated_to_a_timestamped_backup(log: Path) -> None:
    sink = _rotated(log)
    for _ in range(3):
        sink.write(HALF)
    sink.wait()
    sink.close()
    backup, current = _names(log)
    assert current == "audit.log"
    assert log.read_bytes() == HALF
    assert backup.startswith("audit-2026-01-31T12-00-0")
    assert backup.endswith(".000.log")
    assert (log.parent / backup).read_bytes() == 2 * HALF


async def test_rotated_file_keeps_the_mode(log: Path) -> None:
    sink = _rotated(log)
    sink.write(HALF)
    log.chmod(0o640)
    sink.write(HALF)
    sink.write(HALF)
    sink.wait()
    sink.close()
    assert {stat.S_IMODE(item.stat().st_mode) for item in log.parent.iterdir()} == {0o640}


async def test_existing_log_is_appended_unless_full(log: Path) -> None:
    log.write_bytes(b"before\n")
    sink = _rotated(log)
    sink.write(b"after\n")
    sink.close()
    assert log.read_bytes() == b"before\nafter\n"
    log.write_bytes(2 * HALF)
    sink = _rotated(log)
    sink.write(b"new\n")
    sink.wait()
    sink.close()
    assert log.read_bytes() == b"new\n"
    assert len(_names(log)) == 2


async def test_line_over_the_maximum_size_is_an_error(log: Path) -> None:
    sink = _rotated(log)
    with pytest.raises(OSError, match="write length 1048577 exceeds maximum file size 1048576"):
        sink.write(b"x" * (MEGABYTE + 1))
    sink.write(b"small\n")
    sink.close()
    assert log.read_bytes() == b"small\n"


async def test_newest_backups_are_kept(log: Path) -> None:
    foreign = ["audit-2026-01-31T12-00-00.log", "audit-x.log", "other-2026-01-31T12-00-00.000.log", "audit.log.bak"]
    for name in foreign:
        (log.parent / name).write_text("not a backup")
    sink = _rotated(log, max_backups=2)
    for number in range(8):
        sink.write(b"%d" % number + HALF[1:])
    sink.wait()
    sink.close()
    kept = [name for name in _names(log) if name not in (*foreign, "audit.log")]
    assert [(log.parent / name).read_bytes()[:1] for name in kept] == [b"2", b"4"]
    assert set(foreign) <= set(_names(log))


async def test_old_backups_are_removed_by_timestamp(log: Path) -> None:
    old, young = "audit-2026-01-29T11-00-00.000.log", "audit-2026-01-30T13-00-00.000.log.gz"
    for name in (old, young):
        (log.parent / name).write_bytes(b"")
    sink = _rotated(log, max_age_days=1)
    sink.write(b"x")
    sink.wait()
    sink.close()
    assert _names(log) == [young, "audit.log"]


async def test_all_backups_are_kept_without_limits(log: Path) -> None:
    sink = _rotated(log, max_age_days=0, max_backups=0)
    (log.parent / "audit-1999-01-01T00-00-00.000.log").write_bytes(b"")
    for _ in range(5):
        sink.write(HALF)
    sink.wait()
    sink.close()
    assert len(_names(log)) == 4


async def test_compressed_backups_are_counted_once(log: Path) -> None:
    sink = _rotated(log, compress=True, max_backups=3)
    for _ in range(5):
        sink.write(HALF)
    sink.wait()
    sink.close()
    backups = [name for name in _names(log) if name != "audit.log"]
    assert [name.endswith(".log.gz") for name in backups] == [True, True]
    assert all(gzip.decompress((log.parent / name).read_bytes()) == 2 * HALF for name in backups)


async def test_backups_of_one_millisecond_are_all_kept(log: Path) -> None:
    sink = RotatedFile(log, Rotation(max_megabytes=1), lambda: NOON)
    for _ in range(5):
        sink.write(HALF)
    sink.wait()
    sink.close()
    assert _names(log) == ["audit-2026-01-31T12-00-00.000.log", "audit-2026-01-31T12-00-00.001.log", "audit.log"]


async def test_maxsize_0_never_rotates(log: Path) -> None:
    sink = open_sink(str(log), Rotation(max_megabytes=0), Clock())
    for _ in range(5):
        sink.write(HALF)
    sink.close()
    assert _names(log) == ["audit.log"]
    assert log.stat().st_size == 5 * len(HALF)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of free bytes; a write is truncated to it, and the next one fails, as on a full disk."""
    free = [1 << 40]
    write = os.write

    def limited(descriptor: int, data: bytes) -> int:
        if not free[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(descriptor, data[: free[0]])
        free[0] -= written
        return written

    monkeypatch.setattr(os, "write", limited)
    return free


@pytest.mark.parametrize("max_megabytes", [0, 1])
async def test_failed_write_leaves_no_partial_line(log: Path, disk: list[int], max_megabytes: int) -> None:
    sink = open_sink(str(log), Rotation(max_megabytes=max_megabytes), Clock())
    sink.write(b"one\n")
    disk[0] = 3
    for _ in range(2):
        with pytest.raises(OSError, match="No space left on device"):
            sink.write(b"second\n")
    assert log.read_bytes() == b"one\n"
    disk[0] = 1 << 40
    sink.write(b"third\n")
    sink.close()
    assert log.read_bytes() == b"one\nthird\n"
