"""The revisions at past times, with a resolution of a second, in a few bytes per second with writes."""

from array import array
from bisect import bisect_right

SECONDS = 1.0
"""The first and the last commit of every period of this many seconds have a mark."""
_MAX_EXPIRED = 1024
"""The number of expired marks that may remain at the front."""


class Marks:
    """(time, revision), oldest first: the revision committed at that time. Times are those of one monotonic clock."""

    __slots__ = ("_begin", "_last", "_revisions", "_times")

    def __init__(self) -> None:
        self._times = array("d")
        self._revisions = array("q")
        self._begin = 0
        self._last: tuple[float, int] | None = None
        """The latest commit, if it has no mark yet."""

    def __len__(self) -> int:
        return len(self._times) - self._begin

    def add(self, time: float, revision: int) -> None:
        """Record a commit."""
        times = self._times
        if len(times) > self._begin and time - times[-1] < SECONDS:
            self._last = time, revision
            return
        if self._last is not None:
            self._settle()
        times.append(time)
        self._revisions.append(revision)

    def settle(self, now: float) -> None:
        """Add a mark for the latest commit, unless others may follow in the same second."""
        if len(self) and now - self._times[-1] >= SECONDS:
            self._settle()

    def _settle(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            self._times.append(last[0])
            self._revisions.append(last[1])

    def expire(self, horizon: float) -> tuple[float, int] | None:
        """Remove the marks up to that time; returns the latest of them."""
        end = bisect_right(self._times, horizon, self._begin)
        if end == self._begin:
            return None
        last = self._times[end - 1], self._revisions[end - 1]
        self._begin = end
        if end > _MAX_EXPIRED and end * 2 > len(self._times):
            del self._times[:end], self._revisions[:end]
            self._begin = 0
        return last

    def revision_at(self, time: float) -> int | None:
        """The revision of the latest mark up to that time."""
        end = bisect_right(self._times, time, self._begin)
        return self._revisions[end - 1] if end > self._begin else None

    def time_at(self, revision: int) -> float | None:
        """The time of the latest mark up to that revision."""
        end = bisect_right(self._revisions, revision, self._begin)
        return self._times[end - 1] if end > self._begin else None

    def sample(self, limit: int) -> list[tuple[float, int]]:
        """All marks, or if there are more than ``limit``, that many at equal distances, the latest included."""
        step = -(-len(self) // limit) if limit else 1
        first = self._begin + (len(self) - 1) % step
        return list(zip(self._times[first::step], self._revisions[first::step], strict=True))
