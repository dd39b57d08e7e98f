"""Runs actions at the nth change of an object: after the commit, and before watchers receive the change."""

import asyncio
from collections.abc import Callable

import msgspec

from pilothouse.storage import Change


class _Trigger(msgspec.Struct):
    left: int
    action: Callable[[], None]
    reached: asyncio.Future[None]


class ChangeTriggers:
    """Actions by storage key."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Trigger]] = {}

    def at(self, key: str, nth: int, action: Callable[[], None] = lambda: None) -> asyncio.Future[None]:
        """Call ``action`` within the commit of the ``nth`` change of this key from now on. The future is done
        afterwards, when watchers have the change."""
        trigger = _Trigger(nth, action, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(key, []).append(trigger)
        return trigger.reached

    def committed(self, change: Change) -> None:
        """Process a committed change."""
        waiting = self._waiting.get(change.key)
        if waiting is None:
            return
        for trigger in list(waiting):
            trigger.left -= 1
            if trigger.left == 0:
                waiting.remove(trigger)
                trigger.action()
                if not trigger.reached.done():
                    trigger.reached.set_result(None)
        if not waiting:
            del self._waiting[change.key]

    def clear(self) -> None:
        """Remove all actions."""
        self._waiting.clear()
