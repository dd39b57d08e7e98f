"""The connection to etcd in a process of its own, with a server of gRPC that does as the test wants."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

grpc = pytest.importorskip("grpc")

from grpc import aio  # noqa: E402

from pilothouse.storage.etcd import channel_process, remote_channel  # noqa: E402
from pilothouse.storage.etcd.grpc_channel import Target  # noqa: E402
from pilothouse.storage.etcd.remote_channel import RemoteChannel, RemoteConnection  # noqa: E402

pytestmark = pytest.mark.real_loop(timeout=30)


class Server:
    """A server whose methods are in ``handlers``: of one message, or of a stream if the name begins with ``Stream``."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {"Upper": lambda request, _context: request.upper()}
        self.hanging = threading.Event()
        """Set when ``hang`` was called."""
        self.cancelled = threading.Event()
        """Set when such a call was cancelled."""
        self._server = grpc.server(ThreadPoolExecutor())
        self._server.add_generic_rpc_handlers((self,))
        self.target = Target(f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}", False, "", "", "")
        self._server.start()

    def service(self, call: Any) -> Any:
        """The handler of a method, for gRPC."""
        handler = self.handlers[call.method.removeprefix("/test/")]
        make = grpc.stream_stream_rpc_method_handler if "Stream" in call.method else grpc.unary_unary_rpc_method_handler
        return make(handler)

    def hang(self, _request: bytes, context: Any) -> bytes:
        """A handler that does not respond."""
        context.add_callback(self.cancelled.set)
        self.hanging.set()
        self.cancelled.wait()
        return b""

    def stop(self) -> None:
        """End it, with all calls."""
        self._server.stop(0).wait()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
async def connection() -> AsyncIterator[RemoteConnection]:
    connection = RemoteConnection()
    try:
        yield connection
    finally:
        await connection.close()


def unary(channel: RemoteChannel, method: str = "Upper") -> Any:
    """A method of ``Server``."""
    return channel.unary_unary(f"/test/{method}", request_serializer=str.encode, response_deserializer=bytes.decode)


def stream_of(channel: RemoteChannel, **metadata: str) -> Any:
    """A stream of ``Server``."""
    opened = channel.stream_stream("/test/Stream", request_serializer=str.encode, response_deserializer=bytes.decode)
    return opened(wait_for_ready=False, metadata=tuple(metadata.items()))


def is_running(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def is_set(event: threading.Event) -> None:
    """Wait for an event of the server's threads."""
    await asyncio.to_thread(event.wait)


async def test_unary_calls(server: Server, connection: RemoteConnection) -> None:
    call = unary(connection.channel(server.target))
    assert connection.pid == 0, "it is started when it is needed"
    texts = [f"text {number}" for number in range(100)]
    assert await asyncio.gather(*(call(text, timeout=10.0) for text in texts)) == [text.upper() for text in texts]
    assert await call("x" * 3_000_000, timeout=10.0) == "X" * 3_000_000


async def test_failed_calls(server: Server, connection: RemoteConnection) -> None:
    def fail(_request: bytes, context: Any) -> None:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")

    server.handlers.update(Fail=fail, Hang=server.hang)
    channel = connection.channel(server.target)
    with pytest.raises(aio.AioRpcError) as failed:
        await unary(channel, "Fail")("x", timeout=10.0)
    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert failed.value.details() == "etcdserver: mvcc: database space exceeded"
    with pytest.raises(aio.AioRpcError, match="DEADLINE_EXCEEDED"):
        await unary(channel, "Hang")("x", timeout=0.2)
    nobody = connection.channel(Target("127.0.0.1:1", False, "", "", ""))
    with pytest.raises(aio.AioRpcError, match="UNAVAILABLE") as refused:
        await unary(nobody)("x", timeout=10.0)
    without_file = connection.channel(Target("127.0.0.1:1", True, "/does/not/exist.crt", "", ""))
    with pytest.raises(aio.AioRpcError, match=r"/does/not/exist\.crt"):
        await unary(without_file)("x", timeout=10.0)
    await without_file.close()
    assert "failed to connect" in (refused.value.details() or "").lower(), "a write is repeated only then"


async def test_cancelled_call_is_cancelled_at_etcd(server: Server, connection: RemoteConnection) -> None:
    server.handlers["Hang"] = server.hang
    call = asyncio.create_task(unary(connection.channel(server.target), "Hang")("x", timeout=60.0))
    await is_set(server.hanging)
    call.cancel()
    await is_set(server.cancelled)
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_closed_connection_fails_its_calls(server: Server, connection: RemoteConnection) -> None:
    server.handlers.update(Hang=server.hang, Stream=lambda requests, _context: requests)
    channel, other = connection.channel(server.target), connection.channel(server.target)
    waiting = asyncio.create_task(unary(channel, "Hang")("x", timeout=60.0))
    stream = stream_of(channel)
    await stream.write("a")
    assert await stream.read() == "a"
    await is_set(server.hanging)
    await channel.close(0.1)
    for broken in (waiting, stream.read(), unary(channel)("text", timeout=10.0)):
        with pytest.raises(aio.AioRpcError, match="the connection was closed"):
            await broken
    assert await unary(other)("text", timeout=10.0) == "TEXT"


async def test_call_of_a_connection_that_is_closed_at_the_same_time(
    server: Server, connection: RemoteConnection
) -> None:
    """All in one frame: the process starts calls after it has read them."""
    await unary(connection.channel(server.target))("text", timeout=10.0)
    channel = connection.channel(server.target)
    call = asyncio.create_task(unary(channel)("text", timeout=10.0))
    await asyncio.sleep(0)
    await channel.close()
    with pytest.raises(aio.AioRpcError, match="the connection was closed"):
        await call


async def test_stream(server: Server, connection: RemoteConnection) -> None:
    def echo(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        yield str(dict(context.invocation_metadata())["hasleader"]).encode()
        for request in requests:
            if request == b"end":
                return
            if request == b"fail":
                context.abort(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
            yield request.upper()

    server.handlers["Stream"] = echo
    channel = connection.channel(server.target)
    for last in ("end", "fail"):
        stream, ended = stream_of(channel, hasleader="true"), asyncio.Event()
        stream.add_done_callback(lambda _stream, ended=ended: ended.set())
        await stream.write("a")
        await stream.write("b")
        assert [await stream.read() for _ in range(3)] == ["true", "A", "B"]
        with contextlib.suppress(asyncio.InvalidStateError):  # it may end before the write is confirmed
            await stream.write(last)
        if last == "end":
            assert await stream.read() is aio.EOF
        else:
            with pytest.raises(aio.AioRpcError, match="etcdserver: no leader"):
                await stream.read()
        await ended.wait()
        with pytest.raises(asyncio.InvalidStateError):
            await stream.write("c")


async def test_stream_whose_member_is_unreachable(connection: RemoteConnection) -> None:
    stream, ended = stream_of(connection.channel(Target("127.0.0.1:1", False, "", "", ""))), asyncio.Event()
    stream.add_done_callback(lambda _stream: ended.set())
    with pytest.raises(asyncio.InvalidStateError, match=r"(?i)failed to connect"):
        await stream.write("a")
    assert ended.is_set()


async def test_cancelled_stream(server: Server, connection: RemoteConnection) -> None:
    def silent(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        context.add_callback(server.cancelled.set)
        yield next(requests)
        server.cancelled.wait()

    server.handlers["Stream"] = silent
    stream = stream_of(connection.channel(server.target))
    await stream.write("a")
    assert await stream.read() == "a"
    stream.cancel()
    await is_set(server.cancelled)
    with pytest.raises(aio.AioRpcError, match="CANCELLED"):
        await stream.read()


async def test_unread_messages_are_limited(server: Server, connection: RemoteConnection) -> None:
    """A watch that is read slowly stays in etcd, and not in the memory of two processes."""
    message, sent = b"x" * 1_000_000, 0

    def flood(_requests: Iterator[bytes], _context: Any) -> Iterator[bytes]:
        nonlocal sent
        while sent < 200:
            sent += 1
            yield message

    server.handlers["Stream"] = flood
    stream = stream_of(connection.channel(server.target))
    await stream.write("begin")
    await stream.read()
    before = 0
    while sent != before:
        before = sent
        await asyncio.sleep(0.5)
    assert channel_process.WINDOW_BYTES / len(message) <= sent < 100
    for _ in range(199):
        assert len(await stream.read()) == len(message)
    assert await stream.read() is aio.EOF


async def test_killed_process_is_replaced(server: Server, connection: RemoteConnection) -> None:
    server.handlers.update(Hang=server.hang, Stream=lambda requests, _context: requests)
    channel = connection.channel(server.target)
    stream = stream_of(channel)
    await stream.write("a")
    assert await stream.read() == "a"
    waiting = asyncio.create_task(unary(channel, "Hang")("x", timeout=60.0))
    await is_set(server.hanging)
    first = connection.pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(aio.AioRpcError, match="the process of the connection to etcd has ended") as lost:
        await waiting
    assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(aio.AioRpcError, match="the process of the connection to etcd has ended"):
        await stream.read()
    assert await unary(channel)("text", timeout=10.0) == "TEXT", "the connection is there in the new process"
    assert connection.pid not in (0, first)


async def test_hung_process_is_replaced(
    server: Server, connection: RemoteConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_channel, "_GRACE", 0.1)
    monkeypatch.setattr(remote_channel, "_CHECK_SECONDS", 0.1)
    call = unary(connection.channel(server.target))
    await call("text", timeout=10.0)
    hung = connection.pid
    os.kill(hung, signal.SIGSTOP)
    with pytest.raises(aio.AioRpcError, match="the process of the connection to etcd does not respond"):
        await call("text", timeout=0.2)
    assert await call("text", timeout=10.0) == "TEXT"
    await connection.close()
    assert not is_running(hung)


async def test_process_ends_with_its_server(server: Server) -> None:
    connection = RemoteConnection()
    call = unary(connection.channel(server.target))
    await call("text", timeout=10.0)
    pid = connection.pid
    await connection.close()
    assert not is_running(pid)
    with pytest.raises(aio.AioRpcError, match="the connection was closed"):
        await call("text", timeout=10.0)
