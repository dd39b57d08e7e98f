"""``ConversionCache``: stored objects as webhooks have converted them.

Used by lists, watches, and reads before a write, which upstream serves from the watch cache of each version (apiserver
``pkg/storage/cacher``, v0.36). A get without a resource version calls the webhook.
"""

from typing import Any

MOST_BYTES = 64 << 20


class ConversionCache:
    """An LRU cache of converted objects by stored bytes. Stored bytes contain the resource version, so entries never
    become stale."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._shown: dict[tuple[Any, bytes], bytes] = {}
        self._size = 0

    def get(self, target: Any, value: bytes) -> bytes | None:
        """The stored object in the version of ``target``, if it is cached."""
        converted = self._shown.pop((target, value), None)
        if converted is not None:
            self._shown[target, value] = converted
        return converted

    def put(self, target: Any, value: bytes, converted: bytes) -> None:
        """Add the conversion of a stored object."""
        size = len(value) + len(converted)
        if size > self._most // 8:
            return
        cached = self._shown.pop((target, value), None)
        if cached is not None:
            self._size -= len(value) + len(cached)
        self._shown[target, value] = converted
        self._size += size
        while self._size > self._most:
            (oldest_target, oldest_value), evicted = next(iter(self._shown.items()))
            del self._shown[oldest_target, oldest_value]
            self._size -= len(oldest_value) + len(evicted)

    def forget(self, targets: set[Any]) -> None:
        """Remove the entries of these versions, after a change of their definition."""
        for target, value in [key for key in self._shown if key[0] in targets]:
            self._size -= len(value) + len(self._shown.pop((target, value)))
