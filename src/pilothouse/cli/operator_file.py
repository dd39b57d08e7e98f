"""Loads the file of an operator for commands; its errors are reported as user errors."""

import re
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pilothouse
from pilothouse.cli.program import UserError
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import closest

if TYPE_CHECKING:
    from pilothouse.operator import App

with lazy_imports():
    from pilothouse.operator import app_file


_WRONG_NAME = re.compile(r"cannot import name '(\w+)'")
_LIBRARY = Path(pilothouse.__file__).parent / "operator"


def load_app(reference: str) -> "App":
    """The ``App`` in ``FILE`` or ``FILE:NAME``; without a name the file has exactly one.

    The file is executed, with its directory on the import path. Raises ``UserError`` if it cannot be read or has no
    such app, and for exceptions of the file itself, ``SystemExit`` too, with the traceback of its own frames.
    """
    path, _name = file_and_name(reference)
    try:
        return app_file.load_app(reference)
    except app_file.AppFileError as error:
        raise UserError(str(error), code=2) from error
    except (Exception, SystemExit) as error:
        raise UserError(failure_text(error, path.resolve().parent)) from error


def file_and_name(reference: str) -> tuple[Path, str]:
    """The parts of ``FILE`` or ``FILE:NAME``. Raises ``UserError`` if there is no such file."""
    try:
        return app_file.file_and_name(reference)
    except app_file.AppFileError as error:
        raise UserError(str(error), code=2) from error


def failure_text(error: BaseException, folder: Path) -> str:
    """Where the code in ``folder`` failed, and its traceback without the frames that led to it, or that rejected its
    declarations."""
    described = traceback.TracebackException.from_exception(error)
    own = [number for number, frame in enumerate(described.stack) if _is_in(frame.filename, folder)]
    if isinstance(error, SyntaxError):
        position = f"{error.filename}, line {error.lineno}: "
        described.stack[:] = described.stack[own[0] :] if own else []
    elif own:
        last = described.stack[own[-1]]
        position = f"{last.filename}, line {last.lineno}: "
        end = own[-1] + 1
        if isinstance(error, TypeError | ValueError) and all(
            _is_in(frame.filename, _LIBRARY) for frame in described.stack[end:]
        ):
            del described.stack[end:]  # an argument was rejected
        described.stack[:] = described.stack[own[0] :]
    else:
        position = ""
    summary = "".join(described.format_exception_only()).strip().splitlines()[-1]
    if isinstance(error, ImportError) and "Did you mean" not in summary:  # Python adds it since 3.12
        summary += _import_hint(error)
    return f"{position}{summary}\n{''.join(described.format()).rstrip()}"


def _import_hint(error: ImportError) -> str:
    """The closest name of the module, for a name that it does not have: ``CRON_JOBS`` for ``CRONJOBS``."""
    wanted = _WRONG_NAME.match(str(error))
    module = sys.modules.get(error.name or "")
    if wanted is None or module is None:
        return ""
    similar = closest(wanted[1], [name for name in dir(module) if not name.startswith("_")])
    return f"; did you mean {similar}?" if similar else ""


def _is_in(filename: str, folder: Path) -> bool:
    return Path(filename).is_relative_to(folder)
