"""Canonical form of traces: values that differ between any two runs are masked, everything else must be equal.

Replaced are uids (by whose they are), resourceVersions, times, generated names and the suffixes of Events. Taken out is
what an API server fills in when it decodes a body (``data/README.md``: a recorded body shows it, the wire did not).
Plain bodies are JSON here and protobuf upstream, by design; types of patches stay.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.traces.records import Record

Doc = dict[str, Any]

_UID_IN_TEXT = re.compile(r"UID\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIMES = {
    "creationTimestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "deletionTimestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "lastTransitionTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "lastHeartbeatTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "timeAdded": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "startTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "startedAt": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "firstTimestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "lastTimestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "acquireTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "renewTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
}
_GENERATED = re.compile(r"(?:POD|REFUSED|GEN)\d+$")
_IDENTITY = re.compile(r"^[^_]+_(UID\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
"""The identity of a manager: host and uid."""
_INTERNAL = "meta.k8s.io/__internal"


class Trace:
    """All requests of one manager in one scenario."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self._names = Names(self.records)

    def of(self, user: str) -> list[Record]:
        """The requests of one user, in order."""
        return [record for record in self.records if record.user == user]

    def lines(self, records: Iterable[Record]) -> list[str]:
        """The requests as canonical lines of JSON."""
        return [json.dumps(self._names.line(record), sort_keys=True) for record in records]

    def docs(self, records: Iterable[Record]) -> list[Doc]:
        """The requests as canonical documents."""
        return [self._names.line(record) for record in records]


def assert_same(actual: Iterable[str], expected: Iterable[str]) -> None:
    """Fail with every line that only one side has. Order is ignored, counts are not."""
    left, right = Counter(actual), Counter(expected)
    extra = [f"  actual   {count}x {line}" for line, count in sorted((left - right).items())]
    missing = [f"  upstream {count}x {line}" for line, count in sorted((right - left).items())]
    assert not extra + missing, "\n".join(["requests differ:", *extra, *missing])


class Names:
    """Generated names and uids of one trace."""

    def __init__(self, records: list[Record]) -> None:
        self._generated: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        for record in records:
            self._learn(record)

    def _learn(self, record: Record) -> None:
        body = record.body
        if not isinstance(body, dict):
            return
        metadata = body.get("metadata") or {}
        if record.verb == "create" and "generateName" in metadata and record.name:
            self._generated[record.name] = metadata["generateName"] + "GENERATED"
        refused = re.match(r'pods "([^"]+)" is forbidden: exceeded', record.message)
        if refused is not None:
            self._generated[refused[1]] = metadata["generateName"] + "REFUSED"
        for holder in (metadata, body.get("preconditions") or {}):
            if "uid" in holder:
                self._owners[holder["uid"]] = record.name
        self._learn_named(body)

    def _learn_named(self, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._learn_named(item)
        elif isinstance(value, dict):
            if "name" in value and "uid" in value:
                self._owners[value["uid"]] = value["name"]
            for item in value.values():
                self._learn_named(item)

    def name(self, name: str) -> str:
        """The name without its random suffix."""
        return self._generated.get(name) or _GENERATED.sub("GENERATED", name)

    def text(self, text: str) -> str:
        """The message with generated names and uids masked."""
        # The longest first: web-POD1 is in web-POD10.
        for name in sorted(self._generated, key=len, reverse=True):
            text = text.replace(name, self._generated[name])
        return _UID_IN_TEXT.sub(lambda found: self._uid(found[0]), text)

    def _uid(self, uid: str) -> str:
        return f"uid of {self.name(self._owners[uid])}" if uid in self._owners else "uid of nobody seen"

    def line(self, record: Record) -> Doc:
        """The compared parts of a request."""
        name = self.name(record.name.rpartition(".")[0] if record.is_event else record.name)
        if record.verb == "create" and record.code >= 400:
            name = ""
        return {
            "user": record.user,
            "verb": record.verb,
            "resource": f"{record.group} {record.resource}",
            "where": f"{record.namespace}/{name}",
            "accept": _accepted(record),
            "type": _content_type(record),
            "query": record.query,
            "body": self._body(record),
            "answer": f"{record.code} {record.reason} {self.text(record.message)}".rstrip(),
        }

    def _body(self, record: Record) -> Any:
        body = json.loads(json.dumps(record.body))
        if isinstance(body, dict):
            if body.get("kind") == "DeleteOptions":
                # The API server shows its internal version.
                assert body.pop("apiVersion") in ("v1", _INTERNAL)
            elif isinstance(body.get("metadata"), dict):
                # The recordings are without them.
                body["metadata"].pop("managedFields", None)
            if not record.content_type.endswith("patch+json"):
                _take_out_defaults(body)
            if record.is_event and record.verb == "create":
                body["metadata"]["name"] = body["metadata"]["name"].rpartition(".")[0]
        return self._stable("", body)

    def _stable(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._stable(name, item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._stable(key, item) for item in value]
        if not isinstance(value, str):
            return value
        if key in _TIMES and (value == "TIME" or re.fullmatch(_TIMES[key], value)):
            return "TIME"
        if key == "resourceVersion":
            assert re.fullmatch(r"(RV)?\d+", value), f"not a resourceVersion: {value!r}"
            return "RV"
        if key == "uid" and _UID_IN_TEXT.fullmatch(value):
            return self._uid(value)
        if key in ("message", "holderIdentity"):
            return _IDENTITY.sub("IDENTITY", value) if _IDENTITY.match(value) else self.text(value)
        return self.name(value) if key == "name" else value


def _accepted(record: Record) -> str:
    if not record.is_read:
        return ""
    form = re.search("as=([A-Za-z]+)", record.accept)
    return form[1] if form else "whole objects"


def _content_type(record: Record) -> str:
    """Patches as they are; a plain body is a plain body, in JSON or protobuf."""
    return record.content_type if record.content_type.endswith("patch+json") else ""


def _take_out_defaults(body: Doc) -> None:
    """Remove what decoding adds: empty structs and strings written by Go, and default values."""
    kind = body.get("kind")
    if body.get("status") in ({}, {"phase": "Active"} if kind == "Namespace" else {}):
        del body["status"]
    spec = body.get("spec") or {}
    if kind == "Pod" and spec.get("enableServiceLinks") is True:
        del spec["enableServiceLinks"]
    if kind == "Event":
        for field in ("eventTime", "reportingInstance"):
            if not body.get(field):
                body.pop(field, None)
