"""One decode per event for all programs of one process.

The local transport passes the same bytes object of an event to all watchers of a resource. ``DecodeMemo`` caches the
decoded event per view, so that manager, scheduler and nodes share one frozen object instead of creating three. Bytes
objects cache their hash and are compared by identity first: a hit costs a dictionary lookup.
"""

from typing import Any

import msgspec

HALF_BYTES = 4 * 1024 * 1024


class DecodeMemo:
    """Caches the last events of one process. Shared by all clients to which it is passed.

    Bounded by ``capacity`` events per view, and by ``HALF_BYTES`` for each half of them, of which at least the last is
    kept. Events that were dropped are decoded again.
    """

    __slots__ = ("_by_view", "capacity", "hits", "misses")

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._by_view: dict[tuple[Any, bool], _Events] = {}

    def get(self, view: type[Any], keep_raw: bool, line: bytes) -> Any:
        """The decoded event of the line, or None."""
        events = self._by_view.get((view, keep_raw))
        event = None
        if events is not None:
            event = events.newer.get(line)
            if event is None:
                event = events.older.get(line)
        if event is None:
            self.misses += 1
        else:
            self.hits += 1
        return event

    def put(self, view: type[Any], keep_raw: bool, line: bytes, event: msgspec.Struct) -> None:
        """Store the decoded event of the line."""
        events = self._by_view.get((view, keep_raw))
        if events is None:
            events = self._by_view[view, keep_raw] = _Events()
        if len(events.newer) * 2 >= self.capacity or events.size >= HALF_BYTES:
            # Drop one half at once: finding the oldest key of a dict would pass over all deleted ones.
            events.older, events.newer, events.size = events.newer, {}, 0
        events.newer[line] = event
        events.size += len(line)


class _Events:
    """The events of one view in two halves."""

    __slots__ = ("newer", "older", "size")

    def __init__(self) -> None:
        self.newer: dict[bytes, msgspec.Struct] = {}
        self.older: dict[bytes, msgspec.Struct] = {}
        self.size = 0
        """Bytes of the lines of the newer ones."""
