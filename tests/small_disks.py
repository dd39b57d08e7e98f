"""Disks that fill up: tmpfs of a few MiB, mounted for a test where that is permitted."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(directory: Path, size: int) -> Iterator[Path]:
    """A file system of ``size`` bytes, mounted at ``directory``. Skips the test where mounting is not permitted."""
    directory.mkdir(parents=True)
    if shutil.which("mount") is None:
        pytest.skip("the program mount is missing")
    options = f"size={size},mode=0700"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"mounting a tmpfs failed: {done.stderr.strip() or done.returncode}")
    try:
        yield directory
    finally:
        # Lazily: a program that is exiting may have open files.
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(disk: Path, leave: int = 0) -> Path:
    """Fill the disk except for ``leave`` bytes. Returns the file to delete in order to free space."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                assert file.write(b"\0" * 65536)
        with contextlib.suppress(OSError):
            while True:
                assert file.write(b"\0" * 512)
    if leave:
        os.truncate(ballast, max(0, ballast.stat().st_size - leave))
    return ballast


def is_full(disk: Path) -> bool:
    """Whether not even a small file can be written."""
    probe = disk / "probe"
    try:
        probe.write_bytes(b"x" * 4096)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return True
    finally:
        probe.unlink(missing_ok=True)
    return False
