"""The order of pods, and when unschedulable pods are scheduled again. As kube-scheduler v1.36's
``pkg/scheduler/backend/queue`` tests, in virtual time."""

import asyncio

import pytest

from pilothouse.env import Env
from pilothouse.scheduler.backend.scheduling_queue import (
    POD_MAX_IN_UNSCHEDULABLE_PODS_SECONDS,
    PriorityQueue,
    QueuedPodInfo,
)


@pytest.fixture
async def queue(env: Env) -> PriorityQueue:
    return PriorityQueue(env)


async def now_ready(queue: PriorityQueue) -> list[str]:
    """The keys that can be popped at this instant, in order. The pods stay in flight."""
    keys = []
    while True:
        try:
            async with asyncio.timeout(0.0001):
                keys.append((await queue.pop()).key)
        except TimeoutError:
            return keys


async def park(queue: PriorityQueue, key: str, *, attempts: int = 1, priority: int = 0) -> QueuedPodInfo:
    """An unschedulable pod after that many attempts."""
    queue.add(key, "u", priority)
    entry = await queue.pop()
    assert entry.key == key
    entry.attempts = attempts
    queue.mark_unschedulable(entry, frozenset())
    queue.add_unschedulable(entry)
    return entry


def always(_entry: QueuedPodInfo) -> bool:
    return True


async def test_pods_are_ordered_by_priority_then_arrival(queue: PriorityQueue) -> None:
    for key, priority in (("a", 0), ("b", 10), ("c", 0), ("d", 10), ("e", -5)):
        queue.add(key, "u", priority)
    assert await now_ready(queue) == ["b", "d", "a", "c", "e"]


async def test_a_pod_that_is_added_twice_is_popped_once(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    queue.add("a", "u", 0)
    assert await now_ready(queue) == ["a"]


async def test_a_deleted_pod_is_not_popped(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    queue.add("b", "u", 0)
    queue.delete("a")
    assert await now_ready(queue) == ["b"]
    assert len(queue) == 1


async def test_pop_waits_for_a_pod(queue: PriorityQueue) -> None:
    taker = asyncio.ensure_future(queue.pop())
    await asyncio.sleep(5)
    queue.add("a", "u", 0)
    assert (await taker).key == "a"


async def test_an_unschedulable_pod_waits_for_an_event_that_helps_it(queue: PriorityQueue) -> None:
    await park(queue, "a")
    await park(queue, "b")
    await asyncio.sleep(60)
    assert await now_ready(queue) == []
    queue.move_all_to_active_or_backoff_queue(lambda entry: entry.key == "b")
    assert await now_ready(queue) == ["b"]


async def test_an_event_while_the_pod_is_in_flight_is_not_lost(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    entry = await queue.pop()
    queue.mark_unschedulable(entry, frozenset())
    queue.move_all_to_active_or_backoff_queue(always)
    queue.add_unschedulable(entry)
    assert await now_ready(queue) == ["a"]


async def test_an_event_in_flight_that_does_not_help_moves_no_pod_later(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    entry = await queue.pop()
    queue.mark_unschedulable(entry, frozenset())
    queue.move_all_to_active_or_backoff_queue(lambda _entry: False)
    queue.add_unschedulable(entry)
    await asyncio.sleep(60)
    assert await now_ready(queue) == []


async def test_an_update_of_the_pod_while_it_is_in_flight_is_not_lost(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    entry = await queue.pop()
    queue.add("a", "u", 0)
    queue.add_unschedulable(entry)
    assert await now_ready(queue) == ["a"]


async def test_a_moved_pod_is_popped_from_backoff_when_no_other_pod_is_ready(queue: PriorityQueue) -> None:
    await park(queue, "a", attempts=5)
    queue.move_all_to_active_or_backoff_queue(always)
    queue.add("b", "u", -1)
    assert await now_ready(queue) == ["b", "a"], "but pods without backoff come first"


async def test_pods_whose_backoff_ends_in_the_same_second_are_ordered_by_priority(queue: PriorityQueue) -> None:
    await asyncio.sleep(0.1)
    for key, priority in (("a", 0), ("b", 10), ("c", 0)):
        await asyncio.sleep(0.1)
        await park(queue, key, priority=priority)
    await park(queue, "d", attempts=3, priority=20)
    queue.move_all_to_active_or_backoff_queue(always)
    assert await now_ready(queue) == ["b", "a", "c", "d"]


async def test_pods_that_were_tried_in_the_same_second_back_off_equally_long(queue: PriorityQueue) -> None:
    await asyncio.sleep(0.1)
    await park(queue, "low")
    await asyncio.sleep(0.8)
    await park(queue, "high", priority=10)
    await asyncio.sleep(0.4)
    queue.move_all_to_active_or_backoff_queue(always)
    assert await now_ready(queue) == ["high", "low"]


async def test_a_pod_that_was_tried_before_another_one_was_added_comes_first(queue: PriorityQueue) -> None:
    await park(queue, "a")
    await asyncio.sleep(60)
    queue.add("b", "u", 0)
    queue.move_all_to_active_or_backoff_queue(always)
    assert await now_ready(queue) == ["a", "b"]


async def test_pods_in_backoff_do_not_overtake_one_of_higher_priority_whose_report_is_being_written(
    queue: PriorityQueue,
) -> None:
    queue.add("high", "u", 10)
    high = await queue.pop()
    queue.mark_unschedulable(high, frozenset())
    await park(queue, "low")
    queue.move_all_to_active_or_backoff_queue(always)
    assert await now_ready(queue) == []
    queue.add_unschedulable(high)
    assert await now_ready(queue) == ["high", "low"]


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (100, 10)])
async def test_after_an_error_the_pod_waits_for_its_backoff(
    queue: PriorityQueue, attempts: int, seconds: float
) -> None:
    queue.add("a", "u", 0)
    entry = await queue.pop()
    entry.attempts = attempts
    queue.add_to_error_backoff(entry)
    await asyncio.sleep(seconds - 0.01)
    assert await now_ready(queue) == []
    await asyncio.sleep(0.01)
    assert await now_ready(queue) == ["a"]


async def test_pop_waits_exactly_until_a_backoff_ends(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    queue.add_to_error_backoff(await queue.pop())
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert (await queue.pop()).key == "a"
    assert loop.time() - before == pytest.approx(1.0)


async def test_leftover_unschedulable_pods_are_flushed_after_five_minutes(queue: PriorityQueue) -> None:
    await park(queue, "a")
    await asyncio.sleep(POD_MAX_IN_UNSCHEDULABLE_PODS_SECONDS - 1)
    queue.flush_unschedulable_pods_leftover()
    assert await now_ready(queue) == []
    await asyncio.sleep(1)
    queue.flush_unschedulable_pods_leftover()
    assert await now_ready(queue) == ["a"]


async def test_a_new_pod_of_the_same_name_has_its_own_attempts(queue: PriorityQueue) -> None:
    queue.add("a", "old", 0)
    entry = await queue.pop()
    queue.add("a", "new", 0)
    queue.add_unschedulable(entry)  # has no effect: the pod was replaced
    queue.add_to_error_backoff(entry)
    successor = await queue.pop()
    assert (successor.uid, successor.attempts) == ("new", 1)
    assert await now_ready(queue) == []


async def test_a_pod_deleted_while_in_flight_does_not_come_back(queue: PriorityQueue) -> None:
    queue.add("a", "u", 0)
    entry = await queue.pop()
    queue.delete("a")
    queue.add_unschedulable(entry)
    queue.move_all_to_active_or_backoff_queue(always)
    queue.add_to_error_backoff(entry)
    await asyncio.sleep(60)
    assert await now_ready(queue) == []
    assert len(queue) == 0


async def test_cluster_wide_events_are_only_for_pods_that_they_may_help(queue: PriorityQueue) -> None:
    for key, afar in (("near", False), ("far", True), ("gone", True)):
        queue.add(key, "u", 0)
        entry = await queue.pop()
        queue.mark_unschedulable(entry, frozenset(), cluster_wide=afar)
        queue.add_unschedulable(entry)
    queue.delete("gone")
    requests: list[str] = []

    def helps(entry: QueuedPodInfo) -> bool:
        requests.append(entry.key)
        return True

    assert queue.has_unschedulable_pods(cluster_wide=True)
    queue.move_all_to_active_or_backoff_queue(helps, cluster_wide=True)
    assert (requests, await now_ready(queue)) == (["far"], ["far"])
    assert not queue.has_unschedulable_pods(cluster_wide=True)
    assert queue.has_unschedulable_pods()
    queue.move_all_to_active_or_backoff_queue(helps)
    assert (requests, await now_ready(queue)) == (["far", "near"], ["near"])
