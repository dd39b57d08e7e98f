"""Data files that are installed with the package: schemas, tables, roles.

They are read by path and not by ``importlib.resources``, whose own imports (zipfile, tempfile) would slow every
start.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]


def packaged(path: str) -> bytes:
    """A data file by its path below the package ``pilothouse``."""
    return (_PACKAGE / path).read_bytes()
