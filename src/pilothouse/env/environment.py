"""``Env``: the environment of a program, passed to constructors."""

import asyncio
import datetime
import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.env.clock import Clock, SystemClock
from pilothouse.env.random_streams import RandomStreams


def _is_coarse(loop: asyncio.AbstractEventLoop) -> bool:
    """uvloop's time has milliseconds: most durations would be zero."""
    return type(loop).__module__ == "uvloop"


def perf_counter_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """``Env.perf_counter`` for hot paths that have the loop."""
    # asyncio's loops use the same clock, with an additional call.
    return time.monotonic if is_real(loop) else loop.time


def is_real(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop's time is that of the machine: neither virtual nor movable."""
    return _is_coarse(loop) or type(loop).time is asyncio.BaseEventLoop.time


class Env(msgspec.Struct, frozen=True):
    """Wall clock, loop time and randomness of one process. ``Env()`` is the real one."""

    clock: Clock = msgspec.field(default_factory=SystemClock)
    random_streams: RandomStreams = msgspec.field(default_factory=RandomStreams)
    zone: datetime.tzinfo = datetime.UTC
    """The local time zone, for the few times that depend on it. Programs pass ``local_zone()``."""
    loop_time: Callable[[], float] | None = None
    """The time of the only event loop; None if there may be several."""
    is_alone: Callable[[], bool] = lambda: True
    """Whether work can be done now, instead of by a task that would have to be woken first, without changing the order:
    on the virtual loop, if nothing else is ready. In real time no order is guaranteed."""
    is_reading_alone: Callable[[], bool] = lambda: True
    """``is_alone``, for a caller that only reads, and sets a timer."""
    mark_renewal: Callable[[asyncio.TimerHandle, Callable[[], bool]], None] = lambda _timer, _renews: None
    """Mark a timer as a renewal, which wakes a task unless ``is_alone``. The function returns whether it will only
    renew."""
    mark_what_follows: Callable[[], None] = lambda: None
    """Called after a renewal that ``is_alone`` has permitted: what is ready now is its consequence."""
    mark_pass: Callable[[asyncio.TimerHandle, Callable[[], bool]], None] = lambda _timer, _leap: None
    """Mark a timer as the start of a periodic pass. ``leap`` is called by ``is_alone`` when the timer is due: it makes
    the pass, sets the next timer and returns true, if the pass only reads, finds nothing to do and wakes nobody; else
    it has no effect and returns false."""
    tracing: Any = None
    """Creates spans (a ``Tracing``, of ``tracing.provider``). None if nothing is traced."""

    def now(self) -> datetime.datetime:
        """Wall time, aware, in UTC. It may jump, also relative to ``monotonic``."""
        return self.clock.now()

    def timestamp(self) -> float:
        """Wall time as seconds since the epoch."""
        return self.clock.timestamp()

    def monotonic(self) -> float:
        """Seconds on the running loop's clock: monotonic, unrelated to the date."""
        time = self.loop_time
        return asyncio.get_running_loop().time() if time is None else time()

    def perf_counter(self) -> float:
        """Seconds for measuring durations of work, for metrics: ``monotonic`` with the best resolution. Not comparable
        with it."""
        if self.loop_time is not None:
            return self.loop_time()
        loop = asyncio.get_running_loop()
        return time.monotonic() if _is_coarse(loop) else loop.time()

    def stream(self, name: str) -> random.Random:
        """The random stream of that name (see ``RandomStreams.stream``)."""
        return self.random_streams.stream(name)

    def uid(self) -> str:
        """A new uid."""
        return self.random_streams.uid()

    def name_suffix(self) -> str:
        """Five random characters for a generated name."""
        return self.random_streams.name_suffix()
