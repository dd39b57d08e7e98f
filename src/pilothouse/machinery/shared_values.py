"""Deduplicates equal values in memory: thousands of pods have the same requests, behavior, and state."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_MAX_VALUES = 1024
_MAX_KEY_LENGTH = 4096
"""The characters of the largest keys that are cached: those of an image or a command may be as long as an object."""


class SharedValues(Generic[T]):
    """Caches up to ``_MAX_VALUES`` values by a key; then it is cleared. Values must be immutable, and no longer than
    their keys; those with long keys are not cached."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Hashable, T] = {}

    def share(self, key: Hashable, value: T) -> T:
        """The value that was cached with this key, if it is equal, else ``value``."""
        cached = self._known.get(key)
        if cached is not None and cached == value:
            return cached
        if _remaining_characters(key, _MAX_KEY_LENGTH) < 0:
            return value
        if len(self._known) >= _MAX_VALUES:
            self._known.clear()
        self._known[key] = value
        return value


def _remaining_characters(key: object, characters: int) -> int:
    """What remains of a number of characters, less than 0 if the key has more. Counts no further than that."""
    if isinstance(key, str | bytes):
        return characters - len(key)
    if isinstance(key, msgspec.Struct):
        key = msgspec.structs.astuple(key)
    if isinstance(key, tuple | frozenset):
        for part in key:
            characters = _remaining_characters(part, characters) - 1
            if characters < 0:
                break
    return characters
