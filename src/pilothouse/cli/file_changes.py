"""Which files of an operator have changed since the last time.

They are polled. A hundred calls of ``stat`` take a tenth of a millisecond; notifications of the system would need a
library (watchdog, watchfiles) with compiled parts and do not arrive from network, container and virtual machine mounts.
"""

import fnmatch
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

MOST_FILES = 1000
"""How many files are watched, at most."""
_MOST_ENTRIES = 10_000
"""How many entries of folders are read to find them: the folder of an operator may be a home folder."""
_NOT_MODULES = ("__pycache__", "node_modules", "site-packages", "tests")
_ENVIRONMENT = "pyvenv.cfg"
_TESTS = ("test_*.py", "*_test.py", "conftest.py")
"""What pytest reads by itself, beside the operator: it runs none of it."""
Stamp = tuple[int, int, int]
"""Inode, modification time in nanoseconds, size."""


class Watched(msgspec.Struct, frozen=True):
    """A file, or the files of a folder whose names have one of the ``endings``.

    ``recursive``: in its folders too, except for hidden ones, environments, ``tests`` and what installers make. Modules
    of tests are left out; the file itself is watched whatever it is called.
    """

    path: Path
    endings: tuple[str, ...] = ()
    recursive: bool = False


def stamps(watched: Sequence[Watched]) -> dict[Path, Stamp]:
    """The files that there are, and their states. At most ``MOST_FILES``, the first ones of ``watched`` first."""
    found: dict[Path, Stamp] = {}
    for each in watched:
        for path in _files(each):
            if len(found) == MOST_FILES:
                return found
            try:
                stat = path.stat()
            except OSError:
                continue  # it has just gone, or is a link to nothing: as if it were not there
            found[path] = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
    return found


def changed(before: Mapping[Path, Stamp], after: Mapping[Path, Stamp]) -> list[Path]:
    """Files that are new, gone or different, sorted."""
    return sorted(path for path in {**before, **after} if before.get(path) != after.get(path))


def _files(watched: Watched) -> Iterator[Path]:
    if not watched.path.is_dir():
        yield watched.path
        return
    folders, left = [watched.path], _MOST_ENTRIES
    while folders and left > 0:
        try:
            entries = sorted(os.scandir(folders.pop(0)), key=lambda entry: entry.name)
        except OSError:
            continue  # gone, or not to be read
        left -= len(entries)
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
