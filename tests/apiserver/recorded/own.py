"""Values chosen by each server: uids, revisions, times, allocated addresses and ports, generated names.

Where two answers to the same request differ only in such a value there is no difference; and a later request that
repeats the value of one server is to carry the value of the other.
"""

import json
import re
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

Json = Any
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ANY_UUID = re.compile(_UUID)
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$")
_SUFFIX = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{5}")
_TEXT_REVISION = re.compile(r"(object meta: |in record \(|[ \[]resourceVersion:)\d+")
_TEXT_ADDRESS = re.compile(r'(failed to allocate IP: IPAddress.networking.k8s.io ")[0-9.]+')
_PATCHED = re.compile(r'((?: "" is invalid: patch: )?Invalid value: )("(?:[^"\\]|\\.)*")(.*)$', re.DOTALL)
_SERVICE_RANGE = "10.0."
_ARBITRARY = frozenset({"token", "continue", "expirationTimestamp"})
_RECORDED = ("2026-11-22T10:", "2026-11-22T11:", "2026-11-28T17:", "2026-11-28T18:")
"""The hours of the recordings. Times in requests are older."""


def _just_written(expected: str, actual: str, now: float) -> bool:
    if not (_TIME.match(expected) and _TIME.match(actual) and expected.startswith(_RECORDED)):
        return False
    return len(expected) == len(actual) and abs(now - datetime.fromisoformat(actual).timestamp()) < 120


def is_generated(prefix: str, name: str) -> bool:
    """Whether a server generated this name from a ``generateName``."""
    return name.startswith(prefix) and _SUFFIX.fullmatch(name[len(prefix) :]) is not None


def _opened(message: str) -> str:
    """A message that contains a patched object, normalized for both servers."""
    match = _PATCHED.match(message)
    if match is None:
        return message
    try:
        printed = json.loads(json.loads(match[2]))
    except ValueError:
        return message
    if not isinstance(printed, dict):
        return message
    return match[1] + json.dumps(_common("", printed)) + match[3]


def _common(key: str, value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _common(name, inner) for name, inner in value.items()}
    if isinstance(value, list):
        items = [_common(key, item) for item in value]
        # In the order of the second of each write.
        return sorted(items, key=json.dumps) if key == "managedFields" else items
    if key in ("resourceVersion", "clusterIP", "clusterIPs") and isinstance(value, str):
        return "(own)"
    if isinstance(value, str) and _TIME.match(value) and not value.startswith("2026-01-"):
        return "(time)"
    return value


class Translation:
    """The mapping between our values and the recorded ones in one scenario."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, Json], Json] = {}
        self._latest: dict[tuple[str, Json], Json] = {}
        self._texts: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._split_seconds: set[tuple[str, str]] = set()

    def learn_name(self, expected: str, actual: str) -> None:
        """Add a pair of names generated for the same object."""
        self._texts[expected] = actual

    def learn(self, place: str, key: str, expected: Json, actual: Json) -> None:
        """Add a pair of values of the same field in two responses for the object at ``place``."""
        if (
            isinstance(expected, str)
            and _TIME.match(expected)
            and self._values.get((place, key, expected), actual) != actual
        ):
            self._split_seconds.add((place, expected))
        self._values[place, key, expected] = actual
        self._latest[key, expected] = actual
        if key == "continue":
            self._tokens[expected] = actual
        if isinstance(expected, str) and isinstance(actual, str):
            self._texts.update(zip(_ANY_UUID.findall(expected), _ANY_UUID.findall(actual), strict=False))

    def is_of_split_second(self, place: str, text: str) -> bool:
        """Whether a request's body carries a recorded time that stands for several of ours.

        There two writes were made in one second, here in two: ours is sent another time than it had stored."""
        return any(target == place and time in text for target, time in self._split_seconds)

    def is_own(self, key: str, expected: Json, actual: Json) -> bool:
        """Whether two values that differ are ones that each server chose for itself. ``key`` is the field's name."""
        if isinstance(expected, int) and isinstance(actual, int):
            ports = range(30000, 32768)
            return key in ("nodePort", "healthCheckNodePort") and expected in ports and actual in ports
        if not (isinstance(expected, str) and isinstance(actual, str)):
            return False
        if key == "resourceVersion":
            return expected.isdigit() and actual.isdigit()
        if key in _ARBITRARY:
            return bool(expected) and bool(actual)
        if key in ("clusterIP", "clusterIPs"):
            return expected.startswith(_SERVICE_RANGE) and actual.startswith(_SERVICE_RANGE)
        return _just_written(expected, actual, time.time()) or self.same_text(expected, actual)

    def same_text(self, expected: str, actual: str) -> bool:
        """Whether two texts are equal except for uids, generated names and revisions."""
        return expected == actual or self.comparable(self.text(expected)) == self.comparable(actual)

    @staticmethod
    def comparable(text: str) -> str:
        """A text without uids, revisions and addresses of services."""
        return _TEXT_ADDRESS.sub(r"\1(own)", _TEXT_REVISION.sub(r"\1(own)", _ANY_UUID.sub("(uid)", _opened(text))))

    def text(self, text: str) -> str:
        """The text with our uids and generated names."""
        for expected, actual in self._texts.items():
            if expected in text:
                text = text.replace(expected, actual)
        return text

    def target(self, place: str, target: str) -> str:
        """The request target with our values."""
        path, mark, query = target.partition("?")
        parts = []
        for part in query.split("&") if mark else ():
            key, _is, value = part.partition("=")
            if key == "continue":
                for token, actual in self._tokens.items():
                    value = value.replace(quote(token, safe=""), quote(actual, safe=""))
            else:
                value = str(self._value(place, key, value))
            parts.append(f"{key}={value}" if _is else key)
        return self.text(path) + mark + "&".join(parts)

    def body(self, place: str, text: str) -> str:
        """The body of a request about the object at ``place``."""
        return json.dumps(self._walk(place, "", json.loads(text)), separators=(",", ":")) if text else ""

    def _walk(self, place: str, key: str, value: Json) -> Json:
        if isinstance(value, dict):
            path = value.get("path")
            if isinstance(path, str) and "op" in value and "value" in value:
                # The name of the field that it is in: a place in a list is none.
                last = next(part for part in reversed(path.split("/")) if not part.isdigit())
                return {**value, "value": self._walk(place, last, value["value"])}
            return {self.text(name): self._walk(place, name, inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._walk(place, key, inner) for inner in value]
        return self._value(place, key, value)

    def _value(self, place: str, key: str, value: Json) -> Json:
        if isinstance(value, dict | list):
            return value
        obj = self._values.get((place, key, value), self._latest.get((key, value)))
        if obj is not None and type(value) is not bool:
            return obj
        return self.text(value) if isinstance(value, str) else value
