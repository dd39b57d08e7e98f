"""The task group: order, propagation of failures, no leaked tasks."""

import asyncio

import pytest

from pilothouse.env import Env, TaskGroup


async def test_tasks_are_cancelled_in_the_order_they_were_started() -> None:
    observed: list[int] = []

    async def worker(number: int) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            observed.append(number)

    async with TaskGroup() as group:
        for number in range(20):
            group.start(worker(number))
        await asyncio.sleep(1)
        group.cancel()
    assert observed == list(range(20))


async def test_first_failure_cancels_other_tasks_and_the_body(env: Env) -> None:
    async def fails() -> None:
        await asyncio.sleep(2)
        raise ValueError("broken")

    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(fails())
            group.start(asyncio.sleep(1000))
            await asyncio.sleep(1000)

    with pytest.raises(ExceptionGroup) as caught:
        await owner()
    assert [str(e) for e in caught.value.exceptions] == ["broken"]
    await asyncio.sleep(0)  # the cancellation of the body was undone (``uncancel``)
    assert env.monotonic() == 2.0


async def test_external_cancellation_cancels_tasks_and_propagates() -> None:
    observed: list[str] = []

    async def worker() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            observed.append("worker ended")
            raise

    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(worker())

    task = asyncio.get_running_loop().create_task(owner())
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert observed == ["worker ended"]


async def test_failing_body_waits_for_tasks_and_keeps_its_exception() -> None:
    observed: list[str] = []

    async def worker() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            observed.append("ended")

    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(worker())
            await asyncio.sleep(1)
            raise KeyError("body")

    with pytest.raises(KeyError):
        await owner()
    assert observed == ["ended"]


async def test_closed_group_rejects_tasks() -> None:
    async with TaskGroup("done") as group:
        pass
    with pytest.raises(RuntimeError, match="'done' is not running"):
        group.start(asyncio.sleep(1))


async def test_task_started_in_a_failing_group_is_cancelled(env: Env) -> None:
    """A cleanup starts it after all tasks were cancelled: without this it would never be cancelled."""

    async def owner() -> None:
        async with TaskGroup() as group:

            async def worker() -> None:
                try:
                    await asyncio.sleep(1000)
                finally:
                    group.start(asyncio.sleep(1000))

            group.start(worker())
            await asyncio.sleep(1)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await owner()
    assert env.monotonic() == 1.0


async def test_error_during_cancellation_leaves_no_cancel_request() -> None:
    """Timeouts use ``cancelling()`` to distinguish their own cancellation from others."""

    async def fails() -> None:
        await asyncio.sleep(1)
        raise ValueError("broken")

    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(fails())
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                raise KeyError from None

    with pytest.raises(ExceptionGroup):
        await owner()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_task_cleanup_is_not_cancelled_by_a_second_failure() -> None:
    observed: list[str] = []

    async def fails(seconds: float) -> None:
        try:
            await asyncio.sleep(2)
        finally:
            await asyncio.sleep(seconds)
        raise ValueError("broken")

    async def careful() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(5)
            observed.append("finished")

    async def owner() -> None:
        async with TaskGroup() as group:
            group.start(fails(0))
            group.start(careful())
            group.start(fails(1))
            await asyncio.sleep(1000)

    with pytest.raises(BaseExceptionGroup):
        await owner()
    assert observed == ["finished"]
