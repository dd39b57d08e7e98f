"""Where in the logs each object is written: sixteen bytes for each write, found by the hash of the object's name.

Reading is bounded in time and the index in size. What is newest comes first, so that what is missing then is the oldest
part, and it is said from when on the logs were read.
"""

import asyncio
import datetime
import glob
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pilothouse.env import Env
from pilothouse.machinery.times import format_time
from pilothouse.why.evidence import Reference
from pilothouse.why.logs.files import LogFile, LogFileError, open_log
from pilothouse.why.logs.lines import AUDIT, DECISIONS, NoLine, Record, read_audit, read_decision

_BUCKETS = 4096
_MOST_ENTRIES = 12_000_000
_MOST_FILES = 1000
_MOST_ANCHORS = 100_000
_MOST_RECORDS = 2000
"""Of one object."""
_OFFSET_BITS = 48
_COLLECTIONS = frozenset({"poddisruptionbudgets.policy", "nodes"})
"""Of these all objects of a namespace can be asked for."""

_READERS: dict[str, Callable[[bytes], Record | None]] = {DECISIONS: read_decision, AUDIT: read_audit}


class LogSource(NamedTuple):
    """A file, or a pattern of file names, and which kind of log it is."""

    kind: str
    path: str


class Located(NamedTuple):
    """A record, and where it is."""

    record: Record
    location: int


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
        self.unseen: dict[str, None] = {}
        """What was not read, and why."""
        self.kinds: set[str] = set()
        """Of which kinds of log there was a write."""
        self.levels: set[str] = set()
        """Of the audit events that were writes."""
        self.first = 0
        """The time of the oldest write, in microseconds."""

    async def read(self, sources: Iterable[LogSource], *, seconds: float) -> None:
        """Read files, the newest first, for at most so many seconds. Raises ``LogFileError`` if one can't be opened."""
        deadline = self._env.monotonic() + seconds
        for kind, path in _newest_first(sources):
            if len(self._files) >= _MOST_FILES:
                self.unseen[f"{kind} {path} and older files: no more than {_MOST_FILES} files are read"] = None
                break
            self._files.append((kind, open_log(path)))
        for number, (kind, file) in enumerate(self._files):
            full = self._entries >= _MOST_ENTRIES
            if full or self._env.monotonic() >= deadline:
                self._unread(kind, file, "", f"{seconds:g} seconds" if not full else f"{_MOST_ENTRIES} writes")
                continue
            await self._read_file(number, deadline, f"{seconds:g} seconds")
            for what, count in file.damage.items():
                self.unseen[f"{kind} {file.path}: {count} damaged {'line' if count == 1 else 'lines'}: {what}"] = None
        self._sort_anchors()

    async def _read_file(self, number: int, deadline: float, limit: str) -> None:
        kind, file = self._files[number]
        reader = _READERS[kind]
        newest = 0
        for block in file.blocks():
            for offset, line in block:
                try:
                    record = reader(line)
                except NoLine as error:
                    what = str(error) if line.endswith(b"\n") else "the last one is incomplete"
                    file.damage[what] = file.damage.get(what, 0) + 1
                    continue
                if record is not None:
                    newest = record.at
                    self._add(record, number << _OFFSET_BITS | offset)
            if self._env.monotonic() >= deadline:
                self._unread(kind, file, _moment(newest), limit)
                return
            if self._entries >= _MOST_ENTRIES:
                self._unread(kind, file, _moment(newest), f"{_MOST_ENTRIES} writes")
                return
            await asyncio.sleep(0)  # a signal ends it here

    def _unread(self, kind: str, file: LogFile, at: str, limit: str) -> None:
        since = f": read up to {at}, then {limit} were over" if at else f": not read, {limit} were over before"
        self.unseen[f"{kind} {file.path}{since}"] = None

    def _add(self, record: Record, location: int) -> None:
        self.kinds.add(record.source)
        if record.level:
            self.levels.add(record.level)
        if not self.first or record.at < self.first:
            self.first = record.at
        self._note(_key(record.resource, record.namespace, record.name), location)
        if record.name and record.resource in _COLLECTIONS and record.subresource != "status":
            self._note(_collection(record.resource, record.namespace), location)
        if not record.name and record.audit_id and record.source == AUDIT:
            self._note(_request(record.audit_id), location)
        if record.version:
            self._seen_versions += 1
            if self._seen_versions % self._spacing == 0:
                self._anchors.append((record.at, record.version))
                if len(self._anchors) > _MOST_ANCHORS:
                    self._anchors = self._anchors[::2]
                    self._spacing *= 2

    def _note(self, key: int, location: int) -> None:
        bucket = self._buckets[key % _BUCKETS]
        if bucket is None:
            bucket = self._buckets[key % _BUCKETS] = array("Q")
        bucket.append(key)
        bucket.append(location)
        self._entries += 1

    def _sort_anchors(self) -> None:
        self._anchors.sort()
        highest = 0
        for at, version in self._anchors:
            highest = max(highest, version)
            self._anchor_times.append(at)
            self._anchor_versions.append(highest)

    def version_at(self, at: int) -> tuple[int, int]:
        """The highest resourceVersion that is known to have been written up to a time, and the time of that."""
        place = bisect_right(self._anchor_times, at) - 1
        return (self._anchor_versions[place], self._anchor_times[place]) if place >= 0 else (0, self.first)

    def of_object(self, reference: Reference) -> list[Located]:
        """The newest records of one object, oldest first. Of a collection, if the name is empty: what deleted it, and
        what was created in it without a name."""
        found = self._found(_key(*_parts(reference)), lambda record: _names(record) == _parts(reference))
        return sorted(found, key=lambda each: (each.record.at, each.location))

    def of_collection(self, resource: str, namespace: str) -> list[Located]:
        """The records of all objects of a resource in a namespace, of those of ``_COLLECTIONS``."""
        return sorted(
            self._found(
                _collection(resource, namespace),
                lambda record: (record.resource, record.namespace) == (resource, namespace),
            ),
            key=lambda each: (each.record.at, each.location),
        )

    def of_request(self, audit_id: str) -> Record | None:
        """The audit event of a request whose object had no name yet."""
        found = self._found(_request(audit_id), lambda record: record.audit_id == audit_id)
        return found[0].record if found else None

    def _found(self, key: int, matches: Callable[[Record], bool]) -> list[Located]:
        bucket = self._buckets[key % _BUCKETS]
        if bucket is None:
            return []
        locations = [bucket[place + 1] for place in range(0, len(bucket), 2) if bucket[place] == key]
        if len(locations) > _MOST_RECORDS:
            self.unseen[f"all but the first {_MOST_RECORDS} writes found of an object"] = None
        found = []
        for location in sorted(locations[:_MOST_RECORDS]):
            kind, _file = self._files[location >> _OFFSET_BITS]
            try:
                record = _READERS[kind](self.line(location))
            except NoLine:
                self.unseen["lines of logs that were changed while they were read"] = None
                continue
            if record is not None and matches(record):  # hashes of two names may be the same
                found.append(Located(record, location))
        return found

    def line(self, location: int) -> bytes:
        """The line at a location."""
        _kind, file = self._files[location >> _OFFSET_BITS]
        return file.line_at(location & ((1 << _OFFSET_BITS) - 1))

    def close(self) -> None:
        """Close the files."""
        for _kind, file in self._files:
            file.close()


def _newest_first(sources: Iterable[LogSource]) -> Sequence[LogSource]:
    """Every file once, patterns expanded."""
    found: dict[str, str] = {}
    for kind, path in sources:
        paths = sorted(glob.glob(path)) if glob.has_magic(path) and not Path(path).exists() else [path]
        if not paths:
            raise LogFileError(f"{path} can't be read: no file matches")
        for each in paths:
            if found.setdefault(each, kind) != kind:
                raise LogFileError(f"{each} can't be both a {kind} and a {found[each]}")
    # The order does not matter for what is found, only for what is left out when time is over.
    return sorted(
        (LogSource(kind, path) for path, kind in found.items()), key=lambda each: _changed(each.path), reverse=True
    )


def _changed(path: str) -> float:
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return 0.0  # opening it says what is the matter


def _moment(at: int) -> str:
    return format_time(datetime.datetime.fromtimestamp(max(0, at) / 1_000_000, datetime.UTC)) if at else ""


def _parts(reference: Reference) -> tuple[str, str, str]:
    return reference.resource, reference.namespace, reference.name


def _names(record: Record) -> tuple[str, str, str]:
    return record.resource, record.namespace, record.name


def _key(resource: str, namespace: str, name: str) -> int:
    return hash((resource, namespace, name)) & (2**64 - 1)


def _collection(resource: str, namespace: str) -> int:
    return hash(("every", resource, namespace)) & (2**64 - 1)


def _request(audit_id: str) -> int:
    return hash(("request", audit_id)) & (2**64 - 1)
