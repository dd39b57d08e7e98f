"""The differences between two versions of an object, by field. Pure."""

import json
from collections.abc import Iterator, Sized
from typing import Any

import msgspec

_KEYS = ("name", "type", "uid", "containerPort", "port", "key", "ip")
"""Fields that identify list entries; the first one that all entries have is used."""
_CHANGED_BY_EVERY_WRITE = frozenset({"managedFields", "resourceVersion"})


class Absent:
    """A missing field, as opposed to null."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()

_MAX_DEPTH = 100
"""Below this depth only one difference is reported: custom objects may be as deep as the JSON decoder allows."""
_DEEP = "…"
_MAX_VISITS = 20_000
"""How many values are compared individually. The remaining lists and maps of a larger object are compared as a whole:
an object of 3 MB would take seconds, and have a hundred thousand differences."""


class Difference(msgspec.Struct, frozen=True):
    """A changed field: ``spec.containers[name=web].image``."""

    path: str
    before: Any
    after: Any


def differences(previous: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """The changed fields, in the order of their paths, without those that every write changes (``resourceVersion`` and
    ``managedFields``). A subtree that was added or removed is one difference. After ``_MAX_VISITS`` values, so is a
    list or map that differs."""
    old, new = (
        {**obj, "metadata": {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _CHANGED_BY_EVERY_WRITE}}
        for obj in (previous, after)
    )
    return list(_map_differences("", old, new, 0, _Visits()))


def is_public_in_secrets(path: str) -> bool:
    """Whether the value of a field of a Secret may be shown: only known fields without data. Clients keep whole objects
    in annotations."""
    if path.startswith("metadata."):
        return not path.startswith("metadata.annotations")
    return path in ("type", "immutable")


_pieces = json.JSONEncoder(ensure_ascii=False).iterencode


def short_json(value: Any, length: int) -> str:
    """A value as JSON, truncated to this many characters."""
    text = ""
    try:
        # Encoded in pieces, because only the beginning of a large value is needed.
        for piece in _pieces(value):
            text += piece
            if len(text) > length:
                break
    except RecursionError:
        return _DEEP
    return text if len(text) <= length else f"{text[: length - 1]}…"


class _Visits:
    """How many more values are compared individually."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = _MAX_VISITS

    def count(self, old: Sized, new: Sized) -> bool:
        """Count the entries of both. Returns whether they are compared individually."""
        self.remaining -= len(old) + len(new)
        return self.remaining >= 0


def _value_differences(path: str, old: Any, new: Any, depth: int, visits: _Visits) -> Iterator[Difference]:
    if depth > _MAX_DEPTH:
        if not _are_equal(old, new):
            yield Difference(path, _DEEP, _DEEP)
    elif isinstance(old, dict) and isinstance(new, dict) and visits.count(old, new):
        yield from _map_differences(path + ".", old, new, depth, visits)
    elif isinstance(old, list) and isinstance(new, list) and visits.count(old, new):
        yield from _list_differences(path, old, new, depth, visits)
    elif not _are_equal(old, new) or isinstance(old, bool) is not isinstance(new, bool):
        yield Difference(path, old, new)


def _are_equal(old: Any, new: Any) -> bool:
    try:
        return bool(old == new)
    except RecursionError:
        return False


def _map_differences(
    prefix: str, old: dict[str, Any], new: dict[str, Any], depth: int, visits: _Visits
) -> Iterator[Difference]:
    for name in sorted({*old, *new}):
        path = f'{prefix.removesuffix(".")}["{name}"]' if "." in name or "/" in name else prefix + name
        yield from _value_differences(path, old.get(name, ABSENT), new.get(name, ABSENT), depth + 1, visits)


def _list_differences(
    path: str, previous: list[Any], after: list[Any], depth: int, visits: _Visits
) -> Iterator[Difference]:
    old, new = _by_key(previous, after)
    for key in [*old, *(added for added in new if added not in old)]:
        yield from _value_differences(f"{path}[{key}]", old.get(key, ABSENT), new.get(key, ABSENT), depth + 1, visits)


def _by_key(previous: list[Any], after: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entries of both lists by the first field that identifies all of them, or by index."""
    for key in _KEYS:
        if all(isinstance(item, dict) and isinstance(item.get(key), str | int) for item in (*previous, *after)):
            old, new = ({f"{key}={item[key]}": item for item in entries} for entries in (previous, after))
            if len(old) == len(previous) and len(new) == len(after):
                return old, new
    old, new = ({str(index): item for index, item in enumerate(entries)} for entries in (previous, after))
    return old, new
