"""The file of an operator, for commands: what is wrong with it is the user's to put right."""

from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.cli.program import UserError
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.operator import App

with lazy_imports():
    from pilothouse.operator import app_file


def load_app(reference: str) -> "App":
    """The ``App`` in ``FILE`` or ``FILE:NAME``; without a name the file has exactly one.

    The file is run, with its folder on the import path. Raises ``UserError`` for a file that cannot be read or has no
    such app; what the file itself raises is its author's to see, with a traceback.
    """
    try:
        return app_file.load_app(reference)
    except app_file.AppFileError as error:
        raise UserError(str(error), code=2) from error


def file_and_name(reference: str) -> tuple[Path, str]:
    """The parts of ``FILE`` or ``FILE:NAME``. Raises ``UserError`` if there is no such file."""
    try:
        return app_file.file_and_name(reference)
    except app_file.AppFileError as error:
        raise UserError(str(error), code=2) from error
