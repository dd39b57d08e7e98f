"""Context managers and decorators of metrics: ``with histogram.time():``, ``@gauge.track_inprogress()``, as in
prometheus-client.

Unlike those they also decorate coroutine functions: the call is measured until the coroutine has returned.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from pilothouse.env.clock import stopwatch_seconds
from pilothouse.env.environment import perf_counter_of

F = TypeVar("F", bound=Callable[..., Any])


class MetricBlock:
    """A context manager and a decorator; may be entered concurrently."""

    def __init__(self, begin: Callable[[], float], end: Callable[[float, BaseException | None], None]) -> None:
        self._begin = begin
        self._end = end
        self._open: list[float] = []

    def __enter__(self) -> None:
        self._open.append(self._begin())

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._end(self._open.pop(), error)

    def __call__(self, function: F) -> F:
        """Decorate a function or coroutine function."""
        begin, end = self._begin, self._end
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*arguments: Any, **keywords: Any) -> Any:
                with MetricBlock(begin, end):
                    return await function(*arguments, **keywords)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*arguments: Any, **keywords: Any) -> Any:
            with MetricBlock(begin, end):
                return function(*arguments, **keywords)

        return called  # type: ignore[return-value]


def seconds() -> float:
    """The clock of durations: the loop's if it is virtual, the machine's otherwise."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return stopwatch_seconds()
    return perf_counter_of(loop)()


def timing(observe: Callable[[float], None]) -> MetricBlock:
    """Observe the duration of a block, also if it fails."""
    return MetricBlock(seconds, lambda began, _error: observe(seconds() - began))


def tracking(inc: Callable[[float], None]) -> MetricBlock:
    """Increment while a block runs."""

    def begin() -> float:
        inc(1.0)
        return 0.0

    return MetricBlock(begin, lambda _began, _error: inc(-1.0))


def counting(inc: Callable[[], None], exception: type[BaseException] | tuple[type[BaseException], ...]) -> MetricBlock:
    """Count exceptions of these types raised in a block."""

    def end(_began: float, error: BaseException | None) -> None:
        if isinstance(error, exception):
            inc()

    return MetricBlock(lambda: 0.0, end)
