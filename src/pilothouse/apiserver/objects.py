"""Objects as handlers use them: decoded JSON during a request, bytes in storage.

Stored bytes begin with kind, apiVersion and metadata, whose fields are in upstream's order of declaration. Two things
depend on that: a list strips kind and apiVersion without decoding, and the resource version of a deletion is set in the
last state by replacing the first occurrence (validation ensures that nothing before it contains a quote).
"""

import datetime
import math
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.env import Env, Log
from pilothouse.machinery.times import add_seconds
from pilothouse.storage import Record, Staged, Store
from pilothouse.storage.unreadable import is_readable, printable_key

Object = dict[str, Any]

_META_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


_log = Log("apiserver")


class Meta(msgspec.Struct, gc=False, rename="camel"):
    """The metadata fields that decide about updates and deletions, decoded without the rest."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int | None = None
    finalizers: tuple[str, ...] = ()


class Head(msgspec.Struct, gc=False):
    """A stored object decoded only to its ``Meta``."""

    metadata: Meta


read_head = msgspec.json.Decoder(Head).decode


def decode(value: bytes, key: str = "") -> Object:
    """Decode a stored object to a new dict, which may be changed.

    Raises ``StatusError`` (500) for invalid JSON and for numbers out of range: this server does not store these, so
    another program has written it.
    """
    try:
        return _decode(value)
    except msgspec.DecodeError as error:
        _log.error("A stored object can't be read", key=printable_key(key), error=error)
        raise errors.unreadable(value, key, error) from None


def ordered_metadata(metadata: Object) -> Object:
    """The metadata in stored order; empty fields are omitted."""
    ordered = {name: value for name in _META_ORDER if (value := metadata.get(name))}
    if metadata.get("deletionGracePeriodSeconds") == 0:
        # A pointer upstream: zero is kept.
        ordered["deletionGracePeriodSeconds"] = 0
    return ordered


def encode_object(info: ResourceInfo, obj: Object, *, ordered: bool = False) -> bytes:
    """The stored form. Below the first three fields ``obj`` keeps its order. ``ordered``: its metadata comes from
    ``ordered_metadata``."""
    metadata = obj["metadata"] if ordered else ordered_metadata(obj["metadata"])
    document = {"kind": info.kind, "apiVersion": info.api_version, "metadata": metadata}
    for name, value in obj.items():
        if name not in document:
            document[name] = value
    return encode(document)


def with_revision(value: bytes, old: int | str, new: int) -> bytes:
    """The stored bytes with another resource version."""
    return value.replace(b'"resourceVersion":"%s"' % str(old).encode(), b'"resourceVersion":"%d"' % new, 1)


def readable_records(store: Store, prefix: str) -> list[Record]:
    """The records under a prefix, for a controller of the server, without unreadable ones: they are new ones once they
    can be read."""
    records = store.list(prefix).records
    return [record for record in records if is_readable(record.value)] if store.has_unreadable else records


def all_records(store: Store, prefix: str) -> list[Record]:
    """The records under a prefix, for code that needs all of them. Raises ``StatusError`` (500) if one can't be
    read."""
    records = store.list(prefix).records
    if store.has_unreadable:
        errors.check_readable([record.value for record in records])
    return records


def stage_object(store: Store, info: ResourceInfo, key: str, obj: Object, *, expected: int) -> Staged:
    """Stage an object with the revision of the write as its resource version. Raises ``Mismatch``."""

    def make(revision: int) -> bytes:
        obj["metadata"]["resourceVersion"] = str(revision)
        return encode_object(info, obj)

    return store.stage(key, make, expected=expected)


def stage_deletion(store: Store, record: Record) -> Staged:
    """Stage a deletion; the last state has the revision of the deletion. Raises ``Mismatch``."""
    return store.stage(
        record.key,
        None,
        expected=record.revision,
        last=lambda revision: with_revision(record.value, record.revision, revision),
    )


def next_generation(metadata: Object) -> int:
    """The next generation, limited to 64 bits as in Go: some kinds take it from clients, and a larger number could not
    be decoded."""
    generation = (metadata.get("generation") or 0) + 1
    return generation if generation < 1 << 63 else -1 << 63


class Timestamps:
    """The current time as in objects: RFC 3339, whole seconds, UTC."""

    __slots__ = ("_env", "_minute", "_second", "_text", "_timestamp", "_until_minute")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._timestamp = env.clock.timestamp
        self._second = math.nan
        """The second that the text is for."""
        self._text = ""
        self._minute = math.nan
        """The minute that the beginning of the text is for."""
        self._until_minute = ""

    def now(self) -> str:
        """``2026-01-01T00:00:00Z``."""
        whole_seconds = self._timestamp() // 1.0
        if whole_seconds != self._second:
            self._second = whole_seconds
            minute, seconds = divmod(whole_seconds, 60.0)
            if minute != self._minute:
                self._minute = minute
                self._until_minute = datetime.datetime.fromtimestamp(whole_seconds, datetime.UTC).isoformat()[:17]
            self._text = f"{self._until_minute}{int(seconds):02}Z"
        return self._text

    def after(self, seconds: int) -> str:
        """The time in this many seconds."""
        return format_seconds(add_seconds(self._env.now(), seconds))


def format_seconds(time: datetime.datetime) -> str:
    """An aware time as RFC 3339 in UTC, in whole seconds, rounded down."""
    return time.astimezone(datetime.UTC).isoformat()[:19] + "Z"


def parse_seconds(text: str) -> datetime.datetime:
    """Parse an RFC 3339 time that this server has written."""
    return datetime.datetime.fromisoformat(text)
