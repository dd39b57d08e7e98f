"""What two answers differ in, after what must differ between two servers has been made the same."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.real.fuzz.servers import Answer, Known
from tests.real.fuzz.shared_schema import SharedSchema

from pilothouse.api.schema import Definition, Type

Json = Any
Cause = tuple[str, str, str]
"""Field, reason and text."""
_decoder = json.JSONDecoder()


class Absent:
    """The value of a field that is not there."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = Absent()
_TOO_OLD = "The resourceVersion for the provided list is too old."
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z$")
_UID = re.compile(r"^(\(uid\)|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$")
_MADE_NAME = re.compile(r"^(made-)[a-z0-9]{5}$")


@dataclass(frozen=True)
class Difference:
    """One place where the answers differ. ``path`` begins with ``code``, ``reason``, ``message``, ``causes`` or
    ``body``, or is ``written``; positions in lists are ``*``."""

    path: str
    theirs: Json
    ours: Json

    @property
    def is_cause(self) -> bool:
        """Whether it is about which fields of a refused object are named, and how."""
        return self.path.startswith("cause ")

    def __str__(self) -> str:
        return f"{self.path}: real {_short(self.theirs)} | ours {_short(self.ours)}"


def _short(value: Json) -> str:
    text = repr(value)
    return text if len(text) < 700 else text[:700] + "..."


@dataclass
class Comparison:
    """Compares answers of two servers to the same request."""

    shared: SharedSchema

    def differences(self, theirs: Answer, ours: Answer, known: tuple[Known, Known]) -> list[Difference]:
        """Everything that differs."""
        if ours.accepted and theirs.code == 410 and _TOO_OLD in str(theirs.body):
            return []  # what a server still remembers is a matter of how long it has been running
        found: list[Difference] = []
        if theirs.code != ours.code:
            found.append(Difference("code", theirs.code, ours.code))
        if isinstance(theirs.body, dict) and isinstance(ours.body, dict):
            if theirs.accepted and ours.accepted:
                kind = self._definition(theirs.body)
                before, after = (
                    _normal(_without_uids(theirs.body), known[0]),
                    _normal(_without_uids(ours.body), known[1]),
                )
                found += self._compare("body", before, after, kind)
            else:
                found += _failures(theirs, ours, known)
        elif theirs.body != ours.body:
            found.append(Difference("body", theirs.body, ours.body))
        return found

    def _definition(self, body: Json) -> Definition | None:
        return self.shared.kind(body.get("apiVersion", ""), body.get("kind", ""))

    def _compare(self, path: str, theirs: Json, ours: Json, definition: Definition | None) -> Iterator[Difference]:
        if path == "body.items" and isinstance(theirs, list) and isinstance(ours, list):
            first, second = _names(theirs), _names(ours)
            if first != second and sorted(first) == sorted(second):
                yield Difference("body.items order", first, second)
                theirs, ours = sorted(theirs, key=_name), sorted(ours, key=_name)
        if isinstance(theirs, dict) and isinstance(ours, dict):
            known = self.shared.fields(definition) if definition is not None else {}
            for name in dict.fromkeys((*theirs, *ours)):
                if definition is not None and name in definition.fields and name not in known:
                    continue
                inner = _inner(known[name].type) if name in known else None
                before, after = theirs.get(name, ABSENT), ours.get(name, ABSENT)
                yield from self._compare(f"{path}.{name}", before, after, inner)
        elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
            for before, after in zip(theirs, ours, strict=True):
                yield from self._compare(f"{path}.*", before, after, definition)
        elif theirs == "" and ours is ABSENT:
            return  # a text that is required and was not given; the page says so
        elif both_just_written(theirs, ours):
            return
        elif theirs != ours or type(theirs) is not type(ours):
            yield Difference(path, theirs, ours)


def wrote(answer: Answer, known: Known) -> bool:
    """Whether a granted write has given its object another revision."""
    meta = answer.body.get("metadata") or {} if isinstance(answer.body, dict) else {}
    before = known.objects.get(meta.get("name") or "", {}).get("metadata") or {}
    return bool(before) and before.get("resourceVersion") != meta.get("resourceVersion")


def both_just_written(theirs: Json, ours: Json) -> bool:
    """Whether these are times that the servers wrote themselves, one after the other. Stories only send old ones."""
    times = []
    for value in (theirs, ours):
        if not isinstance(value, str) or not _TIME.match(value):
            return False
        times.append(datetime.fromisoformat(value).timestamp())
    return abs(times[0] - times[1]) <= 5 and all(abs(time.time() - each) < 120 for each in times)


def _name(item: Json) -> tuple[str, str]:
    meta = item.get("metadata", {})
    return meta.get("namespace", ""), meta.get("name", "")


def _names(items: list[Json]) -> list[tuple[str, str]]:
    return [_name(item) for item in items]


def _inner(kind: Type) -> Definition | None:
    while kind.element is not None:
        kind = kind.element
    return kind.definition if kind.name == "object" else None


def _failures(theirs: Answer, ours: Answer, known: tuple[Known, Known]) -> Iterator[Difference]:
    before, after = theirs.body, ours.body
    if theirs.accepted or ours.accepted:
        yield Difference("message", _message(before, known[0], theirs), _message(after, known[1], ours))
        return
    for name in ("reason", "status"):
        if before.get(name) != after.get(name):
            yield Difference(name, before.get(name), after.get(name))
    causes = _causes(before, known[0]), _causes(after, known[1])
    if theirs.code == ours.code and any(causes):
        yield from _causes_differ(*causes)
    else:
        first, second = _message(before, known[0], theirs), _message(after, known[1], ours)
        if first != second:
            yield Difference("message", first, second)
    for name in ("name", "group", "kind", "retryAfterSeconds"):
        values = [(body.get("details") or {}).get(name, ABSENT) for body in (before, after)]
        if name == "name" and any(str(value)[:-5] for value in values) and str(values[0])[:-5] == str(values[1])[:-5]:
            continue  # the server made it
        if name == "name" and all(_UID.match(str(value)) for value in values):
            continue
        if values[0] != values[1] and theirs.code == ours.code and ours.code != 409:
            yield Difference(f"details.{name}", _without_own(values[0], known[0]), _without_own(values[1], known[1]))


def _causes_differ(theirs: list[Cause], ours: list[Cause]) -> Iterator[Difference]:
    """Causes by field and reason; where both have one, what its text says about the value."""
    left = list(ours)
    for field_, reason, text in theirs:
        same = [cause for cause in left if cause[:2] == (field_, reason)]
        if not same:
            yield Difference(f"cause {field_}", (reason, text), ABSENT)
            continue
        alike = [cause for cause in same if _same_but_for_value(text, cause[2])]
        best = next((cause for cause in same if cause[2] == text), (*alike, *same)[0])
        left.remove(best)
        if best[2] != text and not _same_but_for_value(text, best[2]):
            yield Difference(f"cause {field_}", (reason, text), (reason, best[2]))
    for field_, reason, text in left:
        yield Difference(f"cause {field_}", ABSENT, (reason, text))


def _same_but_for_value(theirs: str, ours: str) -> bool:
    """Values in texts are JSON since v1.34, and were whatever Go printed before. What is said of them counts."""
    start = re.match(r"(Invalid|Unsupported|Duplicate) value: |Not found: ", ours)
    if start is None or not theirs.startswith(start[0]):
        return False
    try:
        _value, end = _decoder.raw_decode(ours, start.end())
    except ValueError:
        return False
    detail = ours[end:]
    return theirs.endswith(detail) if detail else True


def _message(body: Json, known: Known, answer: Answer) -> str:
    if answer.accepted:
        return "(accepted)"
    return str(_without_own(body.get("message", ""), known))


def _causes(body: Json, known: Known) -> list[Cause]:
    causes = (body.get("details") or {}).get("causes") or []
    return sorted(
        (cause.get("field", ""), cause.get("reason", ""), str(_without_own(cause.get("message", ""), known)))
        for cause in causes
    )


def _without_own(text: Json, known: Known) -> Json:
    """A text without the uids and revisions that are the server's own."""
    if not isinstance(text, str):
        return text
    for obj in known.objects.values():
        meta = obj.get("metadata", {})
        if meta.get("uid"):
            text = text.replace(meta["uid"], "(uid)")
    text = re.sub(r"(object meta: |in record \()\d+", r"\1(own)", text)
    return re.sub(r"(made-)[a-z0-9]{5}", r"\1(random)", text)


def _without_uids(body: Json) -> Json:
    """The body with the uid and the generated name of its own object made the same wherever they stand, as in the
    labels of jobs."""
    objects = [body, *(body.get("items") or ())]
    uids = [obj.get("metadata", {}).get("uid") for obj in objects if isinstance(obj, dict)]
    uids.append((body.get("details") or {}).get("uid"))
    text = json.dumps(body)
    for meta in [obj.get("metadata") or {} for obj in objects if isinstance(obj, dict)]:
        prefix, name = meta.get("generateName"), meta.get("name")
        if prefix and isinstance(name, str) and name.startswith(str(prefix)):
            text = text.replace(json.dumps(name), json.dumps(f"{prefix}(random)"))
    for uid in uids:
        if isinstance(uid, str) and len(uid) > 30:
            text = text.replace(uid, "(uid)")
    return json.loads(text)


def _normal(value: Json, known: Known, name: str = "") -> Json:
    if isinstance(value, dict):
        if name == "metadata":
            return _metadata(value, known)
        return {key: _normal(inner, known, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_normal(inner, known, name) for inner in value]
    if name in ("clusterIP", "clusterIPs") and isinstance(value, str) and value.startswith("10.0."):
        return "(address)"
    if name in ("nodePort", "healthCheckNodePort") and isinstance(value, int) and 30000 <= value < 32768:
        return "(port)"
    if name in ("token", "expirationTimestamp") and isinstance(value, str):
        return "(own)"
    if isinstance(value, str):
        # Names that the server made begin with "made-", so that they can be told from others.
        return _MADE_NAME.sub(r"\1(random)", value)
    return value


def _metadata(meta: Mapping[str, Json], known: Known) -> Json:
    result = {}
    prefix = meta.get("generateName")
    for name, value in meta.items():
        if name == "managedFields":
            continue
        if name == "name" and isinstance(prefix, str) and prefix and value.startswith(prefix):
            value = f"{prefix}(random)"
        if name == "uid" or (name == "name" and isinstance(value, str) and _UID.match(value)):
            result[name] = "(uid)"
        elif name in ("resourceVersion", "continue"):
            result[name] = "(own)" if value else value
        elif name in ("creationTimestamp", "deletionTimestamp"):
            result[name] = "(time)" if isinstance(value, str) and _TIME.match(value) else value
        else:
            result[name] = _normal(value, known)
    return result
