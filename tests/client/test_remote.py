"""The remote transport against a scripted server."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

import pytest
from tests.client.scripted_server import Handler, ReceivedRequest, ScriptedServer
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.client.endpoint import parse_endpoint, parse_proxy
from pilothouse.client.errors import ConnectFailed, ConnectionLost, ConnectionRefused
from pilothouse.client.remote import RemoteTransport
from pilothouse.client.requests import FencedRequest
from pilothouse.env import Env

pytestmark = pytest.mark.real_loop(timeout=20)

GET = wire.Request("GET", "/api/v1/pods", {"accept": "application/json"})
POST = wire.Request("POST", "/api/v1/pods", {"content-type": "application/json"}, b'{"a":1}')


Pair = tuple[ScriptedServer, RemoteTransport]


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, *, max_connections: int = 32
) -> AsyncIterator[tuple[ScriptedServer, RemoteTransport]]:
    async with ScriptedServer(handler) as server:
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), max_connections=max_connections)
        try:
            yield server, transport
        finally:
            await transport.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in the server, which knows no events
            await asyncio.sleep(0.001)


async def read_whole(transport: RemoteTransport) -> bytes:
    return b"".join([piece async for piece in await transport.open(GET)])


async def test_request_and_response_are_transferred_completely() -> None:
    async with serving(lambda request: request.answer(b'{"b":2}', status=201, headers="X-A: 1\r\nX-A: 2\r\n")) as pair:
        server, transport = pair
        response = await transport.request(POST)
        assert (response.status, response.body, response.headers["x-a"]) == (201, b'{"b":2}', "1, 2")
        requests = server.requests[0]
        assert (requests.method, requests.target, requests.body) == ("POST", "/api/v1/pods", b'{"a":1}')
        assert requests.header("host") == f"127.0.0.1:{server.port}"
        assert requests.header("content-length") == "7"


async def test_sequential_requests_share_a_connection() -> None:
    async with serving(ReceivedRequest.answer) as (server, transport):
        for _ in range(5):
            await transport.request(POST)
        assert len(server.connections) == 1


async def test_connection_limit_is_fifo() -> None:
    requests: list[ReceivedRequest] = []
    async with serving(requests.append, max_connections=2) as (server, transport):
        calls = [asyncio.ensure_future(transport.request(wire.Request("GET", f"/{i}"))) for i in range(6)]
        order: list[str] = []
        for _ in range(3):
            await until(lambda: len(requests) == 2)
            for item in requests:
                order.append(item.target)
                item.answer()
            requests.clear()
        await asyncio.gather(*calls)
        assert len(server.connections) == 2
        assert [sorted(order[i : i + 2]) for i in (0, 2, 4)] == [["/0", "/1"], ["/2", "/3"], ["/4", "/5"]]


async def test_watches_use_separate_connections() -> None:
    def handler(request: ReceivedRequest) -> None:
        if "watch" in request.target:
            request.begin()
        else:
            request.answer()

    async with serving(handler, max_connections=1) as (server, transport):
        streams = [await transport.open(wire.Request("GET", "/pods?watch=true")) for _ in range(5)]
        assert (await transport.request(GET)).status == 200
        assert server.open_connections == 6
        for stream in streams:
            await stream.close()
        await until(lambda: server.open_connections == 1)


async def test_closed_port_is_connection_refused() -> None:
    async with serving(ReceivedRequest.answer) as (_, transport):
        pass
    transport = RemoteTransport(transport.endpoint, Env())
    for call in (transport.request(GET), transport.open(GET)):
        with pytest.raises(ConnectionRefused, match="connection refused by 127"):
            await call
    # Also with many waiting callers: each of them fails.
    answers = await asyncio.gather(*(transport.request(GET) for _ in range(100)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {ConnectionRefused}
    await transport.close()


async def test_unknown_host_error() -> None:
    transport = RemoteTransport(parse_endpoint("http://no-such-host.invalid:1", "test"), Env())
    with pytest.raises(ConnectFailed, match=r"cannot find no-such-host\.invalid:1"):
        await transport.request(GET)
    await transport.close()


@pytest.mark.parametrize("request_", [GET, POST], ids=["read", "write"])
async def test_idle_connection_closed_by_the_server_is_not_reused(request_: wire.Request) -> None:
    async with serving(ReceivedRequest.answer) as (server, transport):
        await transport.request(GET)
        server.connections[0].close()
        await until(lambda: server.open_connections == 0)
        await asyncio.sleep(0.01)
        assert (await transport.request(request_)).status == 200


async def test_long_idle_connection_is_checked_before_use() -> None:
    """The server has closed it, but this loop has not had a turn to notice: a write must still not be lost."""
    async with serving(ReceivedRequest.answer) as (server, transport):
        await transport.request(GET)
        server.connections[0].close()
        await asyncio.sleep(0)
        pool = transport._pool
        pool._idle[0].idle_since -= 1.0
        await asyncio.sleep(0)
        assert (await transport.request(POST)).status == 200


def closing_reused(request: ReceivedRequest) -> None:
    """Answers the first request of a connection and closes on the second, without an answer."""
    request.connection.seen = getattr(request.connection, "seen", 0) + 1  # type: ignore[attr-defined]
    if request.connection.seen == 2:  # type: ignore[attr-defined]
        request.connection.close()
    else:
        request.answer()


async def test_read_is_retried_after_a_keep_alive_race() -> None:
    async with serving(closing_reused) as (server, transport):
        await transport.request(GET)
        assert (await transport.request(GET)).status == 200
        assert len(server.requests) == 3


async def test_undecided_write_is_not_retried() -> None:
    async with serving(closing_reused) as (server, transport):
        await transport.request(GET)
        with pytest.raises(ConnectionLost):
            await transport.request(POST)
        assert [request.method for request in server.requests] == ["GET", "POST"]


@cases(
    "sent",
    {
        "closed without response": b"",
        "truncated header": b"HTTP/1.1 200 OK\r\nContent-Le",
        "truncated body": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
        "missing last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
        "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    },
)
async def test_truncated_response_is_a_lost_connection(sent: bytes) -> None:
    def handler(request: ReceivedRequest) -> None:
        request.connection.send(sent)
        request.connection.close()

    async with serving(handler) as (_, transport):
        with pytest.raises(ConnectionLost):
            await transport.request(POST)
        with pytest.raises(ConnectionLost):
            await read_whole(transport)


async def test_body_without_content_length_ends_with_the_connection() -> None:
    def handler(request: ReceivedRequest) -> None:
        request.connection.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        request.connection.close()

    async with serving(handler) as (_, transport):
        assert (await transport.request(GET)).body == b"hello"


async def test_informational_response_is_skipped() -> None:
    def handler(request: ReceivedRequest) -> None:
        request.connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.answer(b"real")

    async with serving(handler) as (_, transport):
        assert (await transport.request(POST)).body == b"real"
        assert (await transport.request(POST)).body == b"real"


async def test_connection_close_is_respected() -> None:
    async with serving(lambda request: request.answer(headers="Connection: close\r\n")) as (server, transport):
        await transport.request(POST)
        await transport.request(POST)
        assert len(server.connections) == 2


async def test_cancelled_request_releases_its_slot() -> None:
    async with serving(lambda request: request.answer() if request.target == "/b" else None, max_connections=1) as pair:
        _, transport = pair
        first = asyncio.ensure_future(transport.request(wire.Request("GET", "/a")))
        waiting = asyncio.ensure_future(transport.request(wire.Request("GET", "/c")))
        second = asyncio.ensure_future(transport.request(wire.Request("GET", "/b")))
        await asyncio.sleep(0.02)
        waiting.cancel()
        first.cancel()
        assert (await second).status == 200


async def test_fence_is_checked_after_waiting_for_a_connection() -> None:
    requests: list[ReceivedRequest] = []
    fallen = False

    def fence() -> None:
        if fallen:
            raise PermissionError("no longer the leader")

    async with serving(requests.append, max_connections=1) as (server, transport):
        first = asyncio.ensure_future(transport.request(GET))
        write = FencedRequest("POST", "/x", {}, b"{}", fence)
        second = asyncio.ensure_future(transport.request(write))
        await until(lambda: len(requests) == 1)
        fallen = True
        requests[0].answer()
        await first
        with pytest.raises(PermissionError):
            await second
        assert len(server.requests) == 1


async def test_stream_delivers_chunks_and_ends_with_the_body() -> None:
    release = asyncio.Event()

    async def handler(request: ReceivedRequest) -> None:
        request.begin()
        request.chunk(b"one\n")
        await release.wait()
        request.chunk(b"two\n")
        request.chunk(b"three\n")
        request.chunk(b"")

    async with serving(handler) as (_, transport):
        stream = await transport.open(GET)
        pieces = aiter(stream)
        assert await anext(pieces) == b"one\n"
        release.set()
        assert b"".join([piece async for piece in pieces]) == b"two\nthree\n"


async def test_slow_reader_applies_backpressure() -> None:
    sent = 0

    async def handler(request: ReceivedRequest) -> None:
        nonlocal sent
        request.begin()
        writable = asyncio.Event()
        connection = request.connection
        connection.pause_writing = writable.clear  # type: ignore[method-assign]
        connection.resume_writing = writable.set  # type: ignore[method-assign]
        writable.set()
        piece = b"x" * 65536
        while sent < 64 << 20:
            await writable.wait()
            request.chunk(piece)
            sent += len(piece)
            await asyncio.sleep(0)
        request.chunk(b"")

    async with serving(handler) as (_, transport):
        stream = await transport.open(GET)
        await asyncio.sleep(0.3)
        stopped_at = sent
        assert stopped_at < 32 << 20
        assert sum([len(piece) async for piece in stream]) == 64 << 20


async def test_http_proxy_gets_the_absolute_url_and_credentials() -> None:
    async with ScriptedServer(ReceivedRequest.answer) as proxy:
        way = parse_proxy(f"http://me:secret@127.0.0.1:{proxy.port}", "test")
        transport = RemoteTransport(parse_endpoint("http://api.invalid:8080/prefix", "test"), Env(), proxy=way)
        await transport.request(GET)
        assert proxy.requests[0].target == "http://api.invalid:8080/prefix/api/v1/pods"
        assert proxy.requests[0].header("proxy-authorization") == "Basic bWU6c2VjcmV0"
        await transport.close()


async def test_header_injection_in_the_target_is_rejected() -> None:
    async with serving(ReceivedRequest.answer) as (_, transport):
        for target in ("/a b", "/a\r\nX: y", "/ä"):
            with pytest.raises(ValueError, match="percent-encoded"):
                await transport.request(wire.Request("GET", target))
        with pytest.raises(ValueError, match="line break"):
            await transport.request(wire.Request("GET", "/", {"a": "b\r\nc: d"}))


async def test_closed_transport_fails_pending_and_new_requests() -> None:
    async with serving(lambda _: None, max_connections=1) as (server, transport):
        calls = [asyncio.ensure_future(transport.request(GET)) for _ in range(3)]
        await until(lambda: len(server.requests) == 1)
        await transport.close()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(answer, ConnectionError) for answer in answers)
        with pytest.raises(ConnectionError, match="closed"):
            await transport.request(GET)
        with pytest.raises(ConnectionError, match="closed"):
            await transport.open(GET)


async def test_watch_connecting_during_close_leaves_no_connection() -> None:
    async with serving(lambda request: request.answer(b"{}")) as (server, transport):
        watch = asyncio.ensure_future(transport.open(GET))
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(ConnectionError, match="closed"):
            await watch
        assert server.requests == []


async def test_idle_connections_are_closed_after_a_while() -> None:
    async with ScriptedServer(ReceivedRequest.answer) as server:
        transport = RemoteTransport(parse_endpoint(server.url, "test"), Env(), idle_seconds=0.06)
        started = time.monotonic()
        await transport.request(GET)
        await until(lambda: server.open_connections == 0)
        assert time.monotonic() - started < 5
        await transport.close()


@cases(
    "more",
    {
        "truncated response": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstr",
        "complete response": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstray!",
        "the beginning of a farewell": b"HTTP/1.1 408 Timeout\r\n",
    },
)
async def test_extra_bytes_after_a_response_close_the_connection(more: bytes) -> None:
    """The connection is not reused: the extra bytes would be read as the next response."""

    def handler(request: ReceivedRequest) -> None:
        body = b"answer %d" % len(request.connection.server.requests)
        request.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body) + more)

    async with serving(handler) as (server, transport):
        for number in (1, 2):
            assert (await transport.request(POST)).body == b"answer %d" % number
        assert len(server.connections) == 2
