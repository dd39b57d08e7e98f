"""JSON patch (RFC 6902), with the deviations of the library that upstream uses (evanphx/json-patch v4).

These are: ``replace`` of a missing member adds it, a negative index counts from the end, ``test`` for null succeeds for
a missing value. Only ``replace`` and ``test`` may address the whole document.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.machinery.deep_equal import deep_equal
from pilothouse.machinery.patches import PatchNotApplicable, PatchSyntaxError, PatchTooLarge

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The limit of JSON added by all ``copy`` operations of a patch (apiserver ``pkg/server/config.go``, v0.36,
``JSONPatchMaxCopyBytes``): twenty copies of a document into itself would multiply it by a million."""

_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def apply_json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Apply all ``operations`` to ``document``, or none.

    The arguments are not changed; the result shares unchanged parts with them. Raises ``PatchSyntaxError`` if
    ``operations`` is not a list of objects, ``PatchTooLarge`` if there are too many, else ``PatchNotApplicable``.
    """
    if not isinstance(operations, list | tuple) or not all(isinstance(o, dict) for o in operations):
        raise PatchSyntaxError("error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLarge(
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    draft = _Draft(document)
    for operation in operations:
        _apply(draft, operation)
    return draft.root


class _Draft:
    """The document during the patch: ``root``. A container is copied before its first change, and then changed in
    place."""

    def __init__(self, document: Any) -> None:
        self.root = document
        self.copied_bytes = 0
        """The size of the JSON added by ``copy`` operations."""
        self._own: dict[int, Any] = {}
        """The ids of the containers that are not shared. Their parents are among them."""

    def find(self, path: str) -> tuple[Any, str]:
        """The container addressed by ``path`` without its last part, and that part."""
        parts = _parts(path)
        if not parts:
            raise PatchNotApplicable(f"missing path: {path!r}")
        container = self.root
        for part in parts[:-1]:
            container = _get(container, part, path)
            if not isinstance(container, dict | list):
                raise PatchNotApplicable(f"missing path: {path!r}")
        return container, parts[-1]

    def value(self, path: str) -> Any:
        """The value at the path; null for a missing member."""
        container, key = self.find(path)
        return _get(container, key, path)

    def open(self, path: str) -> tuple[Any, str]:
        """As ``find``, for a container that will be changed."""
        parts = _parts(path)
        if not parts:
            raise PatchNotApplicable(f"missing path: {path!r}")
        container = self.root = self._owned(self.root, path)
        for part in parts[:-1]:
            child = self._owned(_get(container, part, path), path)
            container[_index(container, part, path) if isinstance(container, list) else part] = child
            container = child
        return container, parts[-1]

    def share(self, value: Any) -> Any:
        """A value that is added at a second place, so that neither may be changed in place any more."""
        unvisited = [value]
        while unvisited:
            container = self._own.pop(id(unvisited.pop()), None)
            if container is not None:
                unvisited.extend(container.values() if isinstance(container, dict) else container)
        return value

    def _owned(self, container: Any, path: str) -> Any:
        if id(container) in self._own:
            return container
        if not isinstance(container, dict | list):
            raise PatchNotApplicable(f"missing path: {path!r}")
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy


def _apply(draft: _Draft, operation: Mapping[str, Any]) -> None:
    name = operation.get("op")
    path = operation.get("path")
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise PatchNotApplicable(f"Unexpected kind: {name}")
    if not isinstance(path, str):
        raise PatchNotApplicable(f"{name} operation has no path")
    match name:
        case "add":
            _add(draft, path, operation.get("value"))
        case "remove":
            _remove(draft, path)
        case "replace":
            _replace(draft, path, operation.get("value"))
        case "test":
            _test(draft, path, operation.get("value"))
        case "move":
            source = _source(operation)
            value = draft.value(source)
            _remove(draft, source)
            _add(draft, path, value)
        case "copy":
            _copy(draft, _source(operation), path)


def _source(operation: Mapping[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise PatchNotApplicable(f"{operation['op']} operation has no from")
    return source


def _parts(path: str) -> list[str]:
    # The text before the first slash is ignored, as upstream.
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


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


def _add(draft: _Draft, path: str, value: Any) -> None:
    container, key = draft.open(path)
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_index(container, key, path, one_more=True), value)


def _remove(draft: _Draft, path: str) -> None:
    container, key = draft.open(path)
    if isinstance(container, list):
        del container[_index(container, key, path)]
    elif key in container:
        del container[key]
    else:
        raise PatchNotApplicable(f"unable to remove nonexistent key {key!r} of {path!r}")


def _replace(draft: _Draft, path: str, value: Any) -> None:
    if path == "":
        if not isinstance(value, dict | list):
            raise PatchNotApplicable("the whole document can only become an object or a list")
        draft.root = value
        return
    container, key = draft.open(path)
    container[_index(container, key, path) if isinstance(container, list) else key] = value


def _copy(draft: _Draft, source: str, path: str) -> None:
    value = draft.value(source)
    draft.copied_bytes += len(msgspec.json.encode(value))
    if draft.copied_bytes > MAX_COPIED_BYTES:
        raise PatchNotApplicable(
            f"Unable to complete the copy, the accumulated size increase of copy is {draft.copied_bytes}, "
            f"exceeding the limit {MAX_COPIED_BYTES}"
        )
    _add(draft, path, draft.share(value))


def _test(draft: _Draft, path: str, value: Any) -> None:
    current = draft.root if path == "" else draft.value(path)
    if not deep_equal(current, value):
        raise PatchNotApplicable(f"testing value {path!r} failed")
