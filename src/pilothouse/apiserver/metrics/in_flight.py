"""The number of requests in flight.

``apiserver_current_inflight_requests`` is the maximum of the last second (apiserver
``pkg/server/filters/maxinflight.go``, v0.36, where a goroutine updates it each second; here the first request of
another second, or the scrape, does).
"""

WINDOW_SECONDS = 1.0


class InFlight:
    """Requests of one kind in flight."""

    __slots__ = ("_count", "_current_maximum", "_previous_maximum", "_window_end")

    def __init__(self) -> None:
        self._count = 0
        self._current_maximum = 0
        """The maximum of the current second."""
        self._previous_maximum = 0
        """The maximum of the previous second."""
        self._window_end = 0.0

    def enter(self, now: float) -> None:
        """A request has started."""
        if now >= self._window_end:
            self._roll(now)
        self._count += 1
        if self._count > self._current_maximum:  # noqa: PLR1730  # a call costs more
            self._current_maximum = self._count

    def leave(self) -> None:
        """A request has ended."""
        self._count -= 1

    def maximum(self, now: float) -> int:
        """The maximum in the last full second, or now."""
        if now >= self._window_end:
            self._roll(now)
        return max(self._previous_maximum, self._count)

    def _roll(self, now: float) -> None:
        # No request has started since that second ended, so the current number was the maximum.
        self._previous_maximum = self._current_maximum if now < self._window_end + WINDOW_SECONDS else self._count
        self._current_maximum = self._count
        self._window_end = now + WINDOW_SECONDS
