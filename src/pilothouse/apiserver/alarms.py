"""``Alarms``: timers of the event loop, shared by everything that is due at the same time.

Watches that started together all send a bookmark each minute; they share one timer.
"""

import asyncio
from typing import Protocol


class Sleeper(Protocol):
    """Has the callback of an alarm."""

    def ring(self, now: float) -> None:
        """Called when the time has come; ``now`` is that of the running loop."""
        ...


class Alarms:
    """The alarms of one server. Sleepers with the same time are called in the order in which they were set."""

    __slots__ = ("_sleepers", "_timers")

    def __init__(self) -> None:
        self._sleepers: dict[float, dict[Sleeper, None]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}

    def set(self, due_at: float, sleeper: Sleeper) -> None:
        """Call ``sleeper.ring`` at this time of the running loop."""
        sleepers = self._sleepers.get(due_at)
        if sleepers is None:
            self._sleepers[due_at] = {sleeper: None}
            self._timers[due_at] = asyncio.get_running_loop().call_at(due_at, self._ring, due_at)
        else:
            sleepers[sleeper] = None

    def cancel(self, due_at: float, sleeper: Sleeper) -> None:
        """Remove an alarm. Does nothing for one that has rung or was never set."""
        sleepers = self._sleepers.get(due_at)
        if sleepers is None or sleeper not in sleepers:
            return
        del sleepers[sleeper]
        if not sleepers:
            del self._sleepers[due_at]
            self._timers.pop(due_at).cancel()

    def _ring(self, due_at: float) -> None:
        sleepers = self._sleepers.pop(due_at)
        del self._timers[due_at]
        now = asyncio.get_running_loop().time()
        for sleeper in sleepers:
            sleeper.ring(now)
