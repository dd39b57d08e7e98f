"""Data that is installed with the package: schemas, tables, roles.

Read by its path and not by ``importlib.resources``, whose own imports (zipfile, tempfile) would be a part of every
start.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def packaged(path: str) -> bytes:
    """A data file by its path below the package ``pilothouse``."""
    return (_PACKAGE / path).read_bytes()
