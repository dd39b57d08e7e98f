"""What differs between two versions of an object, field by field. Pure."""

from collections.abc import Iterator
from typing import Any

import msgspec

_KEYS = ("name", "type", "uid", "containerPort", "port", "key", "ip")
"""Fields that identify the entries of a list, in the order in which they are tried."""
_OF_EVERY_WRITE = frozenset({"managedFields", "resourceVersion"})


class Absent:
    """Stands for a field that is not there, which null is not."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


class Difference(msgspec.Struct, frozen=True):
    """One field: ``spec.containers[name=web].image``."""

    path: str
    before: Any
    after: Any


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """The fields that differ, in the order of their paths, without what every write changes (``resourceVersion`` and
    ``managedFields``). What was added or removed as a whole is one difference."""
    old, new = (
        {**each, "metadata": {k: v for k, v in (each.get("metadata") or {}).items() if k not in _OF_EVERY_WRITE}}
        for each in (before, after)
    )
    return list(_of_maps("", old, new))


def _of_values(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_maps(path + ".", before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(path, before, after)
    elif before != after or isinstance(before, bool) is not isinstance(after, bool):
        yield Difference(path, before, after)


def _of_maps(prefix: str, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        path = f'{prefix.removesuffix(".")}["{name}"]' if "." in name or "/" in name else prefix + name
        yield from _of_values(path, before.get(name, ABSENT), after.get(name, ABSENT))


def _of_lists(path: str, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    old, new = _by_key(before, after)
    for entry in [*old, *(each for each in new if each not in old)]:
        yield from _of_values(f"{path}[{entry}]", old.get(entry, ABSENT), new.get(entry, ABSENT))


def _by_key(before: list[Any], after: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entries of both lists by the first field that identifies them in both, or by their places."""
    for key in _KEYS:
        if all(isinstance(each, dict) and isinstance(each.get(key), str | int) for each in (*before, *after)):
            old, new = ({f"{key}={each[key]}": each for each in entries} for entries in (before, after))
            if len(old) == len(before) and len(new) == len(after):
                return old, new
    old, new = ({str(place): each for place, each in enumerate(entries)} for entries in (before, after))
    return old, new
