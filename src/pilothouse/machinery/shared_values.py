"""Deduplicates equal values in memory: thousands of pods have the same requests, behavior, and state."""

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST = 1024


class SharedValues(Generic[T]):
    """Caches up to ``_MOST`` values by a key; then it is cleared. Values must be immutable."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, T] = {}

    def share(self, key: Hashable, value: T) -> T:
        """The value that was cached with this key, if it is equal, else ``value``."""
        found = self._known.get(key)
        if found is not None and found == value:
            return found
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = value
        return value
