"""``Alarms``: timers of the event loop, shared by everything that is due at the same time.

Watches that started together all send a bookmark each minute; they share one timer.
"""

import asyncio
from typing import Protocol


class AlarmListener(Protocol):
    """Has the callback of an alarm."""

    def on_alarm(self, now: float) -> None:
        """Called when the time has come; ``now`` is that of the running loop."""
        ...


class Alarms:
    """The alarms of one server. Sleepers with the same time are called in the order in which they were set."""

    __slots__ = ("_listeners", "_timers")

    def __init__(self) -> None:
        self._listeners: dict[float, dict[AlarmListener, None]] = {}
        self._timers: dict[float, asyncio.TimerHandle] = {}

    def set(self, due_at: float, listener: AlarmListener) -> None:
        """Call ``listener.on_alarm`` at this time of the running loop."""
        listeners = self._listeners.get(due_at)
        if listeners is None:
            self._listeners[due_at] = {listener: None}
            self._timers[due_at] = asyncio.get_running_loop().call_at(due_at, self._ring, due_at)
        else:
            listeners[listener] = None

    def cancel(self, due_at: float, listener: AlarmListener) -> None:
        """Remove an alarm. Does nothing for one that has rung or was never set."""
        listeners = self._listeners.get(due_at)
        if listeners is None or listener not in listeners:
            return
        del listeners[listener]
        if not listeners:
            del self._listeners[due_at]
            self._timers.pop(due_at).cancel()

    def _ring(self, due_at: float) -> None:
        listeners = self._listeners.pop(due_at)
        del self._timers[due_at]
        now = asyncio.get_running_loop().time()
        for listener in listeners:
            listener.on_alarm(now)
