"""``ConversionCache``: stored objects that webhooks have converted.

Used by lists, watches, and reads before a write, which upstream serves from the watch cache of each version (apiserver
``pkg/storage/cacher``, v0.36). A get without a resource version calls the webhook.
"""

from typing import Any

MAX_BYTES = 64 << 20


class ConversionCache:
    """An LRU cache of converted objects by stored bytes. Stored bytes contain the resource version, so entries never
    become stale."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: dict[tuple[Any, bytes], bytes] = {}
        self._size = 0

    def get(self, target: Any, value: bytes) -> bytes | None:
        """The stored object in the version of ``target``, if it is cached."""
        converted = self._entries.pop((target, value), None)
        if converted is not None:
            self._entries[target, value] = converted
        return converted

    def put(self, target: Any, value: bytes, converted: bytes) -> None:
        """Add the conversion of a stored object."""
        size = len(value) + len(converted)
        if size > self._max_bytes // 8:
            return
        cached = self._entries.pop((target, value), None)
        if cached is not None:
            self._size -= len(value) + len(cached)
        self._entries[target, value] = converted
        self._size += size
        while self._size > self._max_bytes:
            (oldest_target, oldest_value), evicted = next(iter(self._entries.items()))
            del self._entries[oldest_target, oldest_value]
            self._size -= len(oldest_value) + len(evicted)

    def forget(self, targets: set[Any]) -> None:
        """Remove the entries of these versions, after a change of their definition."""
        for target, value in [key for key in self._entries if key[0] in targets]:
            self._size -= len(value) + len(self._entries.pop((target, value)))
