"""Output files of a command, which are checked at its start."""

import errno
import os
from pathlib import Path


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
