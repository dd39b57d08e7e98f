"""JSON patch (RFC 6902), with the liberties of the library that upstream uses (evanphx/json-patch v4).

They are: ``replace`` of a missing member sets it, an index may count from the end, ``test`` for null passes where
nothing is. Only ``replace`` and ``test`` may address the whole document.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.machinery.patches import PatchNotApplicable, PatchSyntaxError, PatchTooLarge

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""How much JSON all ``copy`` operations of a patch may add (apiserver ``pkg/server/config.go``, v0.36,
``JSONPatchMaxCopyBytes``): twenty copies of a document into itself would be a million of it."""

_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def apply_json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """``document`` after all ``operations``, or none of them.

    Nothing that is handed in changes; the result shares unchanged parts with it. Raises ``PatchSyntaxError`` when
    ``operations`` is no list of objects, ``PatchTooLarge`` when there are too many, else ``PatchNotApplicable``.
    """
    if not isinstance(operations, list | tuple) or not all(isinstance(o, dict) for o in operations):
        raise PatchSyntaxError("error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLarge(
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    copied = 0
    for operation in operations:
        if operation.get("op") == "copy":
            copied += _size_of_copy(document, operation)
            if copied > MAX_COPIED_BYTES:
                raise PatchNotApplicable(
                    f"Unable to complete the copy, the accumulated size increase of copy is {copied}, "
                    f"exceeding the limit {MAX_COPIED_BYTES}"
                )
        document = _apply(document, operation)
    return document


def _size_of_copy(document: Any, operation: Mapping[str, Any]) -> int:
    source = operation.get("from")
    if not isinstance(source, str):
        return 0  # not carried out
    container, key = _find(document, source)
    return len(msgspec.json.encode(_get(container, key, source)))


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    name = operation.get("op")
    path = operation.get("path")
    if name not in _OPERATIONS:
        raise PatchNotApplicable(f"Unexpected kind: {name}")
    if not isinstance(path, str):
        raise PatchNotApplicable(f"{name} operation has no path")
    match name:
        case "add":
            return _add(document, path, operation.get("value"))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, operation.get("value"))
        case "test":
            _test(document, path, operation.get("value"))
            return document
    source = operation.get("from")
    if not isinstance(source, str):
        raise PatchNotApplicable(f"{name} operation has no from")
    container, key = _find(document, source)
    value = _get(container, key, source)
    if name == "move":
        document = _remove(document, source)
    return _add(document, path, value)


def _parts(path: str) -> list[str]:
    # The text before the first slash is not looked at, as upstream.
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _find(document: Any, path: str) -> tuple[Any, str]:
    """The container that the last part of ``path`` is looked up in, and that part."""
    parts = _parts(path)
    if not parts:
        raise PatchNotApplicable(f"missing path: {path!r}")
    container = document
    for part in parts[:-1]:
        container = _get(container, part, path)
        if not isinstance(container, dict | list):
            raise PatchNotApplicable(f"missing path: {path!r}")
    return container, parts[-1]


def _open(document: Any, path: str) -> tuple[Any, Any, str]:
    """As ``_find``, in a copy of the document in which everything on the way may be changed."""
    parts = _parts(path)
    if not parts:
        raise PatchNotApplicable(f"missing path: {path!r}")
    root = container = _shallow(document, path)
    for part in parts[:-1]:
        child = _shallow(_get(container, part, path), path)
        container[_index(container, part, path) if isinstance(container, list) else part] = child
        container = child
    return root, container, parts[-1]


def _shallow(container: Any, path: str) -> Any:
    if not isinstance(container, dict | list):
        raise PatchNotApplicable(f"missing path: {path!r}")
    return container.copy()


def _index(container: list[Any], key: str, path: str, *, one_more: bool = False) -> int:
    try:
        index = int(key) if key.isascii() and "_" not in key and key == key.strip() else None
    except ValueError:
        index = None
    if index is None:
        raise PatchNotApplicable(f"value was not a proper array index: {key!r} in {path!r}")
    size = len(container) + one_more
    if not -size <= index < size:
        raise PatchNotApplicable(f"unable to access invalid index {index} in {path!r}")
    return index + size if index < 0 else index


def _get(container: Any, key: str, path: str) -> Any:
    if isinstance(container, list):
        return container[_index(container, key, path)]
    if not isinstance(container, dict):
        raise PatchNotApplicable(f"missing path: {path!r}")
    return container.get(key)


def _add(document: Any, path: str, value: Any) -> Any:
    root, container, key = _open(document, path)
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(container, key, path, one_more=True), value)
    return root


def _remove(document: Any, path: str) -> Any:
    root, container, key = _open(document, path)
    if isinstance(container, list):
        del container[_index(container, key, path)]
    elif key in container:
        del container[key]
    else:
        raise PatchNotApplicable(f"unable to remove nonexistent key {key!r} of {path!r}")
    return root


def _replace(document: Any, path: str, value: Any) -> Any:
    if path == "":
        if not isinstance(value, dict | list):
            raise PatchNotApplicable("the whole document can only become an object or a list")
        return value
    root, container, key = _open(document, path)
    container[_index(container, key, path) if isinstance(container, list) else key] = value
    return root


def _test(document: Any, path: str, value: Any) -> None:
    if path == "":
        found = document
    else:
        container, key = _find(document, path)
        found = _get(container, key, path)
    if not _equal(found, value):
        raise PatchNotApplicable(f"testing value {path!r} failed")


def _equal(a: Any, b: Any) -> bool:
    """Equality of JSON values; unlike in Python, true is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)
