"""The wall clock, for timestamps. Durations use loop time (``asyncio.get_running_loop().time()``).

They are independent: a wall clock can jump in both directions, while durations continue. Intervals that only concern
this process use loop time; timestamps in objects use the wall clock.
"""

import datetime
import time
from abc import ABC, abstractmethod
from typing import Protocol

UTC = datetime.UTC


class Clock(Protocol):
    """Wall time."""

    def now(self) -> datetime.datetime:
        """The current time, aware, in UTC, with microseconds."""
        ...

    def timestamp(self) -> float:
        """The current time as seconds since the epoch, for hot paths."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(time.time(), UTC)

    def timestamp(self) -> float:
        return time.time()


class LoopClock(ABC):
    """Base of clocks of an event loop, which is its ``clock`` attribute: log lines get their time from it."""

    __slots__ = ()

    zone: datetime.tzinfo | None = None
    """The time zone of log lines, None for the machine's."""

    @abstractmethod
    def now(self) -> datetime.datetime:
        """The current time, aware, in UTC, with microseconds."""

    def timestamp(self) -> float:
        """The current time as seconds since the epoch."""
        return self.now().timestamp()


def whole_seconds(instant: datetime.datetime) -> datetime.datetime:
    """The time as in ``metav1.Time``: whole seconds."""
    return instant.replace(microsecond=0)


def processor_seconds() -> float:
    """The CPU time of this process."""
    return time.process_time()


def stopwatch_seconds() -> float:
    """A monotonic time in seconds, for programs without an event loop."""
    return time.monotonic()
