"""Differences between two responses to the same request."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.apiserver.recorded.own import Translation, is_generated
from tests.apiserver.recorded.recording import Answer, Exchange

Json = Any


class Absent:
    """The value of a missing field."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()


@dataclass(frozen=True)
class Difference:
    """One difference: a path with ``*`` for list indexes, and both values."""

    path: str
    expected: Json
    actual: Json

    def __str__(self) -> str:
        return f"{self.path}: real {_short(self.expected)} | ours {_short(self.actual)}"


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) < 1500 else text[:1500] + "..."


def differences(exchange: Exchange, place: str, actual: Answer, translation: Translation) -> list[Difference]:
    """All differences. ``place`` is the path of the object.

    What each server chose for itself is no difference, and is what the translation learns from.
    """
    expected = exchange.answer
    for one, other in _names(exchange, expected.body, actual.body):
        translation.learn_name(one, other)
    if expected.code != actual.code or not expected.accepted:
        return list(_failures(expected, actual, translation))
    return list(_compare(place, "body", "", expected.body, actual.body, translation))


def _names(exchange: Exchange, expected: Json, actual: Json) -> Iterator[tuple[str, str]]:
    """The names that the servers generated for the object of a request."""
    prefix = exchange.generate_name
    if prefix and isinstance(expected, dict) and isinstance(actual, dict):
        for key in ("metadata", "details"):
            names = [str((body.get(key) or {}).get("name")) for body in (expected, actual)]
            if all(is_generated(prefix, name) for name in names):
                yield names[0], names[1]


def _failures(expected: Answer, actual: Answer, translation: Translation) -> Iterator[Difference]:
    if expected.code != actual.code:
        yield Difference("code", expected.code, actual.code)
    before, after = expected.body, actual.body
    if not (isinstance(before, dict) and isinstance(after, dict)):
        if before != after:
            yield Difference("body", before, after)
        return
    messages = [str(body.get("message", "(granted)")) for body in (before, after)]
    if not translation.same_text(*messages):
        # The causes repeat it.
        yield Difference("message", *messages)
        return
    yield from _compare("", "body", "", {**before, "message": ""}, {**after, "message": ""}, translation)


def _compare(
    place: str, path: str, key: str, expected: Json, actual: Json, translation: Translation
) -> Iterator[Difference]:
    if expected == actual and type(expected) is type(actual):
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        meta = expected.get("metadata")
        if path.startswith("body.items") and isinstance(meta, dict):
            place = f"{place}/{meta.get('name')}"
        for name in dict.fromkeys((*expected, *actual)):
            before, after = expected.get(name, ABSENT), actual.get(name, ABSENT)
            if name == "managedFields" and isinstance(before, list) and isinstance(after, list):
                before, after = sorted(before, key=_manager), sorted(after, key=_manager)
            yield from _compare(place, f"{path}.{name}", name, before, after, translation)
    elif (
        key in _SETS
        and isinstance(expected, list)
        and isinstance(actual, list)
        and _sorted(expected) == _sorted(actual)
    ):
        yield Difference(f"{path} order", expected, actual)
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for before, after in zip(expected, actual, strict=True):
            yield from _compare(place, f"{path}.*", key, before, after, translation)
    elif translation.is_own(key, expected, actual):
        translation.learn(place, key, expected, actual)
    else:
        yield Difference(path, expected, actual)


_SETS = frozenset({"resourceRules", "nonResourceRules"})


def _sorted(items: list[Json]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def _manager(entry: Json) -> tuple[str, ...]:
    """Replaces the order of managedFields entries, which depends on the second of each write."""
    return tuple(str(entry.get(name, "")) for name in ("manager", "operation", "subresource", "apiVersion"))
