"""One decode per event for all programs of one process.

Manager, scheduler and nodes share one frozen object instead of decoding three. The local transport passes most events
as such, and readers keep what they have decoded with the event (``Watch._of_shared``). Other events are lines of JSON,
the same bytes object for all watchers of a resource (large objects, partial objects, and all events for programs in
another process): ``DecodeMemo`` caches the decoded event per view. Bytes objects cache their hash and are compared by
identity first: a hit costs a dictionary lookup.
"""

from collections.abc import Hashable
from typing import Any

import msgspec

HALF_BYTES = 4 * 1024 * 1024
LARGE_BYTES = 32 * 1024
"""Larger lines are kept apart, those of all views together: decoded they may need ten times their size."""
LARGE_HALF_BYTES = 2 * 1024 * 1024


class DecodeMemo:
    """Caches the last events of one process. Shared by all clients to which it is passed.

    Bounded by ``capacity`` events per view, and by ``HALF_BYTES`` for each half of them, of which at least the last is
    kept. Events that were dropped are decoded again. The large ones of all views are bounded together.
    """

    __slots__ = ("_by_view", "_large", "capacity", "hits", "misses")

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._by_view: dict[tuple[Any, bool], _Events] = {}
        self._large = _Events()

    def get(self, view: type[Any], keep_raw: bool, line: bytes) -> Any:
        """The decoded event of the line, or None."""
        event = None
        if len(line) > LARGE_BYTES:
            event = self._large.get((view, keep_raw, line))
        else:
            events = self._by_view.get((view, keep_raw))
            event = None if events is None else events.get(line)
        if event is None:
            self.misses += 1
        else:
            self.hits += 1
        return event

    def put(self, view: type[Any], keep_raw: bool, line: bytes, event: msgspec.Struct) -> None:
        """Store the decoded event of the line."""
        if len(line) > LARGE_BYTES:
            events, half = self._large, LARGE_HALF_BYTES
            key: Hashable = (view, keep_raw, line)
        else:
            key, half = line, HALF_BYTES
            known = self._by_view.get((view, keep_raw))
            events = known if known is not None else self._by_view.setdefault((view, keep_raw), _Events())
        if len(events.newer) * 2 >= self.capacity or events.size >= half:
            # Drop one half at once: finding the oldest key of a dict would pass over all deleted ones.
            events.older, events.newer, events.size = events.newer, {}, 0
        events.newer[key] = event
        events.size += len(line)


class _Events:
    """The events of one view in two halves."""

    __slots__ = ("newer", "older", "size")

    def __init__(self) -> None:
        self.newer: dict[Hashable, msgspec.Struct] = {}
        self.older: dict[Hashable, msgspec.Struct] = {}
        self.size = 0
        """Bytes of the lines of the newer ones."""

    def get(self, key: Hashable) -> msgspec.Struct | None:
        """The event of a key."""
        event = self.newer.get(key)
        return event if event is not None else self.older.get(key)
