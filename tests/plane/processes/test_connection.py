"""Requests and watches of programs in another process, over linked ends."""

import asyncio

import msgspec
import pytest
from tests.controllers.decisions import causes
from tests.plane.processes.linked import link, linked

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.api.wire import Request, Response
from pilothouse.client.errors import AlreadyExists, ConnectionLost
from pilothouse.env import Env
from pilothouse.machinery.causes import Cause, begin_sync, record_decision
from pilothouse.plane.clients import ADMIN, LocalClients
from pilothouse.plane.processes.framing import Framing
from pilothouse.plane.processes.messages import LENGTH_BYTES, Answer, Call, Cancel, Ended
from pilothouse.plane.processes.server_connection import RemoteStream

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, size: int = 0) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"key": "x" * size}}


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
async def test_requests_and_their_errors(env: Env, size: int) -> None:
    async with linked(env, size=size) as plane:
        created = await plane.client.create(CONFIG_MAPS.raw, config_map("one", 100), "default")
        assert b'"name":"one"' in bytes(created)
        with pytest.raises(AlreadyExists):
            await plane.client.create(CONFIG_MAPS.raw, config_map("one"), "default")
        names = [item.metadata.name for item in (await plane.client.list(CONFIG_MAPS, "default")).items]
        assert names == ["one"]


async def test_concurrent_requests_get_their_own_responses(env: Env) -> None:
    async with linked(env, size=50) as plane:
        created = await asyncio.gather(
            *(plane.client.create(CONFIG_MAPS.raw, config_map(f"c{number}"), "default") for number in range(30))
        )
        assert all(f'"name":"c{number}"'.encode() in bytes(body) for number, body in enumerate(created))


async def test_frames_are_joined_and_split() -> None:
    received: list[bytes] = []
    ended: list[bool] = []
    one, other = (
        Framing(lambda _payload: None, lambda: None),
        Framing(lambda payload: received.append(bytes(payload)), lambda: ended.append(True)),
    )
    payloads = [b"", b"a", b"b" * 10_000, b"c"]
    for size in (1, 3, LENGTH_BYTES, LENGTH_BYTES + 1, 1 << 20):
        received.clear()
        link(one, other, size)
        for payload in payloads:
            one.send(payload)
        await asyncio.sleep(1)
        assert received == payloads
    one.close()
    assert ended == [True]


async def test_an_event_is_sent_once_for_all_watches(env: Env) -> None:
    async with linked(env) as plane:
        transport = plane.connection.transport("watcher", ("system:masters",), user_agent="", metrics=None)
        streams = [await transport.open(Request("GET", f"{MAPS}?watch=true")) for _ in range(5)]
        iterators = [stream.batches() for stream in streams]
        waiting = [asyncio.ensure_future(anext(iterator)) for iterator in iterators]
        await asyncio.sleep(1)
        sent = plane.to_programs.carried
        await plane.client.create(CONFIG_MAPS.raw, config_map("large", 50_000), "default")
        batches = await asyncio.gather(*waiting)
        assert plane.to_programs.carried - sent < 2 * 51_000, "the response, and one event"
        lines = {id(line) for batch in batches for line in batch}
        assert len(lines) == 1, "one object, which is decoded once"
        for stream in streams:
            await stream.close()
        await asyncio.sleep(1)
        assert not plane.server.core.watches


async def test_order_of_events_is_kept(env: Env) -> None:
    async with linked(env, size=37) as plane:
        transport = plane.connection.transport("watcher", ("system:masters",), user_agent="", metrics=None)
        stream = await transport.open(Request("GET", f"{MAPS}?watch=true"))
        for number in range(50):
            await plane.client.create(CONFIG_MAPS.raw, config_map(f"c{number:02}"), "default")
        names: list[bytes] = []
        async with asyncio.timeout(10):
            async for lines in stream.batches():
                names += [line.split(b'"name":"')[1][:3] for line in lines]
                if len(names) == 50:
                    break
        assert names == [b"c%02d" % number for number in range(50)]


async def test_a_watch_ends_with_its_timeout_and_has_bookmarks(env: Env) -> None:
    async with linked(env) as plane:
        transport = plane.connection.transport("watcher", ("system:masters",), user_agent="", metrics=None)
        target = f"{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=100"
        stream = await transport.open(Request("GET", target))
        lines = [line async for line in stream]
        assert lines
        assert all(line.startswith(b'{"type":"BOOKMARK"') for line in lines)
        assert not plane.connection._streams


class _Blocking:
    """A transport whose requests never end."""

    def __init__(self) -> None:
        self.cancelled = 0

    async def request(self, _request: Request) -> Response:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError

    async def open(self, request: Request) -> RemoteStream:
        raise ZeroDivisionError(request.target)

    async def close(self) -> None: ...


async def test_cancelled_requests_are_cancelled_in_the_server(env: Env) -> None:
    async with linked(env) as plane:
        blocking = _Blocking()
        plane.programs._connect = lambda *_user, **_more: blocking
        transport = plane.connection.transport("a", (), user_agent="", metrics=None)
        task = asyncio.create_task(transport.request(Request("GET", MAPS)))
        await asyncio.sleep(1)
        assert len(plane.programs._tasks) == 1
        task.cancel()
        await asyncio.sleep(1)
        assert task.cancelled()
        assert blocking.cancelled == 1
        assert not plane.programs._tasks


async def test_requests_that_arrive_together_with_their_cancellation_are_forgotten(env: Env) -> None:
    async with linked(env) as plane:
        plane.connection.transport("a", (), user_agent="", metrics=None)
        await asyncio.sleep(1)
        for opens in (False, True):
            call = Call(1000, 1, opens, "GET", MAPS, {}, b"", None)
            plane.programs._on_frame(memoryview(msgspec.msgpack.encode([call, Cancel(1000)])))
            await asyncio.sleep(1)
            assert not plane.programs._tasks


async def test_a_stream_ends_in_the_server_if_its_reader_is_cancelled_when_the_response_arrives(
    env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(env) as plane:
        transport = plane.connection.transport("watcher", ("system:masters",), user_agent="", metrics=None)
        opening = asyncio.create_task(transport.open(Request("GET", f"{MAPS}?watch=true")))
        handle = plane.connection._on_answer

        def handle_and_cancel(message: Answer | Ended) -> None:
            handle(message)
            opening.cancel()

        monkeypatch.setattr(plane.connection, "_on_answer", handle_and_cancel)
        await asyncio.sleep(1)
        assert opening.cancelled()
        assert not plane.connection._streams
        assert not plane.programs._tasks
        assert not plane.server.core.watches


async def test_a_failure_in_the_server_is_a_lost_connection(env: Env) -> None:
    async with linked(env) as plane:
        plane.programs._connect = lambda *_user, **_more: _Blocking()
        transport = plane.connection.transport("a", (), user_agent="", metrics=None)
        with pytest.raises(ConnectionLost, match="ZeroDivisionError: /x"):
            await transport.open(Request("GET", "/x"))
        assert not plane.connection._streams


async def test_everything_ends_with_the_connection(env: Env) -> None:
    async with linked(env) as plane:
        transport = plane.connection.transport("a", ("system:masters",), user_agent="", metrics=None)
        stream = await transport.open(Request("GET", f"{MAPS}?watch=true"))
        watching = asyncio.ensure_future(anext(stream.batches()))
        plane.programs._transports[2] = _Blocking()
        request = asyncio.create_task(transport.request(Request("GET", MAPS)))
        await asyncio.sleep(1)
        plane.programs.framing.close()
        for waiting in (watching, request):
            with pytest.raises(ConnectionLost, match="the process of the API server has ended"):
                await waiting
        assert plane.connection.stopped.is_set()
        with pytest.raises(ConnectionLost):
            await transport.request(Request("GET", MAPS))


async def test_the_cause_of_a_write_is_recorded_by_the_server(env: Env) -> None:
    async with linked(env) as plane:
        begin_sync("replicaset-controller", "default/web")
        record_decision("2 of 3 pods exist")
        await plane.client.create(CONFIG_MAPS.raw, config_map("one"), "default")
        (cause,) = causes(plane.server.store, "configmaps", "one")
        assert cause == Cause("replicaset-controller", "default/web", "2 of 3 pods exist")


async def test_metrics_are_requested_from_the_programs(env: Env) -> None:
    async with linked(env) as plane:
        plane.connection.metric_pages = lambda: {"kube-scheduler": "page\n"}
        first, second = await asyncio.gather(plane.programs.metrics(), plane.programs.metrics())
        assert first == second == {"kube-scheduler": "page\n"}
        plane.connection.framing.close()
        assert await plane.programs.metrics() == {}


async def test_metrics_of_the_server_do_not_wait_for_the_programs(env: Env) -> None:
    async with linked(env) as plane:
        asked: list[str] = []

        async def hang() -> None:
            asked.append("programs")
            await asyncio.sleep(3600)

        plane.server.component_metrics["kube-scheduler"] = []
        plane.server.update_component_metrics = hang
        transport = plane.server.transport("client", ("system:masters",), user_agent="", metrics=None)
        async with asyncio.timeout(1):
            for path in ("/metrics", "/metrics/slis", "/metrics?component=kube-apiserver"):
                assert (await transport.request(Request("GET", path))).status in (200, 404)
        assert not asked
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await transport.request(Request("GET", "/metrics?component=kube-scheduler"))
        assert asked


async def test_events_wait_in_the_watch_of_a_reader_that_does_not_keep_up(env: Env) -> None:
    async with linked(env) as plane:
        transport = plane.connection.transport("watcher", ("system:masters",), user_agent="", metrics=None)
        stream = await transport.open(Request("GET", f"{MAPS}?watch=true"))
        outside = LocalClients(env, plane.server.transport).client("client", *ADMIN)
        plane.programs.framing.pause_writing()
        for name in ("one", "two", "three"):
            await outside.create(CONFIG_MAPS.raw, config_map(name), "default")
            await asyncio.sleep(1)
        batches = stream.batches()
        assert b'"name":"one"' in (await anext(batches))[0]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await anext(stream.batches())
        plane.programs.framing.resume_writing()
        assert [line.count(b'"name":"t') for line in await anext(stream.batches())] == [1, 1]
