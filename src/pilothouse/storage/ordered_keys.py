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
        last = self._last
        if not last or key > last[-1]:
            # Names are often inserted in order (web-0, web-1, ...): most keys are appended.
            if not last:
                self._runs.append([key])
                last.append(key)
                return
            at = len(last) - 1
            run = self._runs[at]
            run.append(key)
            last[at] = key
        else:
            at = bisect_left(last, key)
            run = self._runs[at]
            insort(run, key)
        if len(run) > 2 * RUN:
            self._runs[at : at + 1] = [run[:RUN], run[RUN:]]
            last[at : at + 1] = [run[RUN - 1], run[-1]]

    def remove(self, key: str) -> None:
        """Remove a key that is present."""
        last, runs = self._last, self._runs
        at = bisect_left(last, key)
        run = runs[at]
        index = bisect_left(run, key)
        assert run[index] == key, f"key {key!r} is removed only once"
        del run[index]
        self._size -= 1
        if not run:
            del runs[at], last[at]
            return
        last[at] = run[-1]
        if len(run) < RUN // 4 and len(runs) > 1:
            left = max(at - 1, 0)
            if len(runs[left]) + len(runs[left + 1]) <= RUN:
                runs[left : left + 2] = [runs[left] + runs[left + 1]]
                del last[left]

    def count(self, after: str, before: str | None) -> int:
        """The number of keys in the range."""
        upper = self._size if before is None else self._rank(*self._upper(before))
        return max(0, upper - self._rank(*self._lower(after)))

    def range(self, after: str, before: str | None, limit: int = 0) -> list[str]:
        """The keys of the range in order, at most ``limit`` of them unless it is 0."""
        run_at, index = self._lower(after)
        end_run, end_index = self._upper(before)
        found: list[str] = []
        while run_at <= end_run and run_at < len(self._runs):
            run = self._runs[run_at]
            stop = end_index if run_at == end_run else len(run)
            if limit:
                stop = min(stop, index + limit - len(found))
            found += run[index:stop]
            if limit and len(found) >= limit:
                break
            run_at, index = run_at + 1, 0
        return found

    def _lower(self, after: str) -> tuple[int, int]:
        at = bisect_left(self._last, after)
        return (at, bisect_right(self._runs[at], after)) if at < len(self._runs) else (at, 0)

    def _upper(self, before: str | None) -> tuple[int, int]:
        if before is None:
            return len(self._runs), 0
        at = bisect_left(self._last, before)
        return (at, bisect_left(self._runs[at], before)) if at < len(self._runs) else (at, 0)

    def _rank(self, run_at: int, index: int) -> int:
        return sum(map(len, self._runs[:run_at])) + index
