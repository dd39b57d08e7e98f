"""``Env``: what a program is handed about the world."""

import asyncio
import datetime
import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.env.chance import Chance
from pilothouse.env.clock import Clock, SystemClock


def _is_coarse(loop: asyncio.AbstractEventLoop) -> bool:
    """uvloop's time counts milliseconds, and stands still while a turn lasts: most work would take none."""
    return type(loop).__module__ == "uvloop"


def perf_counter_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """``Env.perf_counter`` for frequent callers that know the loop."""
    # asyncio's loops go by the same clock, with a call more.
    return time.monotonic if is_real(loop) else loop.time


def is_real(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop's time is that of the machine: neither virtual, nor moved by a test."""
    return _is_coarse(loop) or type(loop).time is asyncio.BaseEventLoop.time


class Env(msgspec.Struct, frozen=True):
    """Wall clock, loop time and chance of one process. ``Env()`` is the real one."""

    clock: Clock = msgspec.field(default_factory=SystemClock)
    chance: Chance = msgspec.field(default_factory=Chance)
    zone: datetime.tzinfo = datetime.UTC
    """The local time zone, for the few times that are meant in it. Programs take ``local_zone()``."""
    loop_time: Callable[[], float] | None = None
    """The time of the one loop on which all of this runs; None where loops come and go."""
    is_alone: Callable[[], bool] = lambda: True
    """Whether what is done now, instead of by a task of its own that would have to be woken first, overtakes nothing:
    on the virtual loop, that nothing else is ready at this instant. In real time no order is promised."""
    is_reading_alone: Callable[[], bool] = lambda: True
    """``is_alone``, for a caller that only reads, and sets a timer."""
    mark_renewal: Callable[[asyncio.TimerHandle, Callable[[], bool]], None] = lambda _timer, _renews: None
    """Say of a timer that it renews something, and wakes a task for it unless ``is_alone``. The function says whether
    it is going to do nothing but that."""
    mark_what_follows: Callable[[], None] = lambda: None
    """To be called after a renewal that ``is_alone`` has allowed: what is ready now follows from it."""
    mark_pass: Callable[[asyncio.TimerHandle, Callable[[], bool]], None] = lambda _timer, _leap: None
    """Say of a timer that it begins a periodic pass. ``leap`` is called when it is due, by whoever asks ``is_alone`` at
    that instant: it makes the pass, sets the timer of the next one and returns true, if the pass only reads, finds
    nothing to do and wakes nobody; else it has done nothing and returns false."""
    tracing: Any = None
    """Starts the spans of the program (a ``Tracing``, of ``tracing.provider``). None where nothing is traced."""

    def now(self) -> datetime.datetime:
        """Wall time, aware, in UTC. It may jump, also against ``monotonic``."""
        return self.clock.now()

    def timestamp(self) -> float:
        """Wall time as seconds since the epoch."""
        return self.clock.timestamp()

    def monotonic(self) -> float:
        """Seconds on the running loop's own clock: never goes back, says nothing about the date."""
        time = self.loop_time
        return asyncio.get_running_loop().time() if time is None else time()

    def perf_counter(self) -> float:
        """Seconds by which to measure how long something takes, for metrics: ``monotonic`` as fine as the machine has
        it. Never compare the two."""
        if self.loop_time is not None:
            return self.loop_time()
        loop = asyncio.get_running_loop()
        return time.monotonic() if _is_coarse(loop) else loop.time()

    def stream(self, name: str) -> random.Random:
        """The random stream of that name (see ``Chance.stream``)."""
        return self.chance.stream(name)

    def uid(self) -> str:
        """A new uid."""
        return self.chance.uid()

    def name_suffix(self) -> str:
        """Five random characters for a generated name."""
        return self.chance.name_suffix()
