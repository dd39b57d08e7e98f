"""Detects changed files of an operator.

They are polled. A hundred calls of ``stat`` take a tenth of a millisecond; file notifications would need a
library (watchdog, watchfiles) with compiled parts and do not arrive from network, container and virtual machine mounts.
"""

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

MAX_FILES = 1000
"""Maximum number of watched files."""
_MAX_ENTRIES = 10_000
"""Maximum number of directory entries that are read to find them: the operator may be in a home directory."""
_NOT_MODULES = ("__pycache__", "node_modules", "site-packages", "tests")
_ENVIRONMENT = "pyvenv.cfg"
_TESTS = ("test_*.py", "*_test.py", "conftest.py")
"""Test modules, which the operator does not import."""
Stamp = tuple[int, int, int]
"""Inode, modification time in nanoseconds, size."""


class Watched(msgspec.Struct, frozen=True):
    """A file, or the files of a directory whose names have one of the ``endings``.

    ``recursive``: including subdirectories, except hidden ones, environments, ``tests`` and those created by
    installers. Test modules are excluded; the file itself is always watched.
    """

    path: Path
    endings: tuple[str, ...] = ()
    recursive: bool = False


def stamps(watched: Sequence[Watched]) -> dict[Path, Stamp]:
    """The existing files with their stamps. At most ``MAX_FILES``, in the order of ``watched``."""
    result: dict[Path, Stamp] = {}
    for watched_path in watched:
        for path in _files(watched_path):
            if len(result) == MAX_FILES:
                return result
            try:
                stat = path.stat()
            except OSError:
                continue  # just deleted, or a broken link: treated as missing
            result[path] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return result


def changed(old: Mapping[Path, Stamp], new: Mapping[Path, Stamp]) -> list[Path]:
    """New, deleted and changed files, sorted."""
    return sorted(path for path in {**old, **new} if old.get(path) != new.get(path))


def _files(watched: Watched) -> Iterator[Path]:
    if not watched.path.is_dir():
        yield watched.path
        return
    folders, remaining = [watched.path], _MAX_ENTRIES
    while folders and remaining > 0:
        try:
            entries = sorted(os.scandir(folders.pop(0)), key=lambda entry: entry.name)
        except OSError:
            continue  # deleted, or not readable
        remaining -= len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if watched.recursive and _has_modules(entry):
                    folders.append(Path(entry.path))
            elif entry.name.endswith(watched.endings) and not _is_test(entry.name):
                yield Path(entry.path)


def _is_test(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _TESTS)


def _has_modules(folder: "os.DirEntry[str]") -> bool:
    name = folder.name
    return not name.startswith(".") and name not in _NOT_MODULES and not (Path(folder.path) / _ENVIRONMENT).exists()
