"""Output files of a command, which are checked at its start and written at its end."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pilothouse.cli.terminal import escaped


def why_unwritable(path: str) -> str:
    """The reason why the file can't be written, in the words of the system, or nothing."""
    if os.path.isdir(path):
        return os.strerror(errno.EISDIR)
    if os.path.exists(path):
        return "" if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        return os.strerror(error.errno or errno.EIO)
    parent = Path(path).parent
    if not parent.is_dir():
        return os.strerror(errno.ENOENT)
    return "" if os.access(parent, os.W_OK | os.X_OK) else os.strerror(errno.EACCES)


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The file, to be written. After an ``OSError``, for example because the disk is full, no incomplete one is
    left; what can't be opened stays as it is."""
    file = open(path, "wb")  # noqa: SIM115  # closed below, which may fail, too
    try:
        with file:
            yield file
    except OSError:
        if os.path.isfile(path):  # not a device
            os.unlink(os.path.realpath(path))
        raise


def write(path: str, content: bytes) -> None:
    """Write the file completely, or not at all. Raises ``OSError``."""
    with opened(path) as file:
        file.write(content)


def report_written(path: str) -> None:
    """Print that a file was written: to standard error, because standard output may be a document."""
    if os.path.isfile(path):  # not a pipe or /dev/stdout, whose reader has it
        print(f"wrote {escaped(path)}", file=sys.stderr)
