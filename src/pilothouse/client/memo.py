"""One decode per event for all programs of one process.

The local transport hands every watcher of a resource the same bytes object per event. ``DecodeMemo`` remembers what a
line decoded to, per view, so that manager, scheduler and nodes share one frozen object instead of making three. Bytes
objects remember their hash and compare by identity first: a hit costs a dictionary lookup.
"""

from typing import Any

import msgspec


class DecodeMemo:
    """Remembers the last events of one process. Shared by the clients that are handed the same one.

    Bounded by ``capacity`` events for each view, the oldest are forgotten; at least half as many are remembered. What
    is forgotten is decoded again.
    """

    __slots__ = ("_by_view", "capacity", "hits", "misses")

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._by_view: dict[tuple[Any, bool], _Events] = {}

    def get(self, view: type[Any], keep_raw: bool, line: bytes) -> Any:
        """What the line decoded to, or None."""
        events = self._by_view.get((view, keep_raw))
        found = None
        if events is not None:
            found = events.newer.get(line)
            if found is None:
                found = events.older.get(line)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, view: type[Any], keep_raw: bool, line: bytes, event: msgspec.Struct) -> None:
        """Remember what the line decoded to."""
        events = self._by_view.get((view, keep_raw))
        if events is None:
            events = self._by_view[view, keep_raw] = _Events()
        if len(events.newer) * 2 >= self.capacity:
            # Halves are dropped whole: finding the oldest key of a dict means passing over all that were deleted.
            events.older, events.newer = events.newer, {}
        events.newer[line] = event


class _Events:
    """The events of one view in two halves."""

    __slots__ = ("newer", "older")

    def __init__(self) -> None:
        self.newer: dict[bytes, msgspec.Struct] = {}
        self.older: dict[bytes, msgspec.Struct] = {}
