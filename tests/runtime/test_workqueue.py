"""The work queue's contract (client-go ``util/workqueue/queue_test.go``, ``delaying_queue_test.go``)."""

import asyncio

import pytest

from pilothouse.env import Env
from pilothouse.runtime import (
    BucketLimiter,
    ExponentialFailureLimiter,
    FastSlowLimiter,
    MaxOfLimiter,
    MaxWaitLimiter,
    QueueClosed,
    Registry,
    WorkQueue,
    default_controller_limiter,
)


async def test_keys_are_fifo_and_deduplicated(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert [await queue.get() for _ in range(len(queue))] == ["b", "a", "c"]


async def test_key_added_during_processing_is_requeued_once(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    queue.add("a")
    assert await queue.get() == "a"
    for _ in range(3):
        queue.add("a")
    assert len(queue) == 0, "nobody else may have it before done"
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_key_is_processed_by_one_worker_at_a_time(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    running: set[str] = set()
    done = 0

    async def work() -> None:
        nonlocal done
        while True:
            key = await queue.get()
            assert key not in running
            running.add(key)
            await asyncio.sleep(env.stream("t").random())
            running.discard(key)
            queue.done(key)
            done += 1

    workers = [asyncio.create_task(work()) for _ in range(3)]
    for _ in range(200):
        queue.add(env.stream("keys").choice("abcd"))
        await asyncio.sleep(0.05)
    await asyncio.sleep(10)
    for worker in workers:
        worker.cancel()
        if worker.done():
            worker.result()
    assert not running
    assert len(queue) == 0
    assert done > 10


async def test_earlier_of_two_delays_wins(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    queue.add_after("late first", 5.0)
    queue.add_after("late first", 2.0)
    queue.add_after("early first", 1.0)
    queue.add_after("early first", 9.0)
    queue.add_after("now", 0.0)
    queue.add_after("past", -3.0)
    received = []
    for _ in range(4):
        key = await queue.get()
        queue.done(key)
        received.append((key, env.monotonic()))
    await asyncio.sleep(20)
    assert len(queue) == 0, "an overtaken delay must not add its key again"
    assert received == [("now", 0.0), ("past", 0.0), ("early first", 1.0), ("late first", 2.0)]


async def test_superseded_delay_is_dropped(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    queue.add_after("a", 5.0)
    queue.add_after("a", 2.0)
    queue.add_after("b", 3.0)
    queue.add_after("c", 6.0)
    received = []
    for _ in range(3):
        key = await queue.get()
        queue.done(key)
        received.append((key, env.monotonic()))
    assert received == [("a", 2.0), ("b", 3.0), ("c", 6.0)]


async def test_key_can_be_delayed_again(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    times = []
    for _ in range(3):
        queue.add_after("a", 1.5)
        queue.done(await queue.get())
        times.append(env.monotonic())
    assert times == [1.5, 3.0, 4.5]


async def test_shutdown_drains_ready_keys_and_drops_delayed_ones(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    queue.add("ready")
    queue.add_after("waiting", 1.0)
    queue.shut_down()
    queue.shut_down()
    queue.add("late")
    queue.add_after("later", 1.0)
    assert await queue.get() == "ready"
    drained = asyncio.create_task(queue.drained())
    await asyncio.sleep(5)
    assert not drained.done()
    queue.add("ready")
    queue.done("ready")
    await drained
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_shutdown_notifies_every_waiting_worker(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    queue.shut_down()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert sum(isinstance(result, QueueClosed) for result in results) == 3


async def test_cancelled_get_loses_no_key(env: Env) -> None:
    """Also if cancelled after the wake-up."""
    queue: WorkQueue[str] = WorkQueue(env)
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add("a")
    first.cancel()
    await asyncio.sleep(1)
    assert first.cancelled()
    assert [await second] == ["a"]


async def test_key_added_after_a_cancelled_get_goes_to_the_next_waiter(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    first.cancel()
    queue.add("a")  # before the cancelled task has run
    key = await second
    await asyncio.gather(first, return_exceptions=True)
    assert first.cancelled(), "a cancelled get is cancelled and nothing else"
    assert key == "a"


async def test_superseded_delays_do_not_accumulate(env: Env) -> None:
    """A key that is added with a delay of an hour after each sync, and synced every second for other reasons."""
    queue: WorkQueue[str] = WorkQueue(env)
    queue.add_after("b", 3000)
    for _ in range(2000):
        queue.add_after("a", 3600)
        queue.add_after("a", 1)
        queue.done(await queue.get())
    assert len(queue._heap) < 200


async def test_metrics_have_upstreams_names(env: Env) -> None:
    registry = Registry()
    queue: WorkQueue[str] = WorkQueue(env, "replicaset", registry)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    await asyncio.sleep(2)
    assert await queue.get() == "a"
    await asyncio.sleep(3)
    queue.add_rate_limited("a")
    text = registry.exposition()
    queue.done("a")
    assert registry.value("workqueue_work_duration_seconds", "replicaset") == 1
    assert registry.value("workqueue_unfinished_work_seconds", "replicaset") == 0
    for line in (
        "# TYPE workqueue_depth gauge",
        'workqueue_depth{name="replicaset"} 1',
        'workqueue_adds_total{name="replicaset"} 2',
        'workqueue_retries_total{name="replicaset"} 1',
        'workqueue_unfinished_work_seconds{name="replicaset"} 3',
        'workqueue_longest_running_processor_seconds{name="replicaset"} 3',
        'workqueue_queue_duration_seconds_bucket{name="replicaset",le="1e-08"} 0',
        'workqueue_queue_duration_seconds_bucket{name="replicaset",le="1"} 0',
        'workqueue_queue_duration_seconds_bucket{name="replicaset",le="10"} 1',
        'workqueue_queue_duration_seconds_bucket{name="replicaset",le="+Inf"} 1',
        'workqueue_queue_duration_seconds_sum{name="replicaset"} 2',
    ):
        assert line in text.splitlines()


@pytest.mark.real_loop
async def test_short_work_has_a_positive_duration_on_the_real_loop() -> None:
    """uvloop's clock has milliseconds and is cached for an iteration."""
    registry = Registry()
    queue: WorkQueue[int] = WorkQueue(Env(), "replicaset", registry)
    for key in range(20):
        queue.add(key)
        sum(range(1000))
        await queue.get()
        sum(range(1000))
        queue.done(key)
    lines = registry.exposition().splitlines()
    for metric in ("queue", "work"):
        name = f"workqueue_{metric}_duration_seconds"
        assert f'{name}_bucket{{name="replicaset",le="1e-08"}} 0' in lines
        assert f'{name}_count{{name="replicaset"}} 20' in lines


async def test_default_limiter_doubles_from_five_milliseconds(env: Env) -> None:
    limiter = default_controller_limiter(env)
    waits = [limiter.when("a") for _ in range(20)]
    assert waits[:5] == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.08])
    assert waits[17] == pytest.approx(655.36)
    assert waits[18:] == [1000.0, 1000.0], "the nineteenth failure reaches the maximum"
    assert limiter.num_requeues("a") == 20
    assert limiter.num_requeues("b") == 0
    limiter.forget("a")
    assert limiter.when("a") == 0.005


async def test_bucket_limiter_spreads_failing_keys_at_ten_per_second(env: Env) -> None:
    limiter = default_controller_limiter(env)
    waits = [limiter.when(f"key-{n}") for n in range(110)]
    assert waits[:100] == [0.005] * 100
    assert waits[100:] == pytest.approx([0.1 * n for n in range(1, 11)])
    await asyncio.sleep(2.0)
    assert limiter.when("late") == 0.005, "twenty tokens have come back, ten were owed"


async def test_failing_key_is_requeued_after_its_backoff(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env, limiter=ExponentialFailureLimiter(1.0, 5.0))
    times = []
    queue.add("a")
    for _ in range(5):
        key = await queue.get()
        times.append(env.monotonic())
        queue.add_rate_limited(key)
        queue.done(key)
    assert queue.num_requeues("a") == 5
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    assert times == [0.0, 1.0, 3.0, 7.0, 12.0]


async def test_max_of_rate_limiter(env: Env) -> None:
    fast_slow: FastSlowLimiter[str] = FastSlowLimiter(0.1, 7.0, 2)
    assert [fast_slow.when("a") for _ in range(4)] == [0.1, 0.1, 7.0, 7.0]
    capped: MaxWaitLimiter[str] = MaxWaitLimiter(FastSlowLimiter(0.1, 7.0, 1), 3.0)
    assert [capped.when("a") for _ in range(3)] == [0.1, 3.0, 3.0]
    longest: MaxOfLimiter[str] = MaxOfLimiter(ExponentialFailureLimiter(1.0, 9.0), BucketLimiter(env, 1.0, 1))
    assert [longest.when("a") for _ in range(4)] == [1.0, 2.0, 4.0, 8.0]
    assert longest.when("b") == 4.0, "the bucket's turn: five calls, one token"


async def test_due_time_of_a_key(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env)
    assert queue.seconds_until_due("a") is None
    queue.add_after("a", 5.0)
    await asyncio.sleep(2)
    assert queue.seconds_until_due("a") == 3.0
    await asyncio.sleep(3)
    assert (queue.seconds_until_due("a"), queue.is_processing("a")) == (0.0, False)
    await queue.get()
    assert (queue.seconds_until_due("a"), queue.is_processing("a")) == (None, True)
    queue.done("a")
    assert not queue.is_processing("a")


async def test_delayed_key_is_readded_without_a_worker(env: Env) -> None:
    metrics = Registry()
    queue: WorkQueue[str] = WorkQueue(env, "passes", metrics)
    rests = True
    requests: list[float] = []

    def at_rest(_key: str) -> float | None:
        requests.append(env.monotonic())
        return 5.0 if rests else None

    queue.at_rest = at_rest
    received: list[float] = []

    async def work() -> None:
        while True:
            key = await queue.get()
            received.append(env.monotonic())
            await asyncio.sleep(0)
            queue.done(key)
            queue.add_after(key, 5.0)

    worker = asyncio.create_task(work())
    queue.add("pass")
    await asyncio.sleep(17.0)
    assert (received, requests) == ([0.0], [5.0, 10.0, 15.0])
    text = metrics.exposition()
    assert 'workqueue_adds_total{name="passes"} 4' in text
    assert 'workqueue_retries_total{name="passes"} 4' in text
    assert 'workqueue_work_duration_seconds_count{name="passes"} 4' in text
    rests = False
    await asyncio.sleep(10.0)
    assert received == [0.0, 20.0, 25.0], "at the times at which it would have been due"
    rests = True
    queue.add("pass")
    await asyncio.sleep(1.0)
    assert received[-1] == 27.0, "who adds it has it worked on"
    worker.cancel()


def test_events_during_a_busy_loop_are_merged_into_one_sync() -> None:
    """In real time: the test waits for iterations of the loop, not for a clock."""

    async def main() -> tuple[list[str], list[str]]:
        queue: WorkQueue[str] = WorkQueue(Env(), turns=8)
        received: list[str] = []

        async def work() -> None:
            while True:
                key = await queue.get()
                received.append(key)
                queue.done(key)

        worker = asyncio.create_task(work())
        for _turn in range(4):
            queue.add("busy")
            await asyncio.sleep(0)
        queue.add("other")
        for _turn in range(12):
            await asyncio.sleep(0)
        first = [*received]
        queue.add("busy")
        queue.shut_down()
        await asyncio.gather(worker, return_exceptions=True)
        return first, received

    first, all_of_them = asyncio.run(main())
    assert first == ["busy", "other"]
    assert all_of_them == ["busy", "other", "busy"], "what is held back is handed out at the end"


async def test_keys_are_handed_out_immediately_in_virtual_time(env: Env) -> None:
    queue: WorkQueue[str] = WorkQueue(env, turns=8)
    queue.add("a")
    assert len(queue) == 1
