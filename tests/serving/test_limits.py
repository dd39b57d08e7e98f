"""Limits of clients: connections, request heads, time. Only unauthenticated clients make room for others."""

import asyncio
import contextlib
import functools
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.serving.test_server import answer, connected, echo, exchange, get, read_body, read_head
from tests.tables import cases

from pilothouse.serving import Server, mark_authenticated
from pilothouse.serving.limits import Limits
from pilothouse.serving.protocol import Receive, Scope, Send

pytestmark = pytest.mark.real_loop

SOON = 3.0
"""Timeout of an immediate response on a busy machine, in seconds."""


async def login(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that treats every request with an authorization header as authenticated."""
    if any(name == b"authorization" for name, _value in scope["headers"]):
        mark_authenticated(scope)
    await echo(scope, receive, send)


KNOWN = b"GET / HTTP/1.1\r\nhost: here\r\nauthorization: yes\r\n\r\n"


async def is_closed(reader: asyncio.StreamReader, seconds: float = SOON) -> bool:
    """Whether the server closes the connection in that time."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(seconds):
            return await reader.read(1) == b""
        return False
    return reader.exception() is not None


async def until(condition: Callable[[], object]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110  # what is waited for is inside of the server
            await asyncio.sleep(0.01)


@contextlib.contextmanager
def silent(server: Server) -> Iterator[socket.socket]:
    """A connection that sends nothing."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.setblocking(False)
        yield connection


@contextlib.asynccontextmanager
async def many(
    server: Server, count: int, first: bytes = get()
) -> AsyncIterator[list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]:
    """Connections, opened one after the other, each with a request that was answered."""
    async with contextlib.AsyncExitStack() as stack:
        result = []
        for _ in range(count):
            reader, writer = await stack.enter_async_context(connected(server))
            assert (await exchange(reader, writer, first))[0] == 200
            result.append((reader, writer))
        yield result


# Heads


@cases(
    "head, status, body",
    {
        "one host": (b"GET / HTTP/1.1\r\nhost: a\r\n", 200, b"GET /? "),
        "an address with its port": (b"GET / HTTP/1.1\r\nhost: [::1]:6443\r\n", 200, b"GET /? "),
        "an empty host": (b"GET / HTTP/1.1\r\nhost:\r\n", 200, b"GET /? "),
        "missing Host": (b"GET / HTTP/1.1\r\n", 400, b"Bad Request: missing required Host header"),
        "missing Host in HTTP/1.0": (b"GET / HTTP/1.0\r\n", 200, b"GET /? "),
        "duplicate Host": (b"GET / HTTP/1.1\r\nhost: a\r\nHost: a\r\n", 400, b"Bad Request: too many Host headers"),
        "malformed Host": (b"GET / HTTP/1.1\r\nhost: a/b\r\n", 400, b"Bad Request: malformed Host header"),
        "HTTP/0.9": (b"GET /\r\n", 505, b"HTTP Version Not Supported"),
        "a thousand headers and one": (
            b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a: b\r\n" * 1000,
            431,
            b"Request Header Fields Too Large",
        ),
        "a thousand headers": (b"GET / HTTP/1.1\r\nhost: a\r\n" + b"a: b\r\n" * 999, 200, b"GET /? "),
    },
)
async def test_host_header_and_number_of_headers(head: bytes, status: int, body: bytes) -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        result = await exchange(reader, writer, head + b"\r\n")
        assert (result[0], result[2]) == (status, body)
        if status != 200:
            assert await is_closed(reader)


async def test_requests_before_a_rejected_one_are_answered() -> None:
    async with Server(echo) as server, connected(server) as (reader, writer):
        assert (await exchange(reader, writer, get() + b"GET / HTTP/1.1\r\n\r\n" + get()))[0] == 200
        assert await is_closed(reader)


async def test_pipelining_is_bounded() -> None:
    started, go = 0, asyncio.Event()

    async def slow(_scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal started
        started += 1
        await go.wait()
        await answer(send, await read_body(receive))

    async with Server(slow) as server, connected(server) as (reader, writer):
        one = b"GET / HTTP/1.1\r\nhost:\r\n\r\n"
        with_body = b"PUT / HTTP/1.1\r\nhost:\r\ncontent-length: 100\r\n\r\n" + b"\n" * 100
        writer.write(one * 1000 + with_body * 100 + one * 1000)
        await until(lambda: started)
        await asyncio.sleep(0.05)
        assert server._state is not None
        (connection,) = server._state.connections
        assert started == 1
        assert len(connection._waiting) < 64
        go.set()
        for length in (0,) * 1000 + (100,) * 100 + (0,) * 1000:
            status, headers = await read_head(reader)
            assert (status, int(headers["content-length"])) == (200, length)
            await reader.readexactly(length)


# Time


@cases("sent", {"empty": b"", "incomplete header": b"GET / HTTP/1.1\r\nhost: he"})
async def test_first_request_head_timeout(sent: bytes) -> None:
    limits = Limits(head_seconds=0.1, handshake_seconds=0.1)
    async with Server(echo, limits=limits) as server, connected(server) as (reader, writer):
        writer.write(sent)
        assert await is_closed(reader)


async def test_incomplete_heads_are_bounded_in_memory() -> None:
    limits = Limits(head_bytes=10_000)
    async with Server(echo, limits=limits) as server, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server)) for _ in range(4)]
        for _reader, writer in clients:
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nx-long: " + b"x" * 2960)
            await asyncio.sleep(0.05)
        first, *others = clients
        assert await is_closed(first[0])
        for reader, writer in others:
            assert (await exchange(reader, writer, b"\r\n\r\n"))[0] == 200
        # What was complete is held no more.
        for _reader, writer in others:
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nx-long: " + b"x" * 2960)
        for reader, writer in others:
            assert (await exchange(reader, writer, b"\r\n\r\n"))[0] == 200


async def test_incomplete_head_after_a_request_does_not_abort_its_response() -> None:
    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.3)
        await answer(send, b"at last")

    async with (
        Server(slow, limits=Limits(head_seconds=0.1)) as server,
        connected(server) as (reader, writer),
    ):
        writer.write(get())
        assert (await exchange(reader, writer, b"GET / HTTP/1.1\r\nhost: he"))[2] == b"at last"
        assert await is_closed(reader)


async def test_unread_body_timeout() -> None:
    async def refuse(_scope: Scope, _receive: Receive, send: Send) -> None:
        await answer(send, b"no", 401)

    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n"
    limits = Limits(unread_unauthenticated_seconds=0.2)
    async with Server(refuse, limits=limits) as server:
        async with connected(server) as (reader, writer):
            assert (await exchange(reader, writer, head + b"ab"))[0] == 401
            assert (await exchange(reader, writer, b"cd" + head))[0] == 401
            assert await is_closed(reader)
        async with connected(server) as (reader, writer):
            assert (await exchange(reader, writer, head + b"abcd"))[0] == 401
            assert not await is_closed(reader, 0.4)


LARGE = 400 * 65536


async def large(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An application whose response is larger than the buffers."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % LARGE)]})
    for _ in range(400):
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def test_non_reading_client_is_disconnected() -> None:
    async with Server(large, limits=Limits(stalled_seconds=0.1)) as server:
        state = server._state
        assert state is not None
        with silent(server) as reader:
            reader.sendall(get())
            await until(lambda: state.tasks)
            await until(lambda: not state.tasks and not state.connections)


@cases("stops_reading", {"slow": False, "stops in the middle": True})
async def test_client_is_disconnected_once_it_does_not_read(
    stops_reading: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer of the server fires whenever the client has read enough that the server could write, and after a client
    that reads no more. In real time a busy machine would be taken for a client that does not read."""
    loop, stalled_seconds = asyncio.get_running_loop(), 61.5
    call_later, timers = loop.call_later, list[tuple[asyncio.TimerHandle, Callable[[], object]]]()

    def record(delay: float, callback: Callable[..., object], *args: object, **context: Any) -> asyncio.TimerHandle:
        handle = call_later(delay, callback, *args, **context)
        if delay == stalled_seconds:
            timers.append((handle, functools.partial(callback, *args)))
        return handle

    monkeypatch.setattr(loop, "call_later", record)

    def fire() -> None:
        handle, callback = timers.pop()
        assert not timers, "one timer per connection"
        handle.cancel()
        callback()

    async with Server(large, limits=Limits(stalled_seconds=stalled_seconds)) as server:
        state = server._state
        assert state is not None
        with silent(server) as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            reader.sendall(get())
            await until(lambda: timers)
            (connection,) = state.connections
            received = fired = resumed = 0
            while received < (LARGE // 2 if stops_reading else LARGE):
                piece = await loop.sock_recv(reader, 1 << 16)
                assert piece
                received += len(piece)
                if connection._resumed > resumed and not connection.writable.is_set():
                    resumed = connection._resumed
                    fire()
                    fired += 1
            assert fired > 1
            if stops_reading:
                await until(lambda: not connection.writable.is_set())
                fire()
                if timers:  # after it had fired, more could be written
                    fire()
                await until(lambda: not state.tasks and not state.connections)


# Room


async def test_unauthenticated_connection_is_closed_for_a_new_one() -> None:
    limits = Limits(unauthenticated=2, new_connections=1, patience_seconds=60)
    async with Server(login, limits=limits) as server, many(server, 2) as ((first, writer), (second, _)):
        # The connection with the newest request is closed last.
        assert (await exchange(first, writer, get()))[0] == 200
        async with many(server, 1):
            assert await is_closed(second)
            assert (await exchange(first, writer, get()))[0] == 200


async def test_authenticated_connection_is_not_closed_for_others() -> None:
    limits = Limits(unauthenticated=1, new_connections=1, patience_seconds=0)
    async with Server(login, limits=limits) as server, many(server, 5, KNOWN) as known:
        async with many(server, 5):
            pass
        for reader, writer in known:
            assert (await exchange(reader, writer, get()))[0] == 200


async def test_non_reading_unauthenticated_connection_is_closed_first() -> None:
    limits = Limits(unauthenticated=2, patience_seconds=60)
    async with Server(login, limits=limits) as server, many(server, 2) as ((seldom, writer), (greedy, sender)):
        sender.write(get("/" + "x" * 10_000) * 1000)
        await asyncio.sleep(0.2)
        async with many(server, 1):
            assert (await exchange(seldom, writer, get()))[0] == 200
            with contextlib.suppress(ConnectionError):
                assert len(await greedy.read()) < 1000 * 10_000


async def test_new_connection_has_a_minimum_time() -> None:
    limits = Limits(new_connections=1, patience_seconds=0.3)
    async with Server(login, limits=limits) as server, connected(server) as (first, writer):
        writer.write(b"G")
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        async with many(server, 1) as [(second, second_writer)]:
            waited = asyncio.get_running_loop().time() - began
            assert 0.2 < waited < SOON
            assert await is_closed(first)
            # The next one is admitted when this one has its response.
            async with many(server, 1):
                assert (await exchange(second, second_writer, get()))[0] == 200
        writer.close()


async def test_new_connection_waits_if_all_others_are_authenticated() -> None:
    limits = Limits(connections=2, patience_seconds=0)
    async with Server(login, limits=limits) as server:
        async with many(server, 2, KNOWN) as [(_first, writer), _second]:
            waiting = asyncio.ensure_future(asyncio.open_connection("127.0.0.1", server.port))
            reader, own = await waiting
            own.write(get())
            assert not await is_closed(reader, 0.2)
            writer.close()
            async with asyncio.timeout(SOON):
                assert (await read_head(reader))[0] == 200
        own.close()


async def test_silent_connections_do_not_keep_clients_out() -> None:
    limits = Limits(silent=3, new_connections=1, patience_seconds=60)
    async with Server(login, limits=limits) as server:
        with contextlib.ExitStack() as stack:
            quiet = [stack.enter_context(silent(server)) for _ in range(10)]
            async with many(server, 1):
                pass
            loop = asyncio.get_running_loop()
            for connection in quiet[:7]:
                async with asyncio.timeout(SOON):
                    assert await loop.sock_recv(connection, 1) == b""
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await loop.sock_recv(quiet[-1], 1)


async def test_shutdown_while_clients_connect() -> None:
    async with Server(login, limits=Limits(new_connections=1, patience_seconds=60)) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(silent(server))
                stack.enter_context(silent(server)).sendall(b"GET /")
            await asyncio.sleep(0.1)
            async with asyncio.timeout(SOON):
                await server.stop()


def test_connections_are_accepted_after_file_descriptor_exhaustion() -> None:
    """In a separate process, whose file descriptor limit is lower than the server's limits assume."""
    program = """
import asyncio, resource, socket
from pilothouse.env import loops
from pilothouse.serving import Server, limits

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})

async def main():
    limits.open_files = lambda: 1 << 20
    async with Server(app) as server:
        clients = [socket.socket() for _ in range(31)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (clients[-1].fileno() + 10, 4096))
        for client in clients[:-1]:
            client.connect(("127.0.0.1", server.port))
        await asyncio.sleep(0.3)
        last, loop = clients[-1], asyncio.get_running_loop()
        last.setblocking(False)
        await loop.sock_connect(last, ("127.0.0.1", server.port))
        await loop.sock_sendall(last, b"GET / HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n")
        async with asyncio.timeout(30):
            print((await loop.sock_recv(last, 15)).decode())

loops.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "HTTP/1.1 200 OK\n", done.stderr


@pytest.mark.parametrize(
    ("files", "connections", "silent", "new_connections", "unauthenticated"),
    [(1 << 20, 4096, 1024, 512, 64), (1024, 448, 224, 224, 64), (256, 64, 32, 32, 16)],
)
def test_connection_limits_depend_on_rlimit_nofile(
    files: int, connections: int, silent: int, new_connections: int, unauthenticated: int
) -> None:
    fit = Limits().within(files)
    assert (fit.connections, fit.silent, fit.new_connections, fit.unauthenticated) == (
        connections,
        silent,
        new_connections,
        unauthenticated,
    )


def test_rlimit_nofile_is_raised() -> None:
    message = """
import resource
from pilothouse.serving.limits import allow_open_files, open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))
allow_open_files()
print(open_files())
"""
    assert subprocess.run([sys.executable, "-c", message], capture_output=True, check=True, text=True).stdout == "512\n"
