"""Progress notifications of etcd for callers that wait for a revision (``ConditionalProgressRequester``, apiserver
``pkg/storage/cacher/progress``, v0.36): if nothing under the root has changed, there is no event that has it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

_PERIOD = 0.1
"""Seconds between two requests while callers wait."""
_DELAY = _PERIOD / 20
"""Seconds that a caller waits before the first one: the event is usually faster."""


class ProgressRequester:
    """Calls ``request_progress`` while callers have been waiting for some time."""

    def __init__(self, request_progress: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._request_progress = request_progress
        self._waiting: dict[asyncio.Future[None], float] = {}
        """Since when each caller waits, oldest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()

    def add(self, waiter: "asyncio.Future[None]") -> None:
        """A caller begins to wait."""
        loop = asyncio.get_running_loop()
        self._waiting[waiter] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_DELAY, self._request)

    def remove(self, waiter: "asyncio.Future[None]") -> None:
        """It no longer waits."""
        self._waiting.pop(waiter, None)

    def _request(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        delay = next(iter(self._waiting.values())) + _DELAY - loop.time()
        if delay > 0:
            self._timer = loop.call_later(delay, self._request)
            return
        self._timer = loop.call_later(_PERIOD, self._request)
        request = loop.create_task(self._request_progress())
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)

    async def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
