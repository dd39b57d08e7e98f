"""The differences between two versions of an object, by field. Pure."""

import json
from collections.abc import Iterator, Sized
from typing import Any

import msgspec

_KEYS = ("name", "type", "uid", "containerPort", "port", "key", "ip")
"""Fields that identify list entries, in the order in which they are tried."""
_OF_EVERY_WRITE = frozenset({"managedFields", "resourceVersion"})


class Absent:
    """A missing field, as opposed to null."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()

_MAX_DEPTH = 100
"""Deeper differences are not separated: custom objects may be nested to the limit of the JSON decoder."""
_DEEP = "…"
_MAX_VISITS = 20_000
"""How many values are compared one by one. In larger objects the rest is compared as a whole: an object of 3 MB would
take seconds, and have a hundred thousand differences."""


class Difference(msgspec.Struct, frozen=True):
    """A changed field: ``spec.containers[name=web].image``."""

    path: str
    before: Any
    after: Any


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """The changed fields, in the order of their paths, without those that every write changes (``resourceVersion`` and
    ``managedFields``). Something added or removed as a whole is one difference, and so is what differs in a list or map
    after many thousand other values."""
    old, new = (
        {**obj, "metadata": {k: v for k, v in (obj.get("metadata") or {}).items() if k not in _OF_EVERY_WRITE}}
        for obj in (before, after)
    )
    return list(_of_maps("", old, new, 0, _Visits()))


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
        # In pieces: of a value of megabytes the beginning is needed.
        for piece in _pieces(value):
            text += piece
            if len(text) > length:
                break
    except RecursionError:
        return _DEEP
    return text if len(text) <= length else f"{text[: length - 1]}…"


class _Visits:
    """How many values have still to be compared one by one."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = _MAX_VISITS

    def take(self, before: Sized, after: Sized) -> bool:
        """Whether the entries of both are compared one by one."""
        self.remaining -= len(before) + len(after)
        return self.remaining >= 0


def _of_values(path: str, before: Any, after: Any, depth: int, visits: _Visits) -> Iterator[Difference]:
    if depth > _MAX_DEPTH:
        if not _are_equal(before, after):
            yield Difference(path, _DEEP, _DEEP)
    elif isinstance(before, dict) and isinstance(after, dict) and visits.take(before, after):
        yield from _of_maps(path + ".", before, after, depth, visits)
    elif isinstance(before, list) and isinstance(after, list) and visits.take(before, after):
        yield from _of_lists(path, before, after, depth, visits)
    elif not _are_equal(before, after) or isinstance(before, bool) is not isinstance(after, bool):
        yield Difference(path, before, after)


def _are_equal(before: Any, after: Any) -> bool:
    try:
        return bool(before == after)
    except RecursionError:
        return False


def _of_maps(
    prefix: str, before: dict[str, Any], after: dict[str, Any], depth: int, visits: _Visits
) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        path = f'{prefix.removesuffix(".")}["{name}"]' if "." in name or "/" in name else prefix + name
        yield from _of_values(path, before.get(name, ABSENT), after.get(name, ABSENT), depth + 1, visits)


def _of_lists(path: str, before: list[Any], after: list[Any], depth: int, visits: _Visits) -> Iterator[Difference]:
    old, new = _by_key(before, after)
    for key in [*old, *(added for added in new if added not in old)]:
        yield from _of_values(f"{path}[{key}]", old.get(key, ABSENT), new.get(key, ABSENT), depth + 1, visits)


def _by_key(before: list[Any], after: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entries of both lists by the first field that identifies all of them, or by index."""
    for key in _KEYS:
        if all(isinstance(item, dict) and isinstance(item.get(key), str | int) for item in (*before, *after)):
            old, new = ({f"{key}={item[key]}": item for item in entries} for entries in (before, after))
            if len(old) == len(before) and len(new) == len(after):
                return old, new
    old, new = ({str(index): item for index, item in enumerate(entries)} for entries in (before, after))
    return old, new
