"""The controller base: processing of keys, and graceful stop."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import pytest
from tests.tables import cases

from pilothouse.api.meta import Status, StatusDetails
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.env import Env
from pilothouse.runtime import (
    Controller,
    ExponentialFailureLimiter,
    QueueClosed,
    Registry,
    Requeue,
    RetryLater,
    TerminalError,
    WorkerPool,
    WorkQueue,
)

Answer = Requeue | Exception | None


class Answering(Controller):
    """Returns the scripted results for one key, and records the times of its syncs."""

    def __init__(self, env: Env, answers: list[Answer], metrics: Registry | None = None) -> None:
        super().__init__("test", env, limiter=ExponentialFailureLimiter(1.0, 60.0), metrics=metrics)
        self.answers = answers
        self.times: list[float] = []

    async def reconcile(self, key: str) -> Requeue | None:
        self.times.append(self.env.monotonic())
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@cases(
    "answers, times, counted",
    {
        "success": ([None], [0.0], {}),
        "requeue after a delay": ([Requeue(5.0), Requeue(2.0)], [0.0, 5.0, 7.0], {}),
        "failed: backoff": ([KeyError("a bug"), OSError("x"), ValueError()], [0.0, 1.0, 3.0, 7.0], {"retried": 3}),
        "terminal error: no retry": ([TerminalError("never")], [0.0], {"given_up": 1}),
        "must wait: backoff, no error": ([RetryLater("stale"), RetryLater("stale")], [0.0, 1.0, 3.0], {}),
        "retry after a given time": (
            [RetryLater("stale"), RetryLater("full", delay=30.0), RetryLater("stale")],
            [0.0, 1.0, 31.0, 32.0],
            {},
        ),
        "success ends the retries": ([OSError(), None, OSError(), OSError()], [0.0, 1.0], {"retried": 1}),
        "success resets the failures": (
            [OSError(), OSError(), Requeue(10.0), OSError()],
            [0.0, 1.0, 3.0, 13.0, 14.0],
            {"retried": 3},
        ),
    },
)
async def test_key_after_reconcile(
    env: Env, answers: list[Answer], times: list[float], counted: dict[str, int]
) -> None:
    metrics = Registry()
    controller = Answering(env, list(answers), metrics)
    controller.queue.add("default/web")
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(100)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert controller.times == times
    for outcome in ("retried", "given_up"):
        assert metrics.value("pilothouse_reconcile_errors_total", "test", outcome) == counted.get(outcome, 0)


def missing(name: str) -> NotFound:
    details = StatusDetails(name=name, kind="deployments")
    return NotFound(
        Status(message=f'deployments.apps "{name}" not found', reason="NotFound", code=404, details=details)
    )


@cases(
    "error, level",
    {
        "changed by another client": (
            Conflict(Status(message="the object has been modified", reason="Conflict", code=409)),
            logging.INFO,
        ),
        "deleted by another client": (missing("web"), logging.INFO),
        "another object is not found": (missing("shop"), logging.ERROR),
    },
)
async def test_log_level_of_retried_errors(
    env: Env, caplog: pytest.LogCaptureFixture, error: ApiError, level: int
) -> None:

    caplog.set_level(logging.INFO)
    controller = Answering(env, [error])
    controller.queue.add("default/web")
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(100)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert controller.times == [0.0, 1.0]
    (retry,) = (record for record in caplog.records if "will be retried" in record.getMessage())
    assert retry.levelno == level
    assert 'key="default/web"' in retry.getMessage()


async def test_the_traceback_of_a_retried_error_is_logged_once(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Answering):
        async def reconcile(self, key: str) -> Requeue | None:
            number = len(self.times)
            self.times.append(self.env.monotonic())
            if number < 3:
                raise KeyError(f"bug {number}")
            if number == 3:
                raise KeyError("another bug")
            return None

    controller = Broken(env, [])
    controller.queue.add("a")
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(100)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    retries = [record for record in caplog.records if "will be retried" in record.getMessage()]
    assert [record.exc_info is not None for record in retries] == [True, False, False, True]
    assert "bug 1" in retries[1].getMessage(), "a line of text"
    assert "traceback" in retries[1].getMessage()


async def test_no_key_is_processed_before_cache_sync(env: Env) -> None:
    class Slow:
        async def wait_synced(self) -> None:
            await asyncio.sleep(3)

    class Waiting(Answering):
        def __init__(self, env: Env) -> None:
            super().__init__(env, [])
            self._waits_for = (Slow(), Slow())

    controller = Waiting(env)
    controller.queue.add("a")
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(10)
    assert controller.times == [6.0]
    running.cancel()


def pool_of(
    env: Env, reconcile: Callable[[str], Awaitable[Requeue | None]], workers: int, stop_seconds: float = 10.0
) -> tuple[WorkQueue[str], WorkerPool[str]]:
    queue: WorkQueue[str] = WorkQueue(env)
    return queue, WorkerPool("test", queue, reconcile, workers=workers, stop_seconds=stop_seconds)


@pytest.mark.parametrize("workers", [0, -1])
async def test_controller_without_workers_keeps_keys_and_stops_immediately(env: Env, workers: int) -> None:
    async def reconcile(key: str) -> Requeue | None:
        raise AssertionError(f"nobody is there for {key}")

    queue, pool = pool_of(env, reconcile, workers)
    queue.add("a")
    running = asyncio.create_task(pool.run())
    await asyncio.sleep(60)
    assert len(queue) == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert env.monotonic() == 60.0


async def test_workers_process_keys_concurrently(env: Env) -> None:
    ended: list[float] = []

    async def reconcile(_key: str) -> None:
        await asyncio.sleep(1)
        ended.append(env.monotonic())

    queue, pool = pool_of(env, reconcile, 3)
    for number in range(7):
        queue.add(str(number))
    running = asyncio.create_task(pool.run())
    await asyncio.sleep(10)
    running.cancel()
    assert ended == [1.0] * 3 + [2.0] * 3 + [3.0]


async def test_stop_finishes_running_keys_and_cancels_slow_ones(env: Env) -> None:
    scenario: list[str] = []

    async def reconcile(key: str) -> None:
        scenario.append(f"begin {key}")
        try:
            await asyncio.sleep({"quick": 3.0, "slow": 100.0}.get(key, 0.0))
        except asyncio.CancelledError:
            scenario.append(f"cancel {key} at {env.monotonic():g}")
            raise
        scenario.append(f"end {key} at {env.monotonic():g}")

    queue, pool = pool_of(env, reconcile, 2, stop_seconds=10.0)
    for key in ("quick", "slow", "never"):
        queue.add(key)
    running = asyncio.create_task(pool.run())
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert scenario == ["begin quick", "begin slow", "end quick at 3", "cancel slow at 11"]
    assert len(asyncio.all_tasks()) == 1


async def test_stop_with_idle_workers_and_second_cancel_are_immediate(env: Env) -> None:
    async def reconcile(_key: str) -> None:
        await asyncio.sleep(100)

    _queue, pool = pool_of(env, reconcile, 3)
    running = asyncio.create_task(pool.run())
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert env.monotonic() == 1.0

    queue, pool = pool_of(env, reconcile, 1)
    queue.add("a")
    running = asyncio.create_task(pool.run())
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert env.monotonic() == 3.0
    assert running.cancelled()


async def test_worker_yields_between_keys(env: Env) -> None:
    turns = 0

    async def reconcile(_key: str) -> None:
        return None

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    queue, pool = pool_of(env, reconcile, 1)
    for number in range(100):
        queue.add(str(number))
    beside, running = asyncio.create_task(other()), asyncio.create_task(pool.run())
    await asyncio.sleep(0.0)
    while len(queue):  # noqa: ASYNC110  # one turn of the loop at a time
        await asyncio.sleep(0)
    assert turns > 90
    beside.cancel()
    running.cancel()


class _Filled:
    """A cache that is synced after this many seconds."""

    async def wait_synced(self) -> None:
        await asyncio.sleep(5)


class _WithCompany(Controller):
    def __init__(self, env: Env) -> None:
        super().__init__("test", env, waits_for=(_Filled(),))
        self.noted: list[tuple[str, float]] = []
        self.others: WorkQueue[str] = WorkQueue(env, "others")
        self.add_runnable("events", self._record)
        self.add_worker_pool(WorkerPool("test-others", self.others, self._reconcile_other))
        self.others.add("other")
        self.queue.add("key")

    async def _record(self) -> None:
        self._note("began")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._note("ended")

    async def _reconcile_other(self, key: str) -> None:
        self._note(key)

    async def reconcile(self, key: str) -> None:
        self._note(key)

    def _note(self, event: str) -> None:
        self.noted.append((event, self.env.monotonic()))


async def test_background_tasks_start_before_cache_sync_and_workers_after(env: Env) -> None:
    controller = _WithCompany(env)
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(9)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert controller.noted == [("began", 0.0), ("key", 5.0), ("other", 5.0), ("ended", 9.0)]
    assert len(asyncio.all_tasks()) == 1, "no task is left"


async def test_additional_queue_is_shut_down_without_cache_sync(env: Env) -> None:
    controller = _WithCompany(env)
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert await controller.others.get() == "other"  # queued keys may still be taken
    with pytest.raises(QueueClosed):
        await controller.others.get()
