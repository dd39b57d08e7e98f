"""A real event loop whose clock can be moved forward: fast-forward with sockets and threads.

``MovableLoop`` waits as usual until ``MovableClock.advance`` is awaited. During that, whenever the loop would wait, its
time jumps to the next timer instead, so that everything that is due happens in order, as on the virtual loop; pending
data of sockets is handled first. The wall clock moves along.
"""

import asyncio
import datetime
import selectors
from collections.abc import Mapping
from typing import Any

from pilothouse.env.clock import LoopClock, SystemClock


class MovableClock(LoopClock):
    """Wall time that is ``ahead`` seconds ahead of the machine's. Used by an ``Env`` and its ``MovableLoop``."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._left = 0.0
        self._system = SystemClock()

    def now(self) -> datetime.datetime:
        """The current time."""
        return self._system.now() + datetime.timedelta(seconds=self.ahead)

    async def advance(self, seconds: float) -> None:
        """Advance time at once: everything that is due by then was started when this returns.

        Only on a ``MovableLoop`` with this clock. Raises ``ValueError`` for negative seconds, ``RuntimeError`` during
        another call.
        """
        if seconds < 0:
            raise ValueError(f"time can't be moved back ({seconds:g} s)")
        if self._left:
            raise RuntimeError("the clock is being moved already")
        loop = asyncio.get_running_loop()
        if not isinstance(loop, MovableLoop) or loop.clock is not self:
            raise RuntimeError("only the loop that runs by this clock can be moved")
        arrived = loop.create_future()
        timer = loop.call_later(seconds, arrived.set_result, None)
        self._left = seconds
        try:
            await arrived
        finally:
            timer.cancel()
            self._left = 0.0

    def skip(self, wait: float | None) -> bool:
        """Advance instead of waiting, as far as requested. False if nothing was."""
        if not self._left:
            return False
        step = self._left if wait is None else min(wait, self._left)
        self._left = max(0.0, self._left - step)
        self.ahead += step
        return True


class MovableLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with a movable clock."""

    def __init__(self, clock: MovableClock) -> None:
        self.clock = clock
        super().__init__(_SkippingSelector(selectors.DefaultSelector(), clock))

    def time(self) -> float:
        """Seconds on the loop's clock."""
        return super().time() + self.clock.ahead


class _SkippingSelector(selectors.BaseSelector):
    """A selector that skips waits. asyncio calls it with the time until the next timer, and reads the clock
    afterwards."""

    def __init__(self, inner: selectors.BaseSelector, clock: MovableClock) -> None:
        self._inner = inner
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self._inner.select(timeout)
        ready = self._inner.select(0)
        if ready or self._clock.skip(timeout):
            return ready
        return self._inner.select(timeout)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.get_key(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()
