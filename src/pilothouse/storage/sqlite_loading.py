"""Builds records and history from the rows of a store's file: verifies them, and finds rows that are no longer needed.

Rows are sorted by revision. The version before a change is the previous row of its object, so no value is stored twice.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pilothouse.env import Log
from pilothouse.machinery.causes import Origin
from pilothouse.storage.errors import DamagedStore
from pilothouse.storage.records import Change, Record
from pilothouse.storage.sqlite_format import WRITTEN, checksum, floor_checksum
from pilothouse.storage.watchers import resource_end

_log = Log("storage")
_decode_origin = msgspec.json.Decoder(Origin).decode

Floors = Mapping[str, tuple[int, float | None]]
"""By the prefix of a resource, empty for all of them: the revision at or below which there is no history, and when that
revision was current."""


class Loaded(msgspec.Struct, frozen=True):
    """The initial content of a store."""

    revision: int = 0
    records: list[Record] = []
    changes: list[Change] = []
    """Oldest first. For each resource complete above its floor."""
    times: list[tuple[float, int]] = []
    """(seconds since the epoch, latest revision at that time), oldest first; times are monotonic."""
    floors: dict[str, int] = {}
    superseded: list[int] = []
    """Revisions of rows that are no longer needed."""


class Loading:
    """Processes one row after another. Raises ``DamagedStore`` for a row that was not written like this."""

    def __init__(self, path: Path, floors: Iterable[tuple[str, int, float | None, int]]) -> None:
        self._path = path
        self._floors: dict[str, int] = {}
        self._times: list[tuple[float, int]] = []
        for prefix, revision, timestamp, crc in floors:
            if crc != floor_checksum(prefix, revision, timestamp):
                raise DamagedStore(path, "where its history begins is not what was written")
            self._floors[prefix] = revision
            if not prefix and timestamp is not None:
                self._times.append((timestamp, revision))
        self._compacted = self._floors.get("", 0)
        self._newest: dict[int, Record] = {}
        """The objects by the revisions of their creation."""
        self._history: dict[str, list[Change]] = {}
        self._superseded: list[int] = []
        self._revision = 0

    def add(
        self,
        revision: int,
        created: int,
        kind: int,
        timestamp: float | None,
        key: str,
        crc: int,
        origin: bytes | None,
        value: bytes | None,
    ) -> None:
        """Add the next row."""
        if crc != checksum(revision, created, kind, timestamp, key, origin, value):
            raise DamagedStore(self._path, f"the object under {key!r} is not what was written")
        self._revision = revision
        old = self._newest.get(created)
        prefix = key[: resource_end(key)]
        is_deleted = kind != WRITTEN
        if revision > max(self._compacted, self._floors.get(prefix, 0)):
            if (revision != created and old is None) or value is None:
                _log.warning(
                    "Part of the history is missing in the store", store=str(self._path), resource=prefix, upto=revision
                )
                self._forget(prefix, revision)
            else:
                self._history.setdefault(prefix, []).append(_change(revision, kind, key, value, old, origin))
                self._note_time(timestamp, revision)
                old = None  # The history needs it.
        if old is not None:
            self._superseded.append(old.revision)
        if is_deleted:
            self._newest.pop(created, None)
            if revision <= max(self._compacted, self._floors.get(prefix, 0)):
                self._superseded.append(revision)
        elif value is None:
            raise DamagedStore(self._path, f"the object under {key!r} is not what was written")
        else:
            self._newest[created] = Record(key, value, revision, created)

    def _forget(self, prefix: str, revision: int) -> None:
        """Remove the history of a resource up to this revision."""
        self._floors[prefix] = revision
        for change in self._history.pop(prefix, ()):
            if change.old is not None:
                self._superseded.append(change.old.revision)
            if change.type == "DELETED":
                self._superseded.append(change.revision)

    def _note_time(self, timestamp: float | None, revision: int) -> None:
        if timestamp is None:
            return
        times = self._times
        if times and timestamp <= times[-1][0]:
            times[-1] = (times[-1][0], revision)  # of the same commit, or the clock was set back
        else:
            times.append((timestamp, revision))

    def done(self) -> Loaded:
        """The result of all rows."""
        records: dict[str, Record] = {}
        for record in self._newest.values():
            if record.key in records:
                raise DamagedStore(self._path, f"there are two objects under {record.key!r}")
            records[record.key] = record
        changes = [change for history in self._history.values() for change in history]
        changes.sort(key=lambda change: change.revision)
        floors = {prefix: min(revision, self._revision) for prefix, revision in self._floors.items()}
        superseded = [revision for revision in self._superseded if revision != self._revision]
        return Loaded(self._revision, list(records.values()), changes, self._times, floors, superseded)


def _change(revision: int, kind: int, key: str, value: bytes, old: Record | None, origin: bytes | None) -> Change:
    change = Change(revision, key, "ADDED" if old is None else "MODIFIED", value, old)
    if kind != WRITTEN:
        change.type = "DELETED"
    if origin is not None:
        change.origin = _decode_origin(origin)
    return change
