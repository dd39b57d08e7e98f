"""An index of the writes in logs by the hash of the object's name, with 16 bytes for each write. Time of reading and
size of the index are bounded. The newest logs are read first; the time up to which they were read is reported in
``unseen``."""

import asyncio
import datetime
import glob
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pilothouse.env import Env
from pilothouse.machinery.times import format_time
from pilothouse.why.evidence import Reference
from pilothouse.why.logs.files import LogFile, LogFileError, open_log
from pilothouse.why.logs.lines import AUDIT, DECISIONS, InvalidLineError, Record, read_audit, read_decision

_BUCKETS = 4096
_MAX_ENTRIES = 12_000_000
_MAX_FILES = 1000
_MAX_ANCHORS = 100_000
_MAX_FIRST_OBJECTS = 10_000
_MAX_RECORDS = 2000
"""Records read of one object."""
_OFFSET_BITS = 48
_COLLECTIONS = frozenset({"poddisruptionbudgets.policy", "nodes"})
"""Resources with an index of all objects of a namespace."""
_FIRST_OBJECTS = frozenset(
    {
        ("csidrivers.storage.k8s.io", "", "simulated.pilothouse.dev"),
        ("serviceaccounts", "kube-system", "default"),
        ("configmaps", "kube-system", "kube-root-ca.crt"),
    }
)
"""Objects that are created at the beginning of every cluster. One that is created again, with a lower resourceVersion
than a write before, is of another cluster: logs are appended to a file that exists."""

_READERS: dict[str, Callable[[bytes], Record | None]] = {DECISIONS: read_decision, AUDIT: read_audit}


class LogSource(NamedTuple):
    """A kind of log, and the path or glob pattern of its files."""

    kind: str
    path: str


class Located(NamedTuple):
    """A record and its location."""

    record: Record
    location: int


class _FirstObject(NamedTuple):
    at: int
    key: tuple[str, str, str]
    uid: str
    version: int


class LogIndex:
    """The writes in some logs. ``read`` it first; ``close`` it at the end."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._files: list[tuple[str, LogFile]] = []
        self._buckets: list[array[int] | None] = [None] * _BUCKETS
        self._entries = 0
        self._anchor_times: list[int] = []
        self._anchor_versions: list[int] = []
        self._anchors: list[tuple[int, int]] = []
        self._spacing = 1
        self._seen_versions = 0
        self._highest = 0
        self._first_objects: list[_FirstObject] = []
        self._since = 0
        """When the newest cluster began, in microseconds; 0 if the logs are of one."""
        self.unseen: dict[str, None] = {}
        """What was not read, and why."""
        self.kinds: set[str] = set()
        """The kinds of logs with at least one write."""
        self.levels: set[str] = set()
        """The levels of the audit events of writes."""
        self.first = 0
        """The time of the oldest write, in microseconds."""

    async def read(self, sources: Iterable[LogSource], *, seconds: float) -> None:
        """Read files, the newest first, for at most ``seconds``. Raises ``LogFileError`` if one can't be opened."""
        deadline = self._env.monotonic() + seconds
        for kind, path in _newest_first(sources):
            if len(self._files) >= _MAX_FILES:
                self.unseen[f"{kind} {path} and older files: no more than {_MAX_FILES} files are read"] = None
                break
            self._files.append((kind, open_log(path)))
        for number, (kind, file) in enumerate(self._files):
            full = self._entries >= _MAX_ENTRIES
            if full or self._env.monotonic() >= deadline:
                self._report_unread(kind, file, "", f"{seconds:g} seconds" if not full else f"{_MAX_ENTRIES} writes")
                continue
            await self._read_file(number, deadline, f"{seconds:g} seconds")
            for damage, count in file.damage.items():
                self.unseen[f"{kind} {file.path}: {count} damaged {'line' if count == 1 else 'lines'}: {damage}"] = None
        self._anchors.sort()
        self._leave_out_older_clusters()
        self._sort_anchors()

    async def _read_file(self, number: int, deadline: float, limit: str) -> None:
        kind, file = self._files[number]
        reader = _READERS[kind]
        newest = 0
        for block in file.blocks():
            for offset, line in block:
                try:
                    record = reader(line)
                except InvalidLineError as error:
                    damage = str(error) if line.endswith(b"\n") else "the last one is incomplete"
                    file.damage[damage] = file.damage.get(damage, 0) + 1
                    continue
                if record is not None:
                    newest = record.at
                    self._add(record, number << _OFFSET_BITS | offset)
            if self._env.monotonic() >= deadline:
                self._report_unread(kind, file, _format_microseconds(newest), limit)
                return
            if self._entries >= _MAX_ENTRIES:
                self._report_unread(kind, file, _format_microseconds(newest), f"{_MAX_ENTRIES} writes")
                return
            await asyncio.sleep(0)  # lets a signal cancel

    def _report_unread(self, kind: str, file: LogFile, at: str, limit: str) -> None:
        since = f": read up to {at}, then {limit} were over" if at else f": not read, {limit} were over before"
        self.unseen[f"{kind} {file.path}{since}"] = None

    def _add(self, record: Record, location: int) -> None:
        self.kinds.add(record.source)
        if record.level:
            self.levels.add(record.level)
        if not self.first or record.at < self.first:
            self.first = record.at
        self._add_entry(_object_hash(record.resource, record.namespace, record.name), location)
        if record.name and record.resource in _COLLECTIONS and record.subresource != "status":
            self._add_entry(_collection_hash(record.resource, record.namespace), location)
        if (
            record.verb == "create"
            and not record.subresource
            and record.source == DECISIONS
            and record.cause is not None
        ):
            self._add_entry(_creator_hash(record.cause.key), location)
        if (
            record.verb == "create"
            and _record_key(record) in _FIRST_OBJECTS
            and not record.subresource
            and record.version
            and record.uid
            and len(self._first_objects) < _MAX_FIRST_OBJECTS
        ):
            self._first_objects.append(_FirstObject(record.at, _record_key(record), record.uid, record.version))
        if not record.name and record.audit_id and record.source == AUDIT:
            self._add_entry(_request_hash(record.audit_id), location)
        if record.version:
            self._highest = max(self._highest, record.version)
            self._seen_versions += 1
            if self._seen_versions % self._spacing == 0:
                self._anchors.append((record.at, record.version))
                if len(self._anchors) > _MAX_ANCHORS:
                    self._anchors = self._anchors[::2]
                    self._spacing *= 2

    def _add_entry(self, key: int, location: int) -> None:
        bucket = self._buckets[key % _BUCKETS]
        if bucket is None:
            bucket = self._buckets[key % _BUCKETS] = array("Q")
        bucket.append(key)
        bucket.append(location)
        self._entries += 1

    def _leave_out_older_clusters(self) -> None:
        """Limit the index to the newest cluster of the logs: objects of different clusters have the same names."""
        begins, seen = [0], dict[tuple[str, str, str], str]()
        for first in sorted(self._first_objects):
            if seen.setdefault(first.key, first.uid) == first.uid:
                continue
            start, end = (bisect_left(self._anchors, (at, 0)) for at in (begins[-1], first.at))
            if max((version for _at, version in self._anchors[start:end]), default=0) > first.version:
                begins.append(first.at)
                seen.clear()
            seen[first.key] = first.uid
        if len(begins) == 1:
            return
        self._since = self.first = begins[-1]
        self._anchors = self._anchors[bisect_left(self._anchors, (self._since, 0)) :]
        self._highest = max((version for _at, version in self._anchors), default=0)
        begin = _format_microseconds(self._since)
        note = f"the logs have those of {len(begins)} clusters, and the last began then"
        self.unseen[f"writes before {begin}: {note}"] = None

    def _sort_anchors(self) -> None:
        highest = 0
        for at, version in self._anchors:
            highest = max(highest, version)
            self._anchor_times.append(at)
            self._anchor_versions.append(highest)

    def version_at(self, at: int) -> tuple[int, int]:
        """The highest recorded resourceVersion at or before a time, and its time."""
        index = bisect_right(self._anchor_times, at) - 1
        return (self._anchor_versions[index], self._anchor_times[index]) if index >= 0 else (0, self.first)

    def of_object(self, reference: Reference) -> list[Located]:
        """The newest records of one object, oldest first. With an empty name, those of the collection:
        deletecollection, and creates with generateName."""
        records = self._read_records(
            _object_hash(*_reference_key(reference)), lambda record: _record_key(record) == _reference_key(reference)
        )
        return sorted(records, key=lambda located: (located.record.at, located.location))

    def of_collection(self, resource: str, namespace: str) -> list[Located]:
        """The records of all objects of a resource of ``_COLLECTIONS`` in a namespace."""
        return sorted(
            self._read_records(
                _collection_hash(resource, namespace),
                lambda record: (record.resource, record.namespace) == (resource, namespace),
            ),
            key=lambda located: (located.record.at, located.location),
        )

    def created_for(self, key: str) -> list[Located]:
        """The records of decision logs about objects that were created in a sync of a key, oldest first."""
        records = self._read_records(
            _creator_hash(key),
            lambda record: (
                record.verb == "create"
                and not record.subresource
                and record.cause is not None
                and record.cause.key == key
            ),
        )
        return sorted(records, key=lambda located: (located.record.at, located.location))

    @property
    def newest_version(self) -> int:
        """The highest resourceVersion of the newest cluster that was read; 0 if there is none."""
        return self._highest

    def of_request(self, audit_id: str) -> Record | None:
        """The audit event of a create with generateName."""
        records = self._read_records(_request_hash(audit_id), lambda record: record.audit_id == audit_id)
        return records[0].record if records else None

    def _read_records(self, key: int, matches: Callable[[Record], bool]) -> list[Located]:
        bucket = self._buckets[key % _BUCKETS]
        if bucket is None:
            return []
        locations = [bucket[index + 1] for index in range(0, len(bucket), 2) if bucket[index] == key]
        if len(locations) > _MAX_RECORDS:
            self.unseen[f"all but the first {_MAX_RECORDS} writes found of an object"] = None
        records = []
        for location in sorted(locations[:_MAX_RECORDS]):
            kind, _file = self._files[location >> _OFFSET_BITS]
            try:
                record = _READERS[kind](self.line(location))
            except InvalidLineError:
                self.unseen["lines of logs that were changed while they were read"] = None
                continue
            if record is not None and record.at >= self._since and matches(record):  # hashes may collide
                records.append(Located(record, location))
        return records

    def line(self, location: int) -> bytes:
        """The line at a location."""
        _kind, file = self._files[location >> _OFFSET_BITS]
        return file.line_at(location & ((1 << _OFFSET_BITS) - 1))

    def close(self) -> None:
        """Close the files."""
        for _kind, file in self._files:
            file.close()


def _newest_first(sources: Iterable[LogSource]) -> Sequence[LogSource]:
    """Expand patterns, drop duplicates, and sort by modification time."""
    kinds: dict[str, str] = {}
    for kind, path in sources:
        paths = sorted(glob.glob(path)) if glob.has_magic(path) and not Path(path).exists() else [path]
        if not paths:
            raise LogFileError(f"{path} can't be read: no file matches")
        for file_path in paths:
            if kinds.setdefault(file_path, kind) != kind:
                raise LogFileError(f"{file_path} can't be both a {kind} and a {kinds[file_path]}")
    # The order only decides which files are not read when the time is over.
    return sorted(
        (LogSource(kind, path) for path, kind in kinds.items()),
        key=lambda file_path: _modified_at(file_path.path),
        reverse=True,
    )


def _modified_at(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0  # reported when it is opened


def _format_microseconds(at: int) -> str:
    return format_time(datetime.datetime.fromtimestamp(max(0, at) / 1_000_000, datetime.UTC)) if at else ""


def _reference_key(reference: Reference) -> tuple[str, str, str]:
    return reference.resource, reference.namespace, reference.name


def _record_key(record: Record) -> tuple[str, str, str]:
    return record.resource, record.namespace, record.name


def _object_hash(resource: str, namespace: str, name: str) -> int:
    return hash((resource, namespace, name)) & (2**64 - 1)


def _collection_hash(resource: str, namespace: str) -> int:
    return hash(("every", resource, namespace)) & (2**64 - 1)


def _creator_hash(key: str) -> int:
    return hash(("created for", key)) & (2**64 - 1)


def _request_hash(audit_id: str) -> int:
    return hash(("request", audit_id)) & (2**64 - 1)
