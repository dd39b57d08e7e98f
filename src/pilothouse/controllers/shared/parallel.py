"""Runs a coroutine function for many items, several at a time."""

from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, islice
from typing import TypeVar

from pilothouse.runtime import run_all

T = TypeVar("T")


async def each(items: Iterable[T], act: Callable[[T], Awaitable[object]], *, concurrency: int) -> None:
    """Call ``act`` for every item, in order, at most ``concurrency`` concurrently. ``items`` is read lazily. A failure
    does not stop the others; the first one is raised at the end."""
    waiting = iter(items)
    first = list(islice(waiting, 1))
    if not first:
        return  # the usual case
    waiting = chain(first, waiting)
    failures: list[Exception] = []

    async def work() -> None:
        for item in waiting:
            for failure in await run_all([act(item)]):
                if failure is not None:
                    failures.append(failure)

    ended = await run_all([work() for _ in range(concurrency)])
    failures += [failure for failure in ended if failure is not None]  # iterating over ``things`` can fail, too
    if failures:
        raise failures[0]
