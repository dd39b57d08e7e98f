"""Files and directories for credentials: other users can neither read nor replace them."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCK = ".keys.lock"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class UnsafePath(OSError):
    """Another user can change the file, or has done so. The message explains what to do."""


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that only its owner can read, atomically and durably.

    It is written under an unpredictable name that must not exist: in a directory that other users can write to, a link
    with a predictable name would redirect it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(draft, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def locked(directory: Path | None) -> Iterator[None]:
    """Hold the lock of a directory whose files several processes may create at the same time: later ones find them.
    Does nothing without a directory."""
    if directory is None or fcntl is None:
        yield
        return
    descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_private_directory(path: Path) -> None:
    """Create the directory, with its parents (which are as private: who may write to one can replace what is in it),
    or check that no other user can write to it.

    An empty directory of this user is made private; one that others could have written to is rejected. Raises
    ``UnsafePath``, or another ``OSError``.
    """
    for missing in reversed([parent for parent in path.parents if not parent.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    if not _is_trusted(status):
        raise UnsafePath(f"it belongs to another user (uid {status.st_uid}); name a directory that does not exist yet")
    if not status.st_mode & _OTHERS_WRITE:
        return
    if status.st_uid == _uid() and not any(path.iterdir()):
        path.chmod(0o700)
        return
    raise UnsafePath(
        f"others may write into it (mode {stat.S_IMODE(status.st_mode):04o}), and could have put files there; look at "
        f"what is in it, then chmod go-w {path}, or name a directory that does not exist yet"
    )


def check_private_files(directory: Path, private: tuple[str, ...]) -> None:
    """Check that the files in a directory are owned by this user and no links, and make files with these suffixes
    private. Raises ``UnsafePath``."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_symlink():
                raise UnsafePath(
                    f"{entry.name} in it is a symbolic link; put the file itself in its place, or remove it"
                )
            status = entry.stat(follow_symlinks=False)
            if not _is_trusted(status):
                raise UnsafePath(f"{entry.name} in it belongs to another user (uid {status.st_uid}); remove it")
            if entry.name.endswith(private) and status.st_mode & _OTHERS and status.st_uid == _uid():
                os.chmod(entry.path, 0o600)


def is_world_writable(directory: Path) -> bool:
    """Whether every user can replace files of others in it, because it lacks the sticky bit of ``/tmp``."""
    mode = directory.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def is_owned_by_this_user(path: Path) -> bool:
    """Whether the file itself, not the target of a link, belongs to this user. Root trusts everybody."""
    return _is_trusted(path.lstat())


def _is_trusted(status: os.stat_result) -> bool:
    # Root often works in directories of others, mostly in containers.
    return _uid() == 0 or status.st_uid in (0, _uid())


def _uid() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0  # Windows has none
