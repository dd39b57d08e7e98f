"""The objects of a scenario: inline, from files and directories, and from kustomizations."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pilothouse.simulate.scenario import positions
from pilothouse.simulate.scenario.files import FileError, text_of

Object = dict[str, Any]
ENDINGS = (".json", ".yaml", ".yml")
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
MAX_FILE_BYTES = 16 << 20
MAX_FILES = 2_000
MAX_OBJECTS = 20_000
MAX_VALUES = 2_000_000
"""Maximum number of values in one file; expanded aliases are counted each time."""
_KUSTOMIZE_SECONDS = 60.0
_MESSAGES_SHOWN = 10


class ObjectsError(ValueError):
    """Objects cannot be loaded; each message has the source, the reason and the solution."""

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


def shortened(messages: Sequence[str]) -> list[str]:
    """The messages; of many the first ones."""
    more = len(messages) - _MESSAGES_SHOWN
    return [*messages[:_MESSAGES_SHOWN], *([f"and {more} more"] if more > 0 else [])]


def objects_of(entry: str | Object, folder: Path) -> list[Object]:
    """The objects of one entry; paths are relative to ``folder``. Raises ``ObjectsError``."""
    objects = [obj for obj, _position in _with_positions(entry, folder)]
    if len(objects) > MAX_OBJECTS:
        raise ObjectsError(f"more than {MAX_OBJECTS} objects")
    return objects


def position_of(entries: Sequence[str | Object], folder: Path, wanted: Object) -> str:
    """``FILE:LINE`` of the manifest of an object, with the document number if the file has several; empty for inline
    objects. Reads the files again; only used for error messages."""
    for entry in entries:
        try:
            objects_with_positions = [] if isinstance(entry, dict) else _with_positions(entry, folder)
        except ObjectsError:
            continue  # the file has changed since it was loaded
        for obj, position in objects_with_positions:
            if is_same_object(obj, wanted):
                return position
    return ""


def is_same_object(one: Object, other: Object) -> bool:
    """Whether two manifests are of the same object."""
    return "metadata" in one and _identity(one) == _identity(other)


def _identity(obj: Object) -> tuple[Any, ...]:
    meta = obj["metadata"]
    return obj["apiVersion"], obj["kind"], meta.get("namespace"), meta.get("name"), meta.get("generateName")


def _with_positions(entry: str | Object, folder: Path) -> list[tuple[Object, str]]:
    return _checked([(entry, "inline")]) if isinstance(entry, dict) else _of_path(entry, folder)


def _of_path(text: str, folder: Path) -> list[tuple[Object, str]]:
    if "://" in text:
        raise ObjectsError(f"{text[:200]}: URLs are not supported; download the file and use its path")
    path = folder / os.path.expanduser(text)
    if not path.exists():
        raise ObjectsError(f"{path}: no such file or folder")
    if path.is_dir():
        if any((path / name).exists() for name in KUSTOMIZATIONS):
            documents = _documents(_kustomized(path), f"the output of kustomize for {path}")
            return _checked(documents)
        files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and file.is_file())
        if not files:
            raise ObjectsError(f"{path}: there are no manifests in this folder; their names end with .yaml or .json")
        if len(files) > MAX_FILES:
            raise ObjectsError(f"{path}: more than {MAX_FILES} files")
        return _of_files(files)
    return _of_file(path)


def _of_files(paths: Iterable[Path]) -> list[tuple[Object, str]]:
    objects, messages = list[tuple[Object, str]](), list[str]()
    for path in paths:
        try:
            objects += _of_file(path)
        except ObjectsError as error:
            messages += error.messages
    if messages:
        raise ObjectsError(*messages)
    return objects


def _of_file(path: Path) -> list[tuple[Object, str]]:
    try:
        text = text_of(path, MAX_FILE_BYTES)
    except FileError as error:
        raise ObjectsError(f"{path}: {error}") from error
    return _checked(_documents(text, str(path)))


def _documents(text: str, source: str) -> list[tuple[Any, str]]:
    """The documents with their positions (``FILE:LINE``)."""
    try:
        documents = positions.documents_of(text, MAX_VALUES)
        several = len(documents) > 1
        return [
            (document, f"{source}:{line}" + (f" (document {number})" if several else ""))
            for number, (document, line) in enumerate(documents, 1)
        ]
    except positions.PositionedError as error:
        raise ObjectsError(f"{source}:{error.line or 1}: {error}") from None


def _kustomized(path: Path) -> str:
    kubectl, kustomize = shutil.which("kubectl"), shutil.which("kustomize")
    if kubectl is None and kustomize is None:
        raise ObjectsError(f"{path}: a kustomization needs kubectl or kustomize in the PATH; install one of them")
    command = [kubectl, "kustomize", str(path)] if kubectl is not None else [str(kustomize), "build", str(path)]
    try:
        completed = subprocess.run(  # noqa: S603  # the user's own kubectl, and no shell
            command, capture_output=True, timeout=_KUSTOMIZE_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ObjectsError(f"{path}: kustomize: {error}") from error
    if completed.returncode:
        raise ObjectsError(f"{path}: kustomize: {completed.stderr.decode('utf-8', 'replace').strip()[:2000]}")
    if len(completed.stdout) > MAX_FILE_BYTES:
        raise ObjectsError(f"{path}: the output of kustomize has more than {MAX_FILE_BYTES} bytes")
    return completed.stdout.decode("utf-8", "replace")


def _checked(documents: Iterable[tuple[Any, str]]) -> list[tuple[Object, str]]:
    objects = [
        (item, position) for document, position in documents if document is not None for item in _items(document)
    ]
    messages = [f"{position}: {error}" for item, position in objects if (error := _error_of(item))]
    if messages:
        raise ObjectsError(*messages)
    return objects


def _items(document: Any) -> list[Any]:
    items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
    return items if isinstance(items, list) else [document]


def _error_of(item: Any) -> str:
    """Why it is no object of a cluster; empty for an object."""
    if not isinstance(item, dict):
        return f"expected an object, got {type(item).__name__}"
    for field in ("apiVersion", "kind"):
        if not isinstance(item.get(field), str) or not item[field]:
            return f"an object has no {field}"
    meta = item.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        return f"a {item['kind']} has no metadata.name"
    return ""
