"""The number of requests in flight.

``apiserver_current_inflight_requests`` is the maximum of the last second (apiserver
``pkg/server/filters/maxinflight.go``, v0.36, where a goroutine updates it each second; here the first request of
another second, or the scrape, does).
"""

WINDOW_SECONDS = 1.0


class InFlight:
    """Requests of one kind in flight."""

    __slots__ = ("_ends", "_last", "_most", "_now")

    def __init__(self) -> None:
        self._now = 0
        self._most = 0
        """The maximum of the current second."""
        self._last = 0
        """The maximum of the previous second."""
        self._ends = 0.0

    def enter(self, now: float) -> None:
        """A request has started."""
        if now >= self._ends:
            self._roll(now)
        self._now += 1
        if self._now > self._most:  # noqa: PLR1730  # a call costs more
            self._most = self._now

    def leave(self) -> None:
        """A request has ended."""
        self._now -= 1

    def most(self, now: float) -> int:
        """The maximum in the last full second, or now."""
        if now >= self._ends:
            self._roll(now)
        return max(self._last, self._now)

    def _roll(self, now: float) -> None:
        # No request has started since that second ended, so the current number was the maximum.
        self._last = self._most if now < self._ends + WINDOW_SECONDS else self._now
        self._most = self._now
        self._ends = now + WINDOW_SECONDS
