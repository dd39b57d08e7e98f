"""Data files that are installed with the package: schemas, tables, roles.

They are read by path and not by ``importlib.resources``, whose own imports (zipfile, tempfile) would slow every
start.
"""

import threading
from pathlib import Path
from typing import BinaryIO

_PACKAGE = Path(__file__).parents[1]


_kept: dict[str, BinaryIO] = {}
"""The data files of ``keep_open``, by their path."""
_reading = threading.Lock()


def packaged(path: str) -> bytes:
    """A data file by its path below the package ``pilothouse``. Raises ``FileNotFoundError`` that names the way out if
    the environment of a running program was deleted."""
    if (file := _kept.get(path)) is not None:
        with _reading:
            file.seek(0)
            return file.read()
    try:
        return (_PACKAGE / path).read_bytes()
    except FileNotFoundError:
        if _PACKAGE.exists():
            raise
        text = f"{_PACKAGE} was deleted while this program runs: install it again and restart"
        raise FileNotFoundError(text) from None


def keep_open() -> None:
    """Open all data files, so that a program that runs on reads its own ones after an upgrade, and when its environment
    is deleted."""
    for path in _PACKAGE.glob("*/data/*.json"):
        _kept.setdefault(path.relative_to(_PACKAGE).as_posix(), path.open("rb"))
