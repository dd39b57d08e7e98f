"""A sorted collection of many keys: sorted runs of bounded length, with bisection.

An insertion or removal moves at most one run, never the whole collection, and a range is read without sorting. Python
orders strings by code point, which is the order of their UTF-8 bytes and of lists in etcd.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator

RUN = 512
"""Runs are split at twice this length and joined below a quarter of it."""


class OrderedKeys:
    """Distinct keys in order. Ranges exclude both ends: ``after < key < before``; ``before=None`` has no upper end."""

    __slots__ = ("_last", "_runs", "_size")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        ordered = sorted(keys)
        self._runs = [ordered[i : i + RUN] for i in range(0, len(ordered), RUN)]
        self._last = [run[-1] for run in self._runs]
        self._size = len(ordered)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        for run in self._runs:
            yield from run

    def add(self, key: str) -> None:
        """Insert a key that is absent."""
        self._size += 1
        last_keys = self._last
        if not last_keys or key > last_keys[-1]:
            # Names are often inserted in order (web-0, web-1, ...): most keys are appended.
            if not last_keys:
                self._runs.append([key])
                last_keys.append(key)
                return
            run_index = len(last_keys) - 1
            run = self._runs[run_index]
            run.append(key)
            last_keys[run_index] = key
        else:
            run_index = bisect_left(last_keys, key)
            run = self._runs[run_index]
            insort(run, key)
        if len(run) > 2 * RUN:
            self._runs[run_index : run_index + 1] = [run[:RUN], run[RUN:]]
            last_keys[run_index : run_index + 1] = [run[RUN - 1], run[-1]]

    def remove(self, key: str) -> None:
        """Remove a key that is present."""
        last_keys, runs = self._last, self._runs
        run_index = bisect_left(last_keys, key)
        run = runs[run_index]
        index = bisect_left(run, key)
        assert run[index] == key, f"key {key!r} is removed only once"
        del run[index]
        self._size -= 1
        if not run:
            del runs[run_index], last_keys[run_index]
            return
        last_keys[run_index] = run[-1]
        if len(run) < RUN // 4 and len(runs) > 1:
            merged_index = max(run_index - 1, 0)
            if len(runs[merged_index]) + len(runs[merged_index + 1]) <= RUN:
                runs[merged_index : merged_index + 2] = [runs[merged_index] + runs[merged_index + 1]]
                del last_keys[merged_index]

    def count(self, after: str, before: str | None) -> int:
        """The number of keys in the range."""
        upper = self._size if before is None else self._rank(*self._upper(before))
        return max(0, upper - self._rank(*self._lower(after)))

    def range(self, after: str, before: str | None, limit: int = 0) -> list[str]:
        """The keys of the range in order, at most ``limit`` of them unless it is 0."""
        run_index, index = self._lower(after)
        end_run, end_index = self._upper(before)
        keys: list[str] = []
        while run_index <= end_run and run_index < len(self._runs):
            run = self._runs[run_index]
            stop = end_index if run_index == end_run else len(run)
            if limit:
                stop = min(stop, index + limit - len(keys))
            keys += run[index:stop]
            if limit and len(keys) >= limit:
                break
            run_index, index = run_index + 1, 0
        return keys

    def _lower(self, after: str) -> tuple[int, int]:
        run_index = bisect_left(self._last, after)
        return (
            (run_index, bisect_right(self._runs[run_index], after)) if run_index < len(self._runs) else (run_index, 0)
        )

    def _upper(self, before: str | None) -> tuple[int, int]:
        if before is None:
            return len(self._runs), 0
        run_index = bisect_left(self._last, before)
        return (
            (run_index, bisect_left(self._runs[run_index], before)) if run_index < len(self._runs) else (run_index, 0)
        )

    def _rank(self, run_at: int, index: int) -> int:
        return sum(map(len, self._runs[:run_at])) + index
