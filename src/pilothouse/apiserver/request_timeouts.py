"""The timeout that most requests have in common, with one timer for all of them.

``asyncio.timeout`` sets and cancels a timer for each request, which is 2 % of a create.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class RequestTimeouts:
    """Limits the duration of requests to ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._running: dict[_Running, None] = {}
        """The oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, which runs in this task. Raises ``TimeoutError`` after ``seconds``, as
        ``asyncio.timeout`` does."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a coroutine runs in a task"
        running = _Running(task, loop.time() + self.seconds)
        self._running[running] = None
        if self._timer is None:
            self._timer = loop.call_at(running.deadline, self._end_overdue, loop)
        try:
            return await work
        except asyncio.CancelledError:
            if running.is_overdue and task.cancelling() <= running.cancelling + 1:
                raise TimeoutError from None
            raise
        finally:
            if running.is_overdue:
                task.uncancel()
            del self._running[running]
            if not self._running and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _end_overdue(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for running in self._running:
            if running.deadline > now:
                self._timer = loop.call_at(running.deadline, self._end_overdue, loop)
                return
            if not running.is_overdue:
                running.is_overdue = True
                running.task.cancel()


class _Running:
    """A request."""

    __slots__ = ("cancelling", "deadline", "is_overdue", "task")

    def __init__(self, task: asyncio.Task[Any], deadline: float) -> None:
        self.task = task
        self.deadline = deadline
        self.cancelling = task.cancelling()
        self.is_overdue = False
