"""How many requests are being answered at a time.

``apiserver_current_inflight_requests`` has the most in the last second (apiserver
``pkg/server/filters/maxinflight.go``, v0.36, where a task looks each second; here the first request of another second
does, or who asks).
"""

WINDOW_SECONDS = 1.0


class InFlight:
    """Requests of one kind under way."""

    __slots__ = ("_ends", "_last", "_most", "_now")

    def __init__(self) -> None:
        self._now = 0
        self._most = 0
        """Of the second that runs."""
        self._last = 0
        """Of the second before."""
        self._ends = 0.0

    def enter(self, now: float) -> None:
        """A request has begun."""
        if now >= self._ends:
            self._roll(now)
        self._now += 1
        if self._now > self._most:  # noqa: PLR1730  # a call costs more
            self._most = self._now

    def leave(self) -> None:
        """One has ended."""
        self._now -= 1

    def most(self, now: float) -> int:
        """The most at a time in the last full second, or now."""
        if now >= self._ends:
            self._roll(now)
        return max(self._last, self._now)

    def _roll(self, now: float) -> None:
        # Nothing began since the end of the second that ran: afterwards there were never more than there are now.
        self._last = self._most if now < self._ends + WINDOW_SECONDS else self._now
        self._most = self._now
        self._ends = now + WINDOW_SECONDS
