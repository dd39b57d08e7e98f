"""Manifests from where users have them: files, directories, URLs and kustomizations."""

import os
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pilothouse.cli.manifests import ENDINGS, Manifest, all_of, load, manifests_in, not_empty
from pilothouse.cli.program import UserError
from pilothouse.machinery.flags import Parsed

_URL_SECONDS = 30.0
_URL_BYTES = 32 * 1024 * 1024
_KUSTOMIZE_SECONDS = 120.0


def check_no_files(words: Sequence[str]) -> None:
    """Raises ``UserError`` for a manifest among the arguments, which name clusters: the shell makes several words of
    ``-f *.yaml``, of which the flag takes the first, and the second, ``b.yaml``, may be a valid name."""
    for word in words:
        path = Path(word)
        # Path.is_file raises an error for names that are too long, and in a directory of another user.
        if path.suffix in ENDINGS and os.path.isfile(path):
            file, directory = shlex.quote(word), shlex.quote(str(path.parent))
            text = f"{word} is a file, and -f takes one: use -f {file}, or -f {directory} for all of the directory"
            raise UserError(text, code=2)


def manifests_of(parsed: Parsed) -> list[Manifest]:
    """The sources of ``-f`` and ``-k``, in their order. Raises ``UserError``."""
    loads = [partial(_manifests_at, path, recursive=parsed["recursive"]) for path in parsed["filename"]]
    if parsed["kustomize"]:
        loads.append(partial(_kustomized, parsed["kustomize"]))
    return all_of(loads)


def _manifests_at(path: str, *, recursive: bool) -> list[Manifest]:
    if path.startswith(("https://", "http://")):
        return not_empty(manifests_in(_fetched(path), path), path)
    return load(path, recursive=recursive)


def _kustomized(directory: str) -> list[Manifest]:
    return not_empty(manifests_in(_built(directory), directory), directory)


def _fetched(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=_URL_SECONDS) as answer:  # noqa: S310  # http and https only
            content: bytes = answer.read(_URL_BYTES + 1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", "") or error
        raise UserError(f"unable to read {url}: {getattr(reason, 'strerror', '') or reason}") from error
    if len(content) > _URL_BYTES:
        raise UserError(f"{url} has more than {_URL_BYTES // 1024 // 1024} MiB; download it and use the file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{url} is not UTF-8 text") from error


def _built(directory: str) -> str:
    """The output of ``kubectl kustomize``: kustomizations are kubectl's own matter."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise UserError(f"-k needs kubectl on the PATH, which builds {directory}")
    if not Path(directory).is_dir():
        raise UserError(f"{directory} is not a directory")
    try:
        done = subprocess.run(  # noqa: S603  # no shell, and the directory is the user's own
            [kubectl, "kustomize", directory],
            capture_output=True, text=True, timeout=_KUSTOMIZE_SECONDS, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise UserError(f"kubectl kustomize {directory}: {error}") from error
    if done.returncode != 0:
        raise UserError(f"kubectl kustomize {directory}: {done.stderr.strip()}")
    return done.stdout
