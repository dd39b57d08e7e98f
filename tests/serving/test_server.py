"""The HTTP server, on real sockets of the loopback interface."""

import asyncio
import contextlib
import datetime
import logging
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from tests.tables import cases

from pilothouse.serving import CannotListen, PortInUse, Server
from pilothouse.serving.protocol import HEAD_BYTES, App, Receive, Scope, Send

pytestmark = pytest.mark.real_loop

NOW = datetime.datetime.now(datetime.UTC)


async def read_body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


async def answer(send: Send, body: bytes, status: int = 200) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(receive)
    line = f"{scope['method']} {scope['path']}?{scope['query_string'].decode()} "
    await answer(send, line.encode() + body)


class Streaming:
    """Streams its input, and records how the stream ended."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent = 0
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            while piece := await self.pieces.get():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                self.sent += 1
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            self.ended.set_result("cancelled")
            raise
        self.ended.set_result("finished")


@contextlib.asynccontextmanager
async def connected(
    server: Server, tls: ssl.SSLContext | None = None, limit: int = 2**16
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    name = "localhost" if tls is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname=name, limit=limit)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    return int(first.split(" ")[1]), {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, dict[str, str], bytes]:
    writer.write(request)
    status, headers = await read_head(reader)
    return status, headers, await reader.readexactly(int(headers["content-length"]))


def get(path: str = "/") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: here\r\n\r\n".encode()


# Listening


async def test_port_0_selects_a_free_port_and_keep_alive_works() -> None:
    server = Server(echo)
    port = await server.start()
    assert port == server.port != 0
    assert server.url == f"http://127.0.0.1:{port}"
    async with connected(server) as (reader, writer):
        for i in range(3):
            request = b"POST /a%%20b?x=%d HTTP/1.1\r\nhost: here\r\ncontent-length: 3\r\n\r\nabc" % i
            status, headers, body = await exchange(reader, writer, request)
            assert (status, body) == (200, b"POST /a b?x=%d abc" % i)
            assert headers["date"].endswith("GMT")
            assert "server" not in headers
    await server.stop()
    await server.stop()
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_port_in_use_is_an_error_or_the_next_is_used() -> None:
    async with Server(echo) as first:
        with pytest.raises(PortInUse, match=rf"can't listen on 127.0.0.1:{first.port}: another program does"):
            await Server(echo, port=first.port).start()
        async with Server(echo, port=first.port, more_ports=20) as second:
            assert first.port < second.port <= first.port + 20
    async with Server(echo, port=first.port) as again:
        assert again.port == first.port


@cases(
    "host, port, reason",
    {
        "unresolvable host": ("no.such.host.invalid", 0, "does not resolve"),
        "an address of another machine": ("192.0.2.1", 0, r"192\.0\.2\.1:0: "),
        "invalid port": ("127.0.0.1", 70000, "ports go from 0 to 65535"),
    },
)
async def test_unavailable_address_is_an_error(host: str, port: int, reason: str) -> None:
    with pytest.raises(CannotListen, match=reason):
        await Server(echo, host=host, port=port).start()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
async def test_ipv6() -> None:
    server = Server(echo, host="::1")
    try:
        await server.start()
    except CannotListen:
        pytest.skip("no IPv6 loopback here")
    assert server.url == f"http://[::1]:{server.port}"
    reader, writer = await asyncio.open_connection("::1", server.port)
    assert (await exchange(reader, writer, get("/six")))[2] == b"GET /six? "
    writer.close()
    await server.stop()


# Requests


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        writer.write(get("/1") + get("/2") + get("/3"))
        for i in (1, 2, 3):
            _status, headers = await read_head(reader)
            assert await reader.readexactly(int(headers["content-length"])) == b"GET /%d? " % i


async def test_body_can_be_rejected_before_it_is_sent() -> None:
    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, b"too large", 413)

    async with Server(refuse) as server, connected(server) as (reader, writer):
        head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 4000000\r\n\r\n"
        status, _headers, body = await exchange(reader, writer, head + b"x" * 100_000)
        assert (status, body) == (413, b"too large")
        writer.write(b"x" * 3_900_000)
        assert (await exchange(reader, writer, get()))[0] == 413


async def test_endless_body_after_its_rejection_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, b"too large", 413)

    monkeypatch.setattr("pilothouse.serving.protocol.UNREAD_BYTES", 1_000_000)
    async with Server(refuse) as server, connected(server) as (reader, writer):
        head = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 900000000\r\n\r\n"
        assert (await exchange(reader, writer, head))[0] == 413
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"x" * 100_000)
                await writer.drain()
                await asyncio.sleep(0)


async def test_request_body_backpressure() -> None:
    accepted = asyncio.Event()
    lengths = []

    async def slow(_scope: Scope, receive: Receive, send: Send) -> None:
        await accepted.wait()
        body = await read_body(receive)
        lengths.append(len(body))
        await answer(send, b"ok")

    async with Server(slow) as server, connected(server) as (reader, writer):
        size = 20_000_000
        writer.write(b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        await asyncio.sleep(0.1)
        assert writer.transport.get_write_buffer_size() > 10_000_000
        accepted.set()
        assert (await read_head(reader))[0] == 200
        assert lengths == [size]


async def test_100_continue_is_sent_when_the_body_is_read() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        writer.write(b"PUT / HTTP/1.1\r\nhost: here\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await exchange(reader, writer, b"ok"))[2] == b"PUT /? ok"


@cases(
    "request_, status",
    {
        "not HTTP": (b"hello\r\n\r\n", 400),
        "TLS on a plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        "a head without end": (b"GET / HTTP/1.1\r\na: " + b"x" * 2 * HEAD_BYTES, 431),
        "a line without end": (b"GET /" + b"x" * 2 * HEAD_BYTES, 431),
    },
)
async def test_invalid_request_is_rejected_and_the_connection_closed(request_: bytes, status: int) -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        writer.write(request_)
        assert (await read_head(reader))[0] == status
        with contextlib.suppress(ConnectionError):
            await reader.read()


async def test_unknown_upgrade_is_ignored() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        upgrade = b"GET /exec HTTP/1.1\r\nhost: here\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
        assert (await exchange(reader, writer, upgrade))[2] == b"GET /exec? "


async def test_failing_application_fails_only_its_request(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if scope["path"] == "/after":
            await answer(send, b"fine")
        raise ZeroDivisionError

    with caplog.at_level(logging.ERROR):
        async with Server(fail) as server:
            async with connected(server) as (reader, writer):
                assert (await exchange(reader, writer, get("/early")))[::2] == (500, b"Internal Server Error")
                assert (await exchange(reader, writer, get("/after")))[::2] == (200, b"fine")
                writer.write(get("/late"))
                assert (await read_head(reader))[0] == 200
                with contextlib.suppress(ConnectionError):
                    assert b"0\r\n\r\n" not in await reader.read()
            async with connected(server) as (reader, writer):
                assert (await exchange(reader, writer, get("/after")))[0] == 200
    assert [record.getMessage().partition(" method=")[0] for record in caplog.records] == [
        "A request failed unexpectedly"
    ] * 4
    assert {record.name for record in caplog.records} == {"pilothouse.serving"}


# Streams


async def test_stream_is_flushed_per_chunk() -> None:
    app = Streaming()
    async with Server(app) as server, connected(server) as (reader, writer):
        writer.write(get())
        status, headers = await read_head(reader)
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        for piece in (b"one\n", b"two\n"):
            app.pieces.put_nowait(piece)
            assert await reader.readexactly(9) == b"4\r\n" + piece + b"\r\n"
        app.pieces.put_nowait(b"")
        assert await reader.readexactly(5) == b"0\r\n\r\n"
        assert await app.ended == "finished"


async def test_client_disconnect_cancels_its_stream() -> None:
    app = Streaming()
    async with Server(app) as server:
        async with connected(server) as (reader, writer):
            writer.write(get())
            await read_head(reader)
        async with asyncio.timeout(5):
            assert await app.ended == "cancelled"


async def test_client_disconnect_does_not_cancel_its_write() -> None:
    going, done = asyncio.Event(), asyncio.Event()

    async def write(_scope: Scope, _receive: Receive, send: Send) -> None:
        await going.wait()
        await answer(send, b"written")
        done.set()

    async with Server(write) as server:
        async with connected(server) as (_reader, writer):
            writer.write(get())
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
        going.set()
        async with asyncio.timeout(5):
            await done.wait()


async def test_stream_started_after_the_disconnect_ends() -> None:
    going = asyncio.Event()
    ended = asyncio.Event()

    async def watch(_scope: Scope, _receive: Receive, send: Send) -> None:
        await going.wait()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with Server(watch) as server:
        async with connected(server) as (_reader, writer):
            writer.write(get())
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
        going.set()
        async with asyncio.timeout(5):
            await ended.wait()


async def test_response_stream_backpressure() -> None:
    app = Streaming()
    async with Server(app) as server, connected(server, limit=1024) as (reader, writer):
        writer.write(get())
        await read_head(reader)
        for _ in range(1000):
            app.pieces.put_nowait(b"x" * 100_000)
        await asyncio.sleep(0.2)
        stalled = app.sent
        assert stalled < 200, "at most what the sockets hold"
        await asyncio.sleep(0.05)
        assert app.sent == stalled
        await reader.readexactly(20_000_000)
        assert app.sent > stalled


# Stopping


async def test_shutdown_finishes_requests_and_closes_idle_connections() -> None:
    release = asyncio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await release.wait()
        await answer(send, b"done")

    server = Server(slow)
    await server.start()
    async with connected(server) as (idle, _writer), connected(server) as (reader, writer):
        writer.write(get())
        await asyncio.sleep(0.02)
        stopping = asyncio.ensure_future(server.stop(5))
        assert await idle.read() == b""
        assert not stopping.done()
        release.set()
        status, headers = await read_head(reader)
        assert (status, headers["connection"]) == (200, "close")
        assert await reader.read() == b"done"
        await stopping


async def test_shutdown_aborts_requests_after_the_timeout() -> None:
    app = Streaming()
    server = Server(app)
    await server.start()
    async with connected(server) as (reader, writer):
        writer.write(get())
        await read_head(reader)
        await server.stop(0.05)
        assert await app.ended == "cancelled"
        with contextlib.suppress(ConnectionError):
            assert b"0\r\n\r\n" not in await reader.read()


def test_application_type() -> None:
    app: App = echo
    assert Server(app).port == 0
