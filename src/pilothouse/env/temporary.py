"""Temporary files that a killed process does not leave forever.

``files`` are for programs that only read files, as OpenSSL does; on Linux they are in memory and end with the process.
A ``directory`` has a lock that its process holds. The first one that a process creates removes those of the same user
whose lock nobody holds. Process ids would not do: containers share directories, and not their processes.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from pilothouse.env.lazy import lazy_imports

if sys.platform != "win32":
    import fcntl

with lazy_imports():
    import shutil
    import tempfile

_PREFIX = "pilothouse-"
_LOCK = ".lock"
_removed_in: set[str] = set()
"""Directories for temporary files in which this process has removed what others left."""


@contextlib.contextmanager
def files(**contents: bytes) -> Iterator[dict[str, Path]]:
    """Files with these contents, by name, that only this user can read, for the block."""
    with contextlib.ExitStack() as stack:
        if not _has_memory_files():
            folder = stack.enter_context(directory())
            paths = {name: folder / name for name in contents}
            for name, path in paths.items():
                path.touch(mode=0o600)
                path.write_bytes(contents[name])
            yield paths
            return
        paths = {}
        for name, content in contents.items():
            file = stack.enter_context(os.fdopen(os.memfd_create(name), "wb", buffering=0))
            file.write(content)
            paths[name] = Path(f"/proc/self/fd/{file.fileno()}")
        yield paths


def _has_memory_files() -> bool:
    return hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """A directory that only this user can read, for the block."""
    _remove_left()
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, contextlib.ExitStack() as stack:
        path = Path(name)
        if sys.platform != "win32":
            lock = stack.enter_context((path / _LOCK).open("wb"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def _remove_left() -> None:
    """Remove the directories of this user's processes that have ended, once for each process."""
    parent = tempfile.gettempdir()
    if sys.platform == "win32" or parent in _removed_in:
        return
    _removed_in.add(parent)
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_own(entry):
                _remove_unlocked(Path(entry.path))


def _is_own(entry: "os.DirEntry[str]") -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:  # it is gone
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()


def _remove_unlocked(path: Path) -> None:
    """Without a lock file it is not of this kind, or just being created."""
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # its process runs
    else:
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
