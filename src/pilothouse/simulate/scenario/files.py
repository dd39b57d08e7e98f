"""Reads files that a user names: text of bounded size, regular files only."""

import os
import stat
from pathlib import Path


class FileError(ValueError):
    """A file that can't be used; the message is the reason."""


def text_of(path: Path, max_bytes: int) -> str:
    """Read a file of at most ``max_bytes`` bytes. Raises ``FileError``."""
    try:
        # Without O_NONBLOCK opening a pipe would block until it has a writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileError("it is not a regular file")
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise FileError(error.strerror or str(error)) from error
    if len(content) > max_bytes:
        raise FileError(f"it has more than {max_bytes} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError("it is not UTF-8 text") from error


def check_regular(path: Path) -> None:
    """Raises ``FileError`` for devices, pipes and sockets; not for missing files."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise FileError(f"{path} is neither a file nor a folder")
