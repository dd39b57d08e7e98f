"""``Ordered``: keys of rows, sorted incrementally. A change costs two binary searches."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any

SortKey = tuple[Any, ...]


class Ordered:
    """The keys sorted by ``sort_key``; keys for which it returns None are left out. Equal ones are sorted by key."""

    def __init__(self, sort_key: Callable[[str], SortKey | None]) -> None:
        self._sort_key = sort_key
        self._sort_keys: dict[str, SortKey] = {}
        self._order: list[tuple[SortKey, str]] = []

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> str:
        return self._order[index][1]

    def rebuild(self, keys: Iterable[str]) -> None:
        """Sort all again, after a change of order or filter."""
        self._sort_keys = {key: sort_key for key in keys if (sort_key := self._sort_key(key)) is not None}
        self._order = sorted((sort_key, key) for key, sort_key in self._sort_keys.items())

    def update(self, keys: Iterable[str]) -> None:
        """Update the keys of changed or removed rows."""
        for key in keys:
            old, new = self._sort_keys.get(key), self._sort_key(key)
            if old == new:
                continue
            if old is not None:
                del self._order[bisect_left(self._order, (old, key))]
                del self._sort_keys[key]
            if new is not None:
                insort(self._order, (new, key))
                self._sort_keys[key] = new

    def index(self, key: str) -> int:
        """The index of a key; -1 if it is left out."""
        sort_key = self._sort_keys.get(key)
        return -1 if sort_key is None else bisect_left(self._order, (sort_key, key))
