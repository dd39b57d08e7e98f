"""When etcd is asked for its progress, and when callers give up."""

import asyncio

import pytest

from pilothouse.env import Env
from pilothouse.storage.etcd.progress_requester import ProgressRequester


class Waiting:
    """A requester with one caller that waits for revision 7, for at most a second."""

    def __init__(self, *, has_event: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.requested: list[float] = []
        self.timed_out: list[tuple[float, int]] = []
        self.last_event = -1.0
        self.requester = ProgressRequester(self._request, lambda: self.last_event, self._time_out, 1.0)
        self.waiter = self.loop.create_future()
        self.requester.add(self.waiter, 7, self.loop, has_event=has_event)

    async def _request(self) -> None:
        self.requested.append(round(self.loop.time() - self.began, 3))

    def _time_out(self, waiter: "asyncio.Future[None]", revision: int) -> None:
        self.timed_out.append((round(self.loop.time() - self.began, 3), revision))
        waiter.set_result(None)
        self.requester.remove(waiter)


async def test_progress_is_requested_after_a_moment_and_periodically(env: Env) -> None:
    waiting = Waiting()
    await asyncio.sleep(0.25)
    assert waiting.requested == [0.005, 0.105, 0.205]
    waiting.requester.remove(waiting.waiter)
    await asyncio.sleep(1)
    assert len(waiting.requested) == 3
    await waiting.requester.close()


async def test_progress_is_not_requested_while_events_arrive(env: Env) -> None:
    waiting = Waiting()
    for _ in range(20):
        waiting.last_event = waiting.loop.time()
        await asyncio.sleep(0.002)
    assert waiting.requested == []
    await asyncio.sleep(0.006)
    assert len(waiting.requested) == 1
    await waiting.requester.close()


async def test_progress_is_not_requested_for_a_revision_with_an_event(env: Env) -> None:
    waiting = Waiting(has_event=True)
    await asyncio.sleep(0.5)
    assert waiting.requested == []
    other = waiting.loop.create_future()
    waiting.requester.add(other, 8, waiting.loop, has_event=False)
    await asyncio.sleep(0.006)
    assert waiting.requested == [0.505]
    waiting.requester.remove(other)
    await asyncio.sleep(0.3)
    assert waiting.requested == [0.505]
    await waiting.requester.close()


@pytest.mark.parametrize("has_event", [False, True])
async def test_caller_times_out(env: Env, *, has_event: bool) -> None:
    waiting = Waiting(has_event=has_event)
    await asyncio.sleep(3)
    ((seconds, revision),) = waiting.timed_out
    assert 1 <= seconds <= 1.1
    assert revision == 7
    await waiting.requester.close()


async def test_caller_times_out_although_events_arrive(env: Env) -> None:
    waiting = Waiting()
    while not waiting.timed_out and waiting.loop.time() < waiting.began + 3:
        waiting.last_event = waiting.loop.time()
        await asyncio.sleep(0.002)
    assert 1 <= waiting.timed_out[0][0] <= 1.1
    await waiting.requester.close()
