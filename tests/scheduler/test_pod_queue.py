"""The order in which pods are decided, and who is tried again when. As kube-scheduler v1.36's
``pkg/scheduler/backend/queue`` tests, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pilothouse.env import Env
from pilothouse.env.virtual import run
from pilothouse.scheduler.pod_queue import PARKED_SECONDS, Entry, PodQueue


def with_queue(story: Callable[[PodQueue], Awaitable[None]]) -> None:
    async def main(env: Env) -> None:
        await story(PodQueue(env))

    run(main)


async def now_ready(queue: PodQueue) -> list[str]:
    """The keys that can be had at this instant, in order. They stay taken."""
    keys = []
    while True:
        try:
            async with asyncio.timeout(0.0001):
                keys.append((await queue.get()).key)
        except TimeoutError:
            return keys


async def park(queue: PodQueue, key: str, *, attempts: int = 1) -> Entry:
    """A pod that was tried so often and fits nowhere."""
    queue.put(key, "u", 0)
    entry = await queue.get()
    assert entry.key == key
    entry.attempts = attempts
    queue.refuse(entry, frozenset())
    queue.park(entry)
    return entry


def always(_entry: Entry) -> bool:
    return True


def test_priority_comes_first_then_order_of_arrival() -> None:
    async def story(queue: PodQueue) -> None:
        for key, priority in (("a", 0), ("b", 10), ("c", 0), ("d", 10), ("e", -5)):
            queue.put(key, "u", priority)
        assert await now_ready(queue) == ["b", "d", "a", "c", "e"]

    with_queue(story)


def test_a_pod_that_is_put_twice_comes_once() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        queue.put("a", "u", 0)
        assert await now_ready(queue) == ["a"]

    with_queue(story)


def test_a_discarded_pod_does_not_come() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        queue.put("b", "u", 0)
        queue.discard("a")
        assert await now_ready(queue) == ["b"]
        assert len(queue) == 1

    with_queue(story)


def test_a_waiting_taker_gets_what_comes() -> None:
    async def story(queue: PodQueue) -> None:
        taker = asyncio.ensure_future(queue.get())
        await asyncio.sleep(5)
        queue.put("a", "u", 0)
        assert (await taker).key == "a"

    with_queue(story)


def test_a_parked_pod_waits_for_an_event_that_helps_it() -> None:
    async def story(queue: PodQueue) -> None:
        await park(queue, "a")
        await park(queue, "b")
        await asyncio.sleep(60)
        assert await now_ready(queue) == []
        queue.wake(lambda entry: entry.key == "b")
        assert await now_ready(queue) == ["b"]

    with_queue(story)


def test_a_wake_up_while_the_pod_is_decided_is_not_lost() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        entry = await queue.get()
        queue.refuse(entry, frozenset())
        queue.wake(always)
        queue.park(entry)
        assert await now_ready(queue) == ["a"]

    with_queue(story)


def test_a_wake_up_that_would_not_help_does_not_count_later() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        entry = await queue.get()
        queue.refuse(entry, frozenset())
        queue.wake(lambda _entry: False)
        queue.park(entry)
        await asyncio.sleep(60)
        assert await now_ready(queue) == []

    with_queue(story)


def test_a_change_of_the_pod_while_it_is_decided_is_not_lost() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        entry = await queue.get()
        queue.put("a", "u", 0)
        queue.park(entry)
        assert await now_ready(queue) == ["a"]

    with_queue(story)


def test_a_woken_pod_need_not_wait_for_its_backoff_when_nothing_else_is_to_do() -> None:
    async def story(queue: PodQueue) -> None:
        await park(queue, "a", attempts=5)
        queue.wake(always)
        queue.put("b", "u", -1)
        assert await now_ready(queue) == ["b", "a"], "but whoever does not rest comes first"

    with_queue(story)


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (100, 10)])
def test_a_failed_attempt_is_repeated_with_backoff(attempts: int, seconds: float) -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        entry = await queue.get()
        entry.attempts = attempts
        queue.retry(entry)
        await asyncio.sleep(seconds - 0.01)
        assert await now_ready(queue) == []
        await asyncio.sleep(0.01)
        assert await now_ready(queue) == ["a"]

    with_queue(story)


def test_a_taker_sleeps_exactly_until_a_backoff_ends() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        queue.retry(await queue.get())
        loop = asyncio.get_running_loop()
        before = loop.time()
        assert (await queue.get()).key == "a"
        assert loop.time() - before == pytest.approx(1.0)

    with_queue(story)


def test_a_pod_that_nothing_wakes_is_tried_again_in_the_end() -> None:
    async def story(queue: PodQueue) -> None:
        await park(queue, "a")
        await asyncio.sleep(PARKED_SECONDS - 1)
        queue.wake_old()
        assert await now_ready(queue) == []
        await asyncio.sleep(1)
        queue.wake_old()
        assert await now_ready(queue) == ["a"]

    with_queue(story)


def test_a_successor_of_the_same_name_is_another_pod() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "old", 0)
        entry = await queue.get()
        queue.put("a", "new", 0)
        queue.park(entry)  # what became of the old one matters to nobody
        queue.retry(entry)
        successor = await queue.get()
        assert (successor.uid, successor.attempts) == ("new", 1)
        assert await now_ready(queue) == []

    with_queue(story)


def test_a_pod_discarded_while_it_is_decided_does_not_come_back() -> None:
    async def story(queue: PodQueue) -> None:
        queue.put("a", "u", 0)
        entry = await queue.get()
        queue.discard("a")
        queue.park(entry)
        queue.wake(always)
        queue.retry(entry)
        await asyncio.sleep(60)
        assert await now_ready(queue) == []
        assert len(queue) == 0

    with_queue(story)


def test_events_far_away_are_for_those_whom_they_may_help() -> None:
    async def story(queue: PodQueue) -> None:
        for key, afar in (("near", False), ("far", True), ("gone", True)):
            queue.put(key, "u", 0)
            entry = await queue.get()
            queue.refuse(entry, frozenset(), afar=afar)
            queue.park(entry)
        queue.discard("gone")
        asked: list[str] = []

        def helps(entry: Entry) -> bool:
            asked.append(entry.key)
            return True

        assert queue.anybody_waits(afar=True)
        queue.wake(helps, afar=True)
        assert (asked, await now_ready(queue)) == (["far"], ["far"])
        assert not queue.anybody_waits(afar=True)
        assert queue.anybody_waits()
        queue.wake(helps)
        assert (asked, await now_ready(queue)) == (["far", "near"], ["near"])

    with_queue(story)
