"""The file of an operator: its ``App``, for the programs that run one."""

import importlib.util
import sys
from pathlib import Path

from pilothouse.operator.app import App


class AppFileError(ValueError):
    """A file without a valid ``App``: the message has the file, the reason and the solution."""


def load_app(reference: str) -> App:
    """The ``App`` in ``FILE`` or ``FILE:NAME``; without a name the file has exactly one.

    The file is executed, with its directory on the import path. Raises ``AppFileError`` if it cannot be read or has no
    such app; exceptions of the file itself are raised unchanged.
    """
    path, name = file_and_name(reference)
    # Not under the name of another module: a file may be named operator.py.
    module_name = path.stem if path.stem not in sys.modules else f"pilothouse operator {path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise AppFileError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if name:
        if name not in apps:
            raise AppFileError(f"{path} has no App named {name}; there {_listed(apps)}")
        return apps[name]
    if len(set(map(id, apps.values()))) != 1:
        raise AppFileError(f"{path} must have one App, or be named as FILE:NAME; there {_listed(apps)}")
    return next(iter(apps.values()))


def file_and_name(reference: str) -> tuple[Path, str]:
    """The parts of ``FILE`` or ``FILE:NAME``. Raises ``AppFileError`` if there is no such file."""
    name = ""
    path = Path(reference)
    if not path.exists() and ":" in reference:
        file, _colon, name = reference.rpartition(":")
        path = Path(file)
    if not reference or not path.is_file():
        reason = "a directory" if reference and path.is_dir() else "no such file"
        raise AppFileError(f"expected the Python file of an operator, got {reference or 'nothing'}: {reason}")
    return path, name


def _listed(apps: dict[str, App]) -> str:
    verb = "is" if len(apps) == 1 else "are"
    return f"{verb} {', '.join(sorted(apps))}" if apps else "is none: app = pilothouse.operator.App(NAME)"
