"""Delta debugging: which of the circumstances of a failure are enough for it.

A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), algorithm ddmin.
"""

import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Fails = Callable[[tuple[T, ...]], bool]


def shrink(parts: tuple[T, ...], fails: Fails[T], *, limit: int) -> tuple[tuple[T, ...], int]:
    """A subset of ``parts``, in their order, for which ``fails`` is true; and how often that was called.

    With enough calls no single part can be removed from the result. After ``limit`` calls it is the smallest subset
    found until then. ``parts`` themselves are known to fail and are not tried.
    """
    tried: dict[tuple[T, ...], bool] = {}

    def test(subset: tuple[T, ...]) -> bool:
        if subset not in tried:
            if len(tried) >= limit:
                return False
            tried[subset] = fails(subset)
        return tried[subset]

    if test(()):
        return (), len(tried)
    pieces = 2
    while len(parts) > 1 and len(tried) < limit:
        ends = [len(parts) * number // pieces for number in range(pieces + 1)]
        ranges = list(itertools.pairwise(ends))
        alone = next((parts[begin:end] for begin, end in ranges if test(parts[begin:end])), None)
        rests = (parts[:begin] + parts[end:] for begin, end in ranges if pieces > 2)
        if alone is not None:
            parts, pieces = alone, 2
        elif (rest := next((rest for rest in rests if test(rest)), None)) is not None:
            parts, pieces = rest, pieces - 1
        elif pieces < len(parts):
            pieces = min(2 * pieces, len(parts))
        else:
            break
    return parts, len(tried)


class FailedRun(Generic[T, R]):
    """A failed run, and the result of shrinking it."""

    def __init__(self, parts: tuple[T, ...], result: R) -> None:
        self.all_parts = parts
        self.parts = parts
        """The fewest that are known to fail."""
        self.result = result
        """The result of the run with these parts."""
        self.runs = 0
        """The number of runs for shrinking."""

    def shrink(self, run: Callable[[tuple[T, ...]], R], fails: Callable[[R], bool], *, limit: int) -> None:
        """Find the fewest parts with which ``run`` still returns a result that ``fails``, in at most ``limit`` runs. If
        it is interrupted, for example by Ctrl-C, the fewest that were found until then are returned."""

        def test(subset: tuple[T, ...]) -> bool:
            self.runs += 1
            result = run(subset)
            if not fails(result):
                return False
            self.parts, self.result = subset, result
            return True

        if limit > 0:
            shrink(self.parts, test, limit=limit)
