"""The wall clock. Loop time (``asyncio.get_running_loop().time()``) is for durations, this is for timestamps.

The two are independent on purpose: a wall clock can jump, forwards and back, while durations go on. Decisions about
"how long since" that only concern this process use loop time; what is written into objects uses the wall clock.
"""

import datetime
import time
from abc import ABC, abstractmethod
from typing import Protocol

UTC = datetime.UTC


class Clock(Protocol):
    """Wall time."""

    def now(self) -> datetime.datetime:
        """The current instant, aware, in UTC, with microseconds."""
        ...

    def timestamp(self) -> float:
        """The same as seconds since the epoch, for frequent callers."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(time.time(), UTC)

    def timestamp(self) -> float:
        return time.time()


class LoopClock(ABC):
    """Base of clocks that go with a loop, which has them as its ``clock``: log lines take their time from there."""

    __slots__ = ()

    zone: datetime.tzinfo | None = None
    """The zone in which log lines are written, None for the machine's own."""

    @abstractmethod
    def now(self) -> datetime.datetime:
        """The current instant, aware, in UTC, with microseconds."""

    def timestamp(self) -> float:
        """The same as seconds since the epoch."""
        return self.now().timestamp()


def whole_seconds(instant: datetime.datetime) -> datetime.datetime:
    """What ``metav1.Time`` keeps of an instant on the wire: whole seconds."""
    return instant.replace(microsecond=0)


def processor_seconds() -> float:
    """What this process has used of its processors."""
    return time.process_time()


def stopwatch_seconds() -> float:
    """For programs without a loop: seconds that never go back, since some moment."""
    return time.monotonic()
