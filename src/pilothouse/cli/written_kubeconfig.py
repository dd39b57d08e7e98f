"""The kubeconfig that ``up`` and ``apiserver`` write for their users.

Mode 0600, written in one step, and never over a file that was not written here: such a file may hold the only copy of
somebody's credentials. A first line marks our own.
"""

import contextlib
import os
import pathlib
import socket
import sys
import urllib.parse

import yaml

from pilothouse.cli.program import UserError

MARK = "# Written by pilothouse; it is overwritten at the next start."
_PATIENCE_SECONDS = 0.2


def write(path: pathlib.Path, server: str, content: dict[str, object], *, flag: str = "--kubeconfig") -> None:
    """Write the file that ``flag`` names, for the server of that URL, or say why not.

    Whoever used the file for another server that still answers is told that it leads elsewhere now.
    """
    if path.is_dir():
        raise UserError(f"{path} is a directory; name a file with {flag}")
    if path.exists() and not is_ours(path):
        raise UserError(
            f"{path} was not written by pilothouse and is left alone; move it away, or choose another with {flag}"
        )
    before = _server_of(path)
    if before not in {"", server} and _answers(before):
        print(
            f"note: {path} was for {before}, which still runs; from now on it is for {server}"
            f" ({flag} FILE keeps them apart)",
            file=sys.stderr,
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


def _server_of(path: pathlib.Path) -> str:
    """The server that a file of ours names; empty when there is none to be found."""
    try:
        return str(yaml.safe_load(path.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError, LookupError, TypeError):
        return ""


def _answers(url: str) -> bool:
    """Whether somebody listens there."""
    try:
        where = urllib.parse.urlsplit(url)
        with socket.create_connection((where.hostname or "", where.port or 443), timeout=_PATIENCE_SECONDS):
            return True
    except (OSError, ValueError):
        return False
