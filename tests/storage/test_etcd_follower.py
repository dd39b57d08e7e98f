"""Delivery of etcd events: in order, batched for many watchers, and bounded."""

import asyncio
from typing import Any, cast

import grpc.aio
import pytest

from pilothouse.env import Env
from pilothouse.storage.etcd import follower as module
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient, EtcdError
from pilothouse.storage.etcd.follower import Follower
from pilothouse.storage.etcd.transactions import KnownPair, OwnEvent


class Stream:
    """The messages of etcd, as scripted by the test."""

    def __init__(self) -> None:
        self.responses: asyncio.Queue[Any] = asyncio.Queue()
        self.reads = 0

    def send(self, *revisions: int, fragment: bool = False) -> None:
        """One response with an event of each revision."""
        response = messages.WatchResponse(fragment=fragment)
        for revision in revisions:
            event = response.events.add()
            event.kv.key, event.kv.mod_revision = b"/t/a", revision
        self.responses.put_nowait(response)

    def progress(self, revision: int) -> None:
        response = messages.WatchResponse()
        response.header.revision = revision
        self.responses.put_nowait(response)

    def end(self) -> None:
        self.responses.put_nowait(grpc.aio.EOF)

    async def read(self) -> Any:
        self.reads += 1
        return await self.responses.get()

    async def write(self, _request: Any) -> None:
        self.responses.put_nowait(messages.WatchResponse(created=True))

    def add_done_callback(self, _callback: Any) -> None:
        """The test ends it."""

    def cancel(self) -> None:
        """It is over."""


class Received:
    """A follower of such a stream, and the changes that it emits."""

    def __init__(self, woken: int = 0, pending_writes: int = 0) -> None:
        self.stream = Stream()
        self.woken = woken
        self.found: list[Any] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        stream = self.stream

        class Client:
            def watch(self) -> Stream:
                return stream

        self.follower = Follower(
            cast(EtcdClient, Client()), b"/t/", self._receive, self._advance, lambda: pending_writes
        )

    async def _receive(self, events: list[Any]) -> int:
        self.found.append([event.kv.mod_revision for event in events])
        await self.may_go_on.wait()
        return self.woken

    def _advance(self, revision: int) -> None:
        if revision:
            self.found.append(revision)

    def own(self, *revisions: int) -> None:
        """A transaction of this server has got that revision, once for each of its keys."""
        events = [OwnEvent(messages.PUT, KnownPair(b"/t/a", b"", revision)) for revision in revisions]
        self.follower.add_own_events(revisions[0], events)


def _revisions(found: list[Any]) -> list[int]:
    """Those of all delivered events."""
    return [revision for part in found if isinstance(part, list) for revision in part]


async def _ended(received: Received) -> list[Any]:
    with pytest.raises(EtcdError, match="the watch has ended"):
        await received.follower.follow(1)
    return received.found


async def test_events_before_the_end_are_delivered(env: Env) -> None:
    received = Received()
    for revision in (2, 3):
        received.stream.send(revision)
    received.stream.progress(9)
    received.stream.end()
    result = await _ended(received)
    assert [revision for part in result if isinstance(part, list) for revision in part] == [2, 3]
    assert result[-1] == 9


async def test_outdated_progress_is_dropped(env: Env) -> None:
    """It is older than a received revision."""
    received = Received()
    received.may_go_on.clear()
    following = asyncio.ensure_future(_ended(received))
    received.stream.send(2)
    await asyncio.sleep(0.1)
    received.stream.progress(3)
    received.stream.send(4)
    received.stream.end()
    await asyncio.sleep(0.1)
    received.may_go_on.set()
    assert await following == [[2], [4]]


@pytest.mark.parametrize(("watchers", "batches"), [(1, 5), (200, 2)])
async def test_events_are_batched_for_many_watchers(env: Env, watchers: int, batches: int) -> None:
    """A millisecond lies between the events: less than it takes to wake two hundred watchers."""
    received = Received(woken=watchers)
    following = asyncio.ensure_future(_ended(received))
    for revision in range(2, 7):
        received.stream.send(revision)
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.1)
    received.stream.end()
    result = await following
    assert [revision for batch in result for revision in batch] == [2, 3, 4, 5, 6]
    assert len(result) == batches


@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        pytest.param(3, [[2], [3], [4], [5]], id="few writes are reported immediately"),
        pytest.param(4, [[2, 3], [4, 5]], id="many of them have arrived"),
        pytest.param(100, [[2, 3, 4, 5]], id="the delay has passed"),
    ],
)
async def test_reports_of_own_writes_are_batched(env: Env, pending: int, expected: list[list[int]]) -> None:
    received = Received(pending_writes=pending)
    following = asyncio.ensure_future(_ended(received))
    for revision in range(2, 6):
        received.stream.send(revision)
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.006)
    result = list(received.found)
    received.stream.end()
    await following
    assert result == expected


async def test_own_events_do_not_wait_for_the_watch(env: Env) -> None:
    received = Received()
    following = asyncio.ensure_future(_ended(received))
    await asyncio.sleep(0.1)
    received.own(2)
    received.own(3)
    await asyncio.sleep(0.1)
    assert _revisions(received.found) == [2, 3]
    received.stream.send(2)
    received.stream.send(3, 4)
    received.stream.end()
    assert _revisions(await following) == [2, 3, 4], "each once"


async def test_own_events_follow_everything_before_them(env: Env) -> None:
    """Another server has written revision 3; 6 concerns nothing below the root, which the watch does not say."""
    received = Received()
    following = asyncio.ensure_future(_ended(received))
    await asyncio.sleep(0.1)
    for revision in (5, 4, 7, 2):
        received.own(revision)
        await asyncio.sleep(0.1)
    assert _revisions(received.found) == [2]
    received.stream.send(3)
    await asyncio.sleep(0.1)
    assert _revisions(received.found) == [2, 3, 4, 5]
    received.stream.progress(6)
    await asyncio.sleep(0.1)
    assert _revisions(received.found) == [2, 3, 4, 5, 7]
    received.own(9)
    received.stream.send(4, 5, 7, 8, 9)
    received.stream.end()
    assert _revisions(await following) == [2, 3, 4, 5, 7, 8, 9]


async def test_own_events_between_fragments(env: Env) -> None:
    """Of a revision of several keys, of which the watch has sent a part."""
    received = Received()
    following = asyncio.ensure_future(_ended(received))
    await asyncio.sleep(0.1)
    received.stream.send(2, 2, fragment=True)
    await asyncio.sleep(0.1)
    received.own(2, 2, 2)
    await asyncio.sleep(0.1)
    assert _revisions(received.found) == [2, 2, 2]
    received.stream.send(2)
    received.stream.send(3)
    received.stream.end()
    assert _revisions(await following) == [2, 2, 2, 3]


async def test_own_events_without_a_stream_are_left_to_the_next_one(env: Env) -> None:
    received = Received()
    received.own(2)
    received.stream.end()
    await _ended(received)
    received.own(2)
    received.stream.send(2)
    received.stream.end()
    assert _revisions(await _ended(received)) == [2]


async def test_read_ahead_is_bounded(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_WAITING", 3)
    received = Received()
    received.may_go_on.clear()
    following = asyncio.ensure_future(_ended(received))
    for revision in range(2, 30):
        received.stream.send(revision)
    received.stream.end()
    await asyncio.sleep(1)
    assert received.stream.reads < 10
    received.may_go_on.set()
    result = await following
    assert [revision for batch in result for revision in batch] == [*range(2, 30)]
