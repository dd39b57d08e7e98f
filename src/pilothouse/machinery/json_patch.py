"""JSON patch (RFC 6902), with the deviations of the library that upstream uses (evanphx/json-patch v4).

These are: ``replace`` of a missing member adds it, a negative index counts from the end, ``test`` for null succeeds for
a missing value. Only ``replace`` and ``test`` may address the whole document.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.machinery.deep_equal import deep_equal
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.patches import PatchNotApplicable, PatchSyntaxError, PatchTooLarge

MAX_OPERATIONS = 10_000
TEST_FAILED = "test failed"
"""The end of the detail of a failed ``test``."""
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The limit of JSON added by all ``copy`` operations of a patch (apiserver ``pkg/server/config.go``, v0.36,
``JSONPatchMaxCopyBytes``): twenty copies of a document into itself would multiply it by a million."""
MAX_MOVED_ITEMS = 100_000_000
"""How many items of lists may move by all insertions and removals before them: ten thousand at the start of a list of a
million would take seconds."""
_NOT_OPERATIONS = "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch"


def apply_json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Apply all ``operations`` to ``document``, or none.

    The arguments are not changed; the result shares unchanged parts with them. Raises ``PatchSyntaxError`` if
    ``operations`` is not a list of objects, ``PatchTooLarge`` if there are too many, else ``PatchNotApplicable``.
    """
    if not isinstance(operations, list | tuple):
        raise PatchSyntaxError(_NOT_OPERATIONS)
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLarge(
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    if not all(isinstance(operation, dict) for operation in operations):
        raise PatchSyntaxError(_NOT_OPERATIONS)
    draft = _Draft(document)
    for operation in operations:
        _apply(draft, operation)
    return draft.root


class _Missing(Exception):
    """The container that a path addresses does not exist."""


class _KeyError(Exception):
    """The container has no such member; the text is that of upstream's library."""


class _Draft:
    """The document during the patch: ``root``. A container is copied before its first change, and then changed in
    place."""

    def __init__(self, document: Any) -> None:
        self.root = document
        self.copied_bytes = 0
        """The size of the JSON added by ``copy`` operations."""
        self._moved_items = 0
        self._own: dict[int, Any] = {}
        """The ids of the containers that are not shared. Their parents are among them."""

    def find(self, path: str) -> tuple[Any, str]:
        """The container addressed by ``path`` without its last part, and that part. Raises ``_Missing``."""
        parts = _parts(path)
        if not parts:
            raise _Missing
        container = self.root
        for part in parts[:-1]:
            container = _child(container, part)
        if not isinstance(container, dict | list):
            raise _Missing
        return container, parts[-1]

    def open(self, path: str) -> tuple[Any, str]:
        """As ``find``, for a container that will be changed."""
        parts = _parts(path)
        if not parts:
            raise _Missing
        container = self.root = self._owned(self.root)
        for part in parts[:-1]:
            child = self._owned(_child(container, part))
            container[_index(container, part) if isinstance(container, list) else part] = child
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

    def insert(self, container: Any, key: str, value: Any) -> None:
        """Add a member, or an item before another one. Raises ``_KeyError``."""
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            index = _index(container, key, one_more=True)
            self._count_moved(len(container) - index)
            container.insert(index, value)

    def delete(self, container: Any, key: str) -> None:
        """Remove a member or an item. Raises ``_KeyError``."""
        if isinstance(container, list):
            index = _index(container, key)
            self._count_moved(len(container) - index)
            del container[index]
        elif key in container:
            del container[key]
        else:
            raise _KeyError(f"Unable to remove nonexistent key: {key}: missing value")

    def _count_moved(self, items: int) -> None:
        self._moved_items += items
        if self._moved_items > MAX_MOVED_ITEMS:
            raise PatchTooLarge(
                "Request entity too large: the insertions and removals of the JSON patch move more than "
                f"{MAX_MOVED_ITEMS} items of lists: replace the lists"
            )

    def _owned(self, container: Any) -> Any:
        if id(container) in self._own:
            return container
        if not isinstance(container, dict | list):
            raise _Missing
        copy = container.copy()
        self._own[id(copy)] = copy
        return copy


def _apply(draft: _Draft, operation: Mapping[str, Any]) -> None:
    name = operation.get("op")
    if not isinstance(name, str):
        name = "unknown"
    match name:
        case "add":
            _add(draft, _path(operation, "path", missing="missing value"), operation.get("value"))
        case "remove":
            _remove(draft, _path(operation, "path", missing="missing value"))
        case "replace":
            _replace(draft, _path(operation), operation.get("value"))
        case "test":
            _test(draft, _path(operation), operation.get("value"))
        case "move":
            _move(draft, operation)
        case "copy":
            _copy(draft, operation)
        case _:
            raise PatchNotApplicable(f"Unexpected kind: {name}")


def _path(operation: Mapping[str, Any], field: str = "path", missing: str = "") -> str:
    path = operation.get(field)
    if isinstance(path, str):
        return path
    absent = "operation, missing from field" if field == "from" else "operation missing path field"
    reason = missing or (f"{absent}: missing value" if path is None else "invalid value")
    raise PatchNotApplicable(f"{operation['op']} operation failed to decode {field}: {reason}")


def _parts(path: str) -> list[str]:
    # The text before the first slash is ignored, as upstream.
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _index(container: list[Any], key: str, *, one_more: bool = False) -> int:
    try:
        index = int(key) if key.isascii() and "_" not in key and key == key.strip() else None
    except ValueError:
        index = None
    if index is None:
        syntax = f"strconv.Atoi: parsing {quote(key)}: invalid syntax"
        raise _KeyError(f"value was not a proper array index: '{key}': {syntax}" if one_more else syntax)
    size = len(container) + one_more
    if not -size <= index < size:
        raise _KeyError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size if index < 0 else index


def _child(container: Any, key: str) -> Any:
    """The container below another one on a path. Raises ``_Missing``."""
    try:
        child = _get(container, key)
    except _KeyError:
        raise _Missing from None
    if not isinstance(child, dict | list):
        raise _Missing
    return child


def _get(container: Any, key: str) -> Any:
    """A member; null for one that is missing. Raises ``_KeyError`` for an index."""
    if isinstance(container, list):
        return container[_index(container, key)]
    if not isinstance(container, dict):
        raise _Missing
    return container.get(key)


def _add(draft: _Draft, path: str, value: Any) -> None:
    try:
        container, key = draft.open(path)
        draft.insert(container, key, value)
    except _Missing:
        raise PatchNotApplicable(
            f'add operation does not apply: doc is missing path: "{path}": missing value'
        ) from None
    except _KeyError as error:
        raise PatchNotApplicable(f"error in add for path: '{path}': {error}") from None


def _remove(draft: _Draft, path: str) -> None:
    try:
        container, key = draft.open(path)
        draft.delete(container, key)
    except _Missing:
        reason = f'remove operation does not apply: doc is missing path: "{path}": missing value'
        raise PatchNotApplicable(reason) from None
    except _KeyError as error:
        raise PatchNotApplicable(f"error in remove for path: '{path}': {error}") from None


def _replace(draft: _Draft, path: str, value: Any) -> None:
    if path == "":
        if not isinstance(value, dict | list):
            raise PatchNotApplicable("replace operation value must be object or array: %!w(<nil>)")
        draft.root = value
        return
    try:
        container, key = draft.open(path)
        container[_index(container, key) if isinstance(container, list) else key] = value
    except _Missing:
        reason = f"replace operation does not apply: doc is missing path: {path}: missing value"
        raise PatchNotApplicable(reason) from None
    except _KeyError:
        reason = f"replace operation does not apply: doc is missing key: {path}: missing value"
        raise PatchNotApplicable(reason) from None


def _move(draft: _Draft, operation: Mapping[str, Any]) -> None:
    source = _path(operation, "from")
    try:
        container, key = draft.open(source)
    except _Missing:
        reason = f"move operation does not apply: doc is missing from path: {source}: missing value"
        raise PatchNotApplicable(reason) from None
    try:
        value = _get(container, key)
        draft.delete(container, key)
    except _KeyError as error:
        raise PatchNotApplicable(f"error in move for path: '{key}': {error}") from None
    path = _path(operation)
    try:
        container, key = draft.open(path)
        draft.insert(container, key, value)
    except _Missing:
        reason = f"move operation does not apply: doc is missing destination path: {path}: missing value"
        raise PatchNotApplicable(reason) from None
    except _KeyError as error:
        raise PatchNotApplicable(f"error in move for path: '{path}': {error}") from None


def _copy(draft: _Draft, operation: Mapping[str, Any]) -> None:
    source = _path(operation, "from")
    try:
        value = _get(*draft.find(source))
    except _Missing:
        reason = f"copy operation does not apply: doc is missing from path: {source}: missing value"
        raise PatchNotApplicable(reason) from None
    except _KeyError as error:
        raise PatchNotApplicable(f"error in copy for from: '{source}': {error}") from None
    path = _path(operation, missing="missing value")
    draft.copied_bytes += len(msgspec.json.encode(value))
    if draft.copied_bytes > MAX_COPIED_BYTES:
        raise PatchNotApplicable(
            f"Unable to complete the copy, the accumulated size increase of copy is {draft.copied_bytes}, "
            f"exceeding the limit {MAX_COPIED_BYTES}"
        )
    shared = draft.share(value)
    try:
        container, key = draft.open(path)
        draft.insert(container, key, shared)
    except _Missing:
        reason = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        raise PatchNotApplicable(reason) from None
    except _KeyError as error:
        raise PatchNotApplicable(f"error while adding value during copy: {error}") from None


def _test(draft: _Draft, path: str, value: Any) -> None:
    try:
        current = draft.root if path == "" else _get(*draft.find(path))
    except _Missing:
        reason = f"test operation does not apply: is missing path: {path}: missing value"
        raise PatchNotApplicable(reason) from None
    except _KeyError as error:
        raise PatchNotApplicable(f"error in test for path: '{path}': {error}") from None
    if not deep_equal(current, value):
        raise PatchNotApplicable(f"testing value {path} failed: {TEST_FAILED}")
