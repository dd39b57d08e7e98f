"""Progress notifications of etcd for callers that wait for a revision (``ConditionalProgressRequester``, apiserver
``pkg/storage/cacher/progress``, v0.36): if nothing under the root has changed, there is no event that has it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_PERIOD = 0.1
"""Seconds between two requests while callers wait."""
_DELAY = _PERIOD / 20
"""Seconds without an event that a caller waits before the first one: the event is usually faster."""


class ProgressRequester:
    """Calls ``request_progress`` while callers have been waiting for some time and no events arrive, and ``time_out``
    for a caller that has been waiting for ``timeout`` seconds. ``last_event`` returns the time of the last event.

    For a revision that is certain to have an event, one of this server's writes, no progress is requested.
    """

    def __init__(
        self,
        request_progress: Callable[[], Coroutine[Any, Any, None]],
        last_event: Callable[[], float],
        time_out: "Callable[[asyncio.Future[None], int], None]",
        timeout: float,
    ) -> None:
        self._request_progress = request_progress
        self._last_event = last_event
        self._time_out = time_out
        self._timeout = timeout
        self._waiting: dict[asyncio.Future[None], tuple[float, int]] = {}
        """Since when each caller waits for which revision, oldest first."""
        self._waiting_for_event: dict[asyncio.Future[None], tuple[float, int]] = {}
        """The same for those whose revision has an event."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_early = False
        """Whether the timer is early enough for a caller that may need a request."""
        self._requests: set[asyncio.Task[None]] = set()

    def add(
        self, waiter: "asyncio.Future[None]", revision: int, loop: asyncio.AbstractEventLoop, *, has_event: bool
    ) -> None:
        """A caller begins to wait for a revision."""
        (self._waiting_for_event if has_event else self._waiting)[waiter] = (loop.time(), revision)
        if self._timer is None:
            self._timer = loop.call_later(_PERIOD if has_event else _DELAY, self._check)
            self._is_early = not has_event
        elif not has_event and not self._is_early:
            self._timer.cancel()
            self._timer = loop.call_later(_DELAY, self._check)
            self._is_early = True

    def remove(self, waiter: "asyncio.Future[None]") -> None:
        """It no longer waits."""
        self._waiting.pop(waiter, None)
        self._waiting_for_event.pop(waiter, None)

    def _check(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for_event = self._time_out_oldest(self._waiting_for_event, now)
        oldest = self._time_out_oldest(self._waiting, now)
        self._is_early = oldest is not None
        if oldest is None:
            if for_event is not None:
                self._timer = loop.call_later(_PERIOD, self._check)
            return
        delay = max(oldest, self._last_event()) + _DELAY - now
        if delay > 0:
            self._timer = loop.call_later(delay, self._check)
            return
        self._timer = loop.call_later(_PERIOD, self._check)
        request = loop.create_task(self._request_progress())
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    def _time_out_oldest(self, waiting: "dict[asyncio.Future[None], tuple[float, int]]", now: float) -> float | None:
        """Since when the oldest caller waits that has not timed out; None if there is none."""
        while waiting:
            waiter, (since, revision) = next(iter(waiting.items()))
            if now - since < self._timeout:
                return since
            del waiting[waiter]
            self._time_out(waiter, revision)
        return None

    async def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
