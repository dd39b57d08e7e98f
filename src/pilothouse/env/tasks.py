"""A task group with a defined order: tasks are started, cancelled and awaited in the order in which they were added.

``asyncio.TaskGroup`` keeps its tasks in a set and cancels them in the order of that set, which depends on memory
addresses; simulations must be reproducible. Otherwise the semantics are those of ``asyncio.TaskGroup``: the first
failure cancels the others, failures are raised as an ``ExceptionGroup``, and the body is cancelled when a task fails.
One difference: an exception raised only by the body is not wrapped in a group.
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class TaskGroup:
    """Owns tasks for the duration of an ``async with`` block; all have ended when it exits."""

    def __init__(self, name: str = "tasks") -> None:
        self.name = name
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._errors: list[BaseException] = []
        self._parent: asyncio.Task[Any] | None = None
        self._parent_cancelled_by_us = False
        self._closing = False
        self._failing = False
        self._waiter: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._parent = asyncio.current_task()
        assert self._parent is not None, "a TaskGroup is entered from within a task"
        return self

    def start(self, coroutine: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Run the coroutine as a task of this group. If the group is ending with an error, it is cancelled
        immediately."""
        if self._parent is None or (self._closing and not self._tasks):
            coroutine.close()
            raise RuntimeError(f"task group {self.name!r} is not running")
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        if self._failing:
            task.cancel()  # the others were cancelled, and no later call would cancel this one
        return task

    def __len__(self) -> int:
        """The number of tasks that have not ended."""
        return len(self._tasks)

    def cancel(self) -> None:
        """Cancel every task of the group, in the order in which they were started. The body continues."""
        for task in list(self._tasks):
            task.cancel()

    def _fail(self) -> None:
        # Once: a task that is cleaning up must not be cancelled again by the next failure.
        if not self._failing:
            self._failing = True
            self.cancel()

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not self._tasks and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        self._errors.append(error)
        self._fail()
        if not self._closing and not self._parent_cancelled_by_us:
            assert self._parent is not None
            self._parent_cancelled_by_us = True
            self._parent.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._closing = True
        parent = self._parent
        assert parent is not None
        propagate_cancel: asyncio.CancelledError | None = None
        # Undo our own cancellation, however the body handled it; remaining ones are external.
        requests_left = parent.uncancel() if self._parent_cancelled_by_us else 1
        if isinstance(error, asyncio.CancelledError):
            if requests_left > 0:
                propagate_cancel = error
        elif error is not None:
            self._errors.insert(0, error)
        if error is not None:
            self._fail()
        while self._tasks:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as cancelled:
                if not self._parent_cancelled_by_us:
                    propagate_cancel = cancelled
                    self._failing = True
                    self.cancel()
            self._waiter = None
        self._parent = None
        if propagate_cancel is not None and not self._errors:
            raise propagate_cancel
        failures = [e for e in self._errors if e is not error] if error in self._errors else self._errors
        if error is not None and error in self._errors and not failures:
            return False
        if self._errors:
            for failure in self._errors:
                if isinstance(failure, KeyboardInterrupt | SystemExit):
                    raise failure
            raise BaseExceptionGroup(f"failures in task group {self.name!r}", self._errors)
        return isinstance(error, asyncio.CancelledError)


def first_of(error: BaseException) -> BaseException:
    """The first exception in nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
