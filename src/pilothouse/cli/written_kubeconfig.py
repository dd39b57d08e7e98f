"""The kubeconfig that ``up`` and ``apiserver`` write for their users.

Mode 0600, written in one step, and never over a file that was not written here: such a file may hold the only copy of
somebody's credentials. A first line marks our own.
"""

import contextlib
import os
import pathlib

import yaml

from pilothouse.cli.program import UserError

MARK = "# Written by pilothouse; it is overwritten at the next start."


def write(path: pathlib.Path, content: dict[str, object]) -> None:
    """Write the file, or say why not."""
    if path.exists() and not is_ours(path):
        raise UserError(
            f"{path} was not written by pilothouse and is left alone; move it away, or choose another with --kubeconfig"
        )
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{MARK}\n{yaml.safe_dump(content, sort_keys=False)}")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the error above is the one to tell
            part.unlink()
        raise UserError(f"unable to write kubeconfig {path}: {error.strerror}") from error


def is_ours(path: pathlib.Path) -> bool:
    """Whether the file carries our mark."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline().rstrip("\n") == MARK
    except (OSError, UnicodeDecodeError):
        return False
