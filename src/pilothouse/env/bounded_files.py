"""Reads files that a user names, up to a number of bytes: a path may lead to ``/dev/zero`` or to a file of gigabytes.

Pipes are read (``-f <(kustomize build)``).
"""

import errno
import os
from pathlib import Path

CONFIG_BYTES = 16 * 1024 * 1024
"""The largest file with a configuration: kubeconfigs, policies, tokens, bundles of certificates."""


def read_bytes(path: str | os.PathLike[str], max_bytes: int = CONFIG_BYTES) -> bytes:
    """The content of a file. Raises ``OSError``, with ``EFBIG`` if there are more than ``max_bytes`` bytes."""
    pieces: list[bytes] = []
    left = max_bytes + 1
    with Path(path).open("rb", buffering=0) as file:
        while left and (piece := file.read(min(left, 1024 * 1024))):
            pieces.append(piece)
            left -= len(piece)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", os.fspath(path))
    return b"".join(pieces)


class NotText(UnicodeDecodeError):
    """A file that is not UTF-8."""

    def __str__(self) -> str:
        return "it is not UTF-8 text"


def read_text(path: str | os.PathLike[str], max_bytes: int = CONFIG_BYTES) -> str:
    """The same as text. Raises ``OSError``, or ``NotText`` if it is not UTF-8."""
    content = read_bytes(path, max_bytes)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText(*error.args) from None
