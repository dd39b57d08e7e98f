"""Time series of bounded length: each has at most some thousand numbers, however long the run is.

``StepSeries`` is a gauge, ``RateSeries`` has counters by name, ``Durations`` computes percentiles. If a series gets too
long, neighboring points are merged, keeping their minimum and maximum.
"""

import math
from array import array

from pilothouse.simulate.readiness import percentile
from pilothouse.simulate.recording.structs import Percentiles, Rates, Steps

MAX_POINTS = 600
MAX_BUCKETS = 512
MAX_NAMES = 64
OTHERS = "others"
_FIRST_WIDTH = 0.125
"""Initial bucket width of rates, in seconds. A power of two, so that the buckets of two runs can be merged."""
_FINEST = 2.0**-10
"""Bucket width in seconds of the first merge of points."""


class StepSeries:
    """A gauge with at most ``MAX_POINTS`` changes. A change costs amortized O(1)."""

    __slots__ = ("_at", "_high", "_last", "_low", "_width", "value")

    def __init__(self, at: float = 0.0, value: int = 0) -> None:
        self.value = value
        self._width = 0.0
        self._at = array("d", (round(at, 3),))
        self._last = array("q", (value,))
        self._low = array("q", (value,))
        self._high = array("q", (value,))

    def set(self, at: float, value: int) -> None:
        """Set the value from ``at`` on, with millisecond resolution. ``at`` must not decrease."""
        if value == self.value:
            return
        at = round(at, 3)
        self.value = value
        if len(self._at) >= MAX_POINTS and self._bucket(self._at[-1]) != self._bucket(at):
            self._merge()
        self._put(at, value, value, value)

    def add(self, at: float, difference: int) -> None:
        """Change the value by ``difference``."""
        self.set(at, self.value + difference)

    def _put(self, at: float, last: int, low: int, high: int) -> None:
        """Append a point, or merge it into the last one."""
        if self._at and self._bucket(self._at[-1]) == self._bucket(at):
            self._last[-1] = last
            self._low[-1] = min(self._low[-1], low)
            self._high[-1] = max(self._high[-1], high)
            return
        self._at.append(at)
        self._last.append(last)
        self._low.append(low)
        self._high.append(high)

    def _bucket(self, at: float) -> float:
        return math.floor(at / self._width) if self._width else at

    def _merge(self) -> None:
        """Widen the buckets until at most half of the points are used."""
        self._width = self._width or _FINEST
        while (count := self._count()) > MAX_POINTS // 2:
            self._width *= max(2.0, 2.0 ** math.floor(math.log2(count / (MAX_POINTS // 2))))
        columns = zip(self._at, self._last, self._low, self._high, strict=True)
        self._at, self._last, self._low, self._high = array("d"), array("q"), array("q"), array("q")
        for at, last, low, high in columns:
            self._put(at, last, low, high)

    def _count(self) -> int:
        return len({self._bucket(at) for at in self._at})

    def steps(self) -> Steps:
        """The series as plain values."""
        return Steps(self._at.tolist(), self._last.tolist(), self._low.tolist(), self._high.tolist())


class RateSeries:
    """Counters by name in at most ``MAX_BUCKETS`` buckets of equal width. Names beyond ``MAX_NAMES`` are summed as
    ``others``."""

    def __init__(self, *, most_names: int = MAX_NAMES) -> None:
        self._width = _FIRST_WIDTH
        self._most_names = most_names
        self._counts: dict[str, list[int]] = {}

    def add(self, at: float, name: str, count: int = 1) -> None:
        """Count an occurrence."""
        counts = self._counts.get(name)
        if counts is None:
            if len(self._counts) >= self._most_names:
                name = OTHERS
            counts = self._counts.setdefault(name, [])
        bucket = int(max(at, 0.0) / self._width)
        if bucket >= MAX_BUCKETS:
            self._merge(at)
            bucket = int(at / self._width)
        if bucket >= len(counts):
            counts.extend([0] * (bucket + 1 - len(counts)))
        counts[bucket] += count

    def _merge(self, at: float) -> None:
        while at / self._width >= MAX_BUCKETS:
            self._width *= 2
            for counts in self._counts.values():
                if len(counts) % 2:
                    counts.append(0)
                counts[:] = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]

    def rates(self) -> Rates:
        """The series as plain values."""
        return Rates(width=self._width, counts={name: list(counts) for name, counts in sorted(self._counts.items())})


class Durations:
    """All durations, eight bytes each: their number depends on the number of pods, not on the length of the run."""

    def __init__(self) -> None:
        self._seconds = array("d")

    def add(self, seconds: float) -> None:
        """Add a duration."""
        self._seconds.append(seconds)

    def percentiles(self) -> Percentiles:
        """Nearest-rank percentiles."""
        ordered = sorted(self._seconds)
        if not ordered:
            return Percentiles()
        p50, p95, p99, most = (percentile(ordered, share) for share in (0.5, 0.95, 0.99, 1.0))
        return Percentiles(count=len(ordered), p50=p50, p95=p95, p99=p99, most=most)
