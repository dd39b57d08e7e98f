"""The timeout that requests have in common."""

import asyncio

import pytest

from pilothouse.apiserver.request_timeouts import RequestTimeouts
from pilothouse.env import Env


async def test_each_request_has_the_same_time(env: Env) -> None:
    timeouts = RequestTimeouts(60.0)

    async def request(begin: float, seconds: float) -> float:
        await asyncio.sleep(begin)
        with pytest.raises(TimeoutError):
            await timeouts.limit(asyncio.sleep(seconds))
        return env.monotonic()

    began = env.monotonic()
    ends = await asyncio.gather(*(request(begin, 100.0) for begin in (0.0, 1.0, 30.0, 59.0, 200.0)))
    assert [end - began for end in ends] == [60.0, 61.0, 90.0, 119.0, 260.0]


async def test_a_request_in_time_has_its_result(env: Env) -> None:
    timeouts = RequestTimeouts(60.0)

    async def result(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def late() -> None:
        with pytest.raises(TimeoutError):
            await timeouts.limit(asyncio.sleep(100))

    results = await asyncio.gather(late(), *(timeouts.limit(result(seconds)) for seconds in (0, 10, 59)))
    assert results == [None, 0, 10, 59]
    began = env.monotonic()
    await asyncio.sleep(300)
    assert env.monotonic() == began + 300
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_an_error_is_raised(env: Env) -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await RequestTimeouts(60.0).limit(fail())


async def test_a_cancelled_request_is_cancelled(env: Env) -> None:
    """Even if it is overdue: a shutdown must not be mistaken for a timeout."""
    timeouts = RequestTimeouts(60.0)

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(5)

    for cancelled_after in (10.0, 62.0):
        task = asyncio.create_task(timeouts.limit(slow_to_end()))
        await asyncio.sleep(cancelled_after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_work_that_ignores_the_timeout_is_not_cancelled_later(env: Env) -> None:
    """As with ``asyncio.timeout``, the task goes on without a cancellation."""
    timeouts = RequestTimeouts(60.0)

    async def stubborn() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "late"
        return "never"

    assert await timeouts.limit(stubborn()) == "late"
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
