"""Paths below the home directory, which a user without an entry in passwd may not have: containers run as any uid."""

import os
from pathlib import Path

from pilothouse.cli.program import UserError


def expanded(path: str | Path, solution: str) -> Path:
    """The path with the directory for its ``~``. Raises ``UserError`` with the solution if it is unknown."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        reason = "" if os.environ.get("HOME") else ", and HOME is not set"
        raise UserError(f"the home directory in {path} is unknown{reason}: {solution}") from None
