"""``ConversionCache``: the last stored objects as webhooks have converted them.

Lists, watches and the reading of what a write changes come here first, as upstream they come to the watch cache that
every version has of its own (apiserver ``pkg/storage/cacher``, v0.36); a get without a resource version calls the
webhook.
"""

from typing import Any

MOST_BYTES = 64 << 20


class ConversionCache:
    """Converted objects by their stored bytes; the least recently used are dropped. Stored bytes contain the resource
    version, so an entry is never out of date."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._shown: dict[tuple[Any, bytes], bytes] = {}
        self._size = 0

    def get(self, target: Any, value: bytes) -> bytes | None:
        """The stored object as ``target`` shows it, if it is known."""
        shown = self._shown.pop((target, value), None)
        if shown is not None:
            self._shown[target, value] = shown
        return shown

    def put(self, target: Any, value: bytes, shown: bytes) -> None:
        """Keep what a webhook has made of a stored object."""
        size = len(value) + len(shown)
        if size > self._most // 8:
            return
        known = self._shown.pop((target, value), None)
        if known is not None:
            self._size -= len(value) + len(known)
        self._shown[target, value] = shown
        self._size += size
        while self._size > self._most:
            (oldest_target, oldest), gone = next(iter(self._shown.items()))
            del self._shown[oldest_target, oldest]
            self._size -= len(oldest) + len(gone)

    def forget(self, targets: set[Any]) -> None:
        """Drop what these show: their definition has changed."""
        for target, value in [key for key in self._shown if key[0] in targets]:
            self._size -= len(value) + len(self._shown.pop((target, value)))
