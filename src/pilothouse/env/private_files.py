"""Files and directories that hold credentials: other users can neither read nor replace them."""

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


class Unsafe(OSError):
    """Somebody else can change it, or has. The text says what to do."""


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that only its owner can read, whole or not at all, durably.

    It is written under a name that cannot be guessed and must not exist: in a directory where other users may write,
    a link under a name known before would send it elsewhere.
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
    """Hold the lock of a directory whose files several processes may want to make at the same time: who comes second
    finds them. Without a directory there is nothing to lock."""
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
    """Make the directory, its parents too, or make sure that no other user can write into it.

    One that is empty and ours is made private; what others could have filled is refused. Raises ``Unsafe``, or another
    ``OSError``.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if not _is_trusted(found):
        raise Unsafe(f"it belongs to another user (uid {found.st_uid}); name a directory that does not exist yet")
    if not found.st_mode & _OTHERS_WRITE:
        return
    if found.st_uid == _uid() and not any(path.iterdir()):
        path.chmod(0o700)
        return
    raise Unsafe(
        f"others may write into it (mode {stat.S_IMODE(found.st_mode):04o}), and could have put files there; look at "
        f"what is in it, then chmod go-w {path}, or name a directory that does not exist yet"
    )


def check_private_files(directory: Path, private: tuple[str, ...]) -> None:
    """Make sure that what lies in a directory is ours and lies there, and make private those files whose names end
    like that. Raises ``Unsafe``."""
    with os.scandir(directory) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_symlink():
                raise Unsafe(f"{entry.name} in it is a symbolic link; put the file itself in its place, or remove it")
            found = entry.stat(follow_symlinks=False)
            if not _is_trusted(found):
                raise Unsafe(f"{entry.name} in it belongs to another user (uid {found.st_uid}); remove it")
            if entry.name.endswith(private) and found.st_mode & _OTHERS and found.st_uid == _uid():
                os.chmod(entry.path, 0o600)


def is_open_to_all(directory: Path) -> bool:
    """Whether anybody may exchange the files of others in it, as in no ``/tmp`` with the sticky bit."""
    mode = directory.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def is_ours(path: Path) -> bool:
    """Whether the file itself, not one that it links to, belongs to us. Root trusts everybody."""
    return _is_trusted(path.lstat())


def _is_trusted(found: os.stat_result) -> bool:
    # Root works in others' directories all the time, in containers mostly.
    return _uid() == 0 or found.st_uid in (0, _uid())


def _uid() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0  # Windows has none
