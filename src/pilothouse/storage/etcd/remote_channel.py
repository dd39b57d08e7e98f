"""``RemoteConnection``: connections to etcd in a process of their own, for servers whose limit is one core.

gRPC's share of a write is about a quarter of what it costs. The interface is the part of ``grpc.aio`` that
``EtcdClient`` uses. If the process is killed, all calls fail as if the connection was lost, and it is started again.
"""

import asyncio
import contextlib
import itertools
import socket  # a pair, without an address
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import grpc
import grpc.aio
import msgspec

from pilothouse.env import Log
from pilothouse.env.framing import Framing
from pilothouse.storage.etcd.channel_messages import (
    Answer,
    Call,
    Cancel,
    CloseChannel,
    Ended,
    FromConnection,
    OpenChannel,
    OpenStream,
    Received,
    Taken,
    ToConnection,
    Write,
)
from pilothouse.storage.etcd.grpc_channel import Target

_MODULE = "pilothouse.storage.etcd.channel_process"
_ENDED = Ended(0, "UNAVAILABLE", "the process of the connection to etcd has ended")
_CLOSED = Ended(0, "CANCELLED", "the connection was closed")
_CANCELLED = Ended(0, "CANCELLED", "the stream was cancelled")
_HUNG = Ended(0, "DEADLINE_EXCEEDED", "the process of the connection to etcd does not respond")
_MIN_SECONDS_BETWEEN_STARTS = 1.0
_STOP_SECONDS = 5.0
_CHECK_SECONDS = 1.0
_GRACE = 2.0
"""Seconds after the timeout of a call from which on the process counts as hung: it fails the call itself before."""
_TAKEN_BYTES = 4 * 1024 * 1024
"""How many bytes are taken from a stream before that is reported."""

_log = Log("etcd")
_decode = msgspec.msgpack.Decoder(list[FromConnection]).decode
_encode = msgspec.msgpack.Encoder().encode


class RemoteConnection:
    """The process, which is started when the first call is made, and its connections."""

    def __init__(self) -> None:
        self._framing: Framing | None = None
        """None while no process runs."""
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._started_at = -_MIN_SECONDS_BETWEEN_STARTS
        self._numbers = itertools.count(1)
        self._targets: dict[int, Target] = {}
        """The open channels."""
        self._waiting: dict[int, tuple[asyncio.Future[Answer | Ended], float]] = {}
        """Calls in the order in which they began, and when the process counts as hung."""
        self._streams: dict[int, RemoteStream] = {}
        self._unsent: list[ToConnection] = []
        self._check: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pid(self) -> int:
        """The process; 0 while none runs."""
        return self._process.pid if self._process is not None else 0

    def channel(self, target: Target) -> "RemoteChannel":
        """A connection to a member."""
        number = next(self._numbers)
        self._targets[number] = target
        if self._framing is not None:
            self._send(OpenChannel(number, target))
        return RemoteChannel(self, number)

    def close_channel(self, number: int, grace: float | None) -> None:
        """Close a connection when its calls have ended, or after ``grace`` seconds."""
        if self._targets.pop(number, None) is not None and self._framing is not None:
            self._send(CloseChannel(number, grace))

    async def call(self, channel: int, method: str, payload: bytes, timeout: float) -> bytes:
        """The response to a unary call. Raises ``AioRpcError``."""
        if self._framing is None:
            await self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer | Ended] = loop.create_future()
        number = next(self._numbers)
        self._waiting[number] = future, loop.time() + timeout + _GRACE
        if self._check is None:
            self._check = loop.call_later(_CHECK_SECONDS, self._kill_if_hung)
        self._send(Call(number, channel, method, payload, timeout))
        try:
            response = await future
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None:
                self._send(Cancel(number))
            raise
        if isinstance(response, Ended):
            raise _error(response)
        return response.payload

    def stream(
        self, channel: int, method: str, metadata: Iterable[tuple[str, str]], **serializers: Any
    ) -> "RemoteStream":
        """A call with a stream in both directions, which begins with the first ``write``."""
        return RemoteStream(self, OpenStream(next(self._numbers), channel, method, tuple(metadata)), **serializers)

    async def open_stream(self, stream: "RemoteStream", message: OpenStream) -> None:
        """Begin a stream. Raises ``AioRpcError``."""
        if self._framing is None:
            await self._start()
        self._streams[message.id] = stream
        self._send(message)

    def write(self, number: int, payload: bytes) -> None:
        """Send a message on a stream."""
        self._send(Write(number, payload))

    def taken(self, number: int, size: int) -> None:
        """So many bytes of a stream were read."""
        self._send(Taken(number, size))

    def cancel_stream(self, number: int) -> None:
        """End a stream."""
        if self._streams.pop(number, None) is not None:
            self._send(Cancel(number))

    async def close(self) -> None:
        """End the process, with all calls."""
        self._closed = True
        async with self._starting:
            self._lose(_CLOSED)
        await asyncio.gather(*self._ending)

    async def _start(self) -> None:
        async with self._starting:
            if self._framing is not None:
                return
            if self._closed:
                raise _error(_CLOSED)
            loop = asyncio.get_running_loop()
            await asyncio.sleep(self._started_at + _MIN_SECONDS_BETWEEN_STARTS - loop.time())
            self._started_at = loop.time()
            near, far = socket.socketpair()
            try:
                with far:
                    process = await asyncio.create_subprocess_exec(
                        sys.executable,
                        "-P",
                        "-m",
                        _MODULE,
                        stdin=far.fileno(),
                        # Ctrl-C is handled by this process, which may still write.
                        start_new_session=True,
                    )
            except OSError as error:
                near.close()
                raise _error(Ended(0, "UNAVAILABLE", f"the process of the connection to etcd: {error}")) from None
            except BaseException:
                near.close()
                raise
            framing = Framing(self._on_frame, lambda: self._on_end(process), high_water=0)
            await loop.create_connection(lambda: framing, sock=near)
            self._process, self._framing = process, framing
            for number, target in self._targets.items():
                self._send(OpenChannel(number, target))

    def _on_end(self, process: asyncio.subprocess.Process) -> None:
        if self._process is process:
            _log.warning("The process of the connection to etcd has ended, and is started again", pid=process.pid)
            self._lose(_ENDED)

    def _lose(self, reason: Ended) -> None:
        """Fail everything, and end the process."""
        process, framing = self._process, self._framing
        self._process = self._framing = None
        self._unsent = []
        waiting, self._waiting = self._waiting, {}
        for future, _deadline in waiting.values():
            if not future.done():
                future.set_result(reason)
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.end(reason)
        if self._check is not None:
            self._check.cancel()
            self._check = None
        if framing is not None:
            framing.close()
        if process is not None:
            task = asyncio.get_running_loop().create_task(_end(process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _kill_if_hung(self) -> None:
        self._check = None
        loop = asyncio.get_running_loop()
        if self._waiting:
            _future, deadline = next(iter(self._waiting.values()))
            if loop.time() > deadline:
                _log.error("The process of the connection to etcd does not respond, and is killed", pid=self.pid)
                if self._process is not None:
                    self._process.kill()
                self._lose(_HUNG)
            else:
                self._check = loop.call_later(_CHECK_SECONDS, self._kill_if_hung)

    def _send(self, message: ToConnection) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._framing is not None:
            self._framing.send(_encode(unsent))

    def _on_frame(self, payload: memoryview) -> None:
        for message in _decode(payload):
            if type(message) is Answer:
                self._on_response(message)
            elif isinstance(message, Received):
                if (stream := self._streams.get(message.id)) is not None:
                    stream.receive(message.payload)
            elif isinstance(message, Ended):
                if (stream := self._streams.pop(message.id, None)) is not None:
                    stream.end(message)
                else:
                    self._on_response(message)
            elif (stream := self._streams.get(message.id)) is not None:
                stream.on_written()

    def _on_response(self, message: Answer | Ended) -> None:
        waiting = self._waiting.pop(message.id, None)
        if waiting is not None and not waiting[0].done():
            waiting[0].set_result(message)


class RemoteChannel:
    """As ``grpc.aio.Channel``."""

    def __init__(self, connection: RemoteConnection, number: int) -> None:
        self._connection = connection
        self._number = number

    def unary_unary(
        self, method: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any]
    ) -> Callable[..., Any]:
        """A function that makes a call."""
        call, number = self._connection.call, self._number

        async def send(request: Any, timeout: float) -> Any:
            return response_deserializer(await call(number, method, request_serializer(request), timeout))

        return send

    def stream_stream(
        self, method: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any]
    ) -> Callable[..., "RemoteStream"]:
        """A function that opens a stream."""

        def opened(*, wait_for_ready: bool, metadata: Iterable[tuple[str, str]]) -> RemoteStream:
            assert not wait_for_ready, "calls fail if there is no connection"
            return self._connection.stream(
                self._number, method, metadata, serialize=request_serializer, deserialize=response_deserializer
            )

        return opened

    async def close(self, grace: float | None = None) -> None:
        """Close the connection when its calls have ended, or after ``grace`` seconds."""
        self._connection.close_channel(self._number, grace)


class RemoteStream:
    """As ``grpc.aio.StreamStreamCall``."""

    def __init__(
        self,
        connection: RemoteConnection,
        message: OpenStream,
        serialize: Callable[[Any], bytes],
        deserialize: Callable[[bytes], Any],
    ) -> None:
        self._connection = connection
        self._message = message
        self._serialize = serialize
        self._deserialize = deserialize
        self._opened = False
        self._received: deque[bytes] = deque()
        self._unreported = 0
        """Bytes that were read."""
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()
        self._end: Ended | None = None
        self._callbacks: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call it when the stream has ended."""
        self._callbacks.append(callback)

    async def write(self, request: Any) -> None:
        """Send a message; return when it was sent to etcd. Raises ``InvalidStateError`` after the end."""
        if not self._opened:
            self._opened = True
            await self._connection.open_stream(self, self._message)
        if self._end is not None:
            raise asyncio.InvalidStateError(self._end.details or "the stream has ended")
        writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writers.append(writer)
        self._connection.write(self._message.id, self._serialize(request))
        await writer

    async def read(self) -> Any:
        """The next message, or ``EOF``. Raises ``AioRpcError``."""
        while not self._received:
            if self._end is not None:
                if self._end.code == "OK":
                    return grpc.aio.EOF
                raise _error(self._end)
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        payload = self._received.popleft()
        self._unreported += len(payload)
        if self._unreported > _TAKEN_BYTES:
            self._connection.taken(self._message.id, self._unreported)
            self._unreported = 0
        return self._deserialize(payload)

    def cancel(self) -> None:
        """End the stream."""
        if self._end is None:
            self._connection.cancel_stream(self._message.id)
            self.end(_CANCELLED)

    def receive(self, payload: bytes) -> None:
        """A message of etcd."""
        self._received.append(payload)
        self._notify()

    def on_written(self) -> None:
        """The oldest message was sent."""
        writer = self._writers.popleft()
        if not writer.done():
            writer.set_result(None)

    def end(self, end: Ended) -> None:
        """The stream has ended."""
        self._end = end
        for writer in self._writers:
            if not writer.done():
                writer.set_exception(asyncio.InvalidStateError(end.details or "the stream has ended"))
        self._writers.clear()
        self._notify()
        for callback in self._callbacks:
            callback(self)

    def _notify(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process, which follows from that of the socket."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
            return
    process.kill()
    await process.wait()


def _error(ended: Ended) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        grpc.StatusCode[ended.code], grpc.aio.Metadata(), grpc.aio.Metadata(), details=ended.details
    )
