"""One decode per event for all programs of one process.

The local transport hands every watcher of a resource the same bytes object per event. ``DecodeMemo`` remembers what a
line decoded to, per view, so that manager, scheduler and nodes share one frozen object instead of making three. Bytes
objects remember their hash and compare by identity first: a hit costs a dictionary lookup.
"""

from typing import Any

import msgspec


class DecodeMemo:
    """Remembers the last events of one process. Shared by the clients that are handed the same one.

    Bounded by ``capacity`` events for each view; the oldest are forgotten first. What is forgotten is decoded again.
    """

    __slots__ = ("_by_view", "capacity", "hits", "misses")

    def __init__(self, capacity: int = 4096) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._by_view: dict[tuple[Any, bool], dict[bytes, msgspec.Struct]] = {}

    def get(self, view: type[Any], keep_raw: bool, line: bytes) -> Any:
        """What the line decoded to, or None."""
        events = self._by_view.get((view, keep_raw))
        found = events.get(line) if events is not None else None
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, view: type[Any], keep_raw: bool, line: bytes, event: msgspec.Struct) -> None:
        """Remember what the line decoded to."""
        events = self._by_view.setdefault((view, keep_raw), {})
        if len(events) >= self.capacity:
            # Dictionaries keep insertion order: the first key is the oldest event.
            del events[next(iter(events))]
        events[line] = event
