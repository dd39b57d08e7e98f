"""The process of a connection to etcd: ``python -m pilothouse.storage.etcd.channel_process``.

Standard input is a socket to the server (``remote_channel``). The process ends when that is closed.
"""

import asyncio
import contextlib
import os
import socket  # to the parent process
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import grpc
import grpc.aio
import msgspec

from pilothouse.env import loops
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
    Written,
)
from pilothouse.storage.etcd.grpc_channel import CLOSED, is_being_cancelled, open_channel

WINDOW_BYTES = 32 * 1024 * 1024
"""Maximum size of the messages of a stream that the server has not read yet, but for the last one."""
_PAUSE_SECONDS = 0.002
_INPUT = 0
_decode = msgspec.msgpack.Decoder(list[ToConnection]).decode
_encode = msgspec.msgpack.Encoder().encode


class _Stream:
    """The state of one stream."""

    def __init__(self) -> None:
        self.to_write: asyncio.Queue[bytes] = asyncio.Queue()
        self.unread = 0
        """Bytes."""
        self.taken = asyncio.Event()


class _Channel:
    """A connection, with the methods that were called."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self._methods: dict[str, Any] = {}

    def unary(self, method: str) -> Any:
        """The function that calls a method."""
        function = self._methods.get(method)
        if function is None:
            function = self._methods[method] = self.channel.unary_unary(method)
        return function


class ChannelProcess:
    """The connections of one server. ``framing`` is the protocol to it."""

    def __init__(self) -> None:
        self.framing = Framing(self._on_frame, self._on_end)
        self.ended = asyncio.Event()
        """Set when the server has closed the socket."""
        self._channels: dict[int, _Channel] = {}
        self._unusable: dict[int, str] = {}
        """Channels that could not be created, and why."""
        self._streams: dict[int, _Stream] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._unsent: list[FromConnection] = []
        self._is_sending = False
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def close(self) -> None:
        """End all calls, and close the connections."""
        tasks = [*self._calls.values(), *self._closing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in self._channels.values():
            await channel.channel.close()

    def _on_end(self) -> None:
        self.ended.set()

    def _on_frame(self, payload: memoryview) -> None:
        for message in _decode(payload):
            if isinstance(message, Call):
                self._start(message, self._call)
            elif isinstance(message, Taken):
                self._on_taken(message)
            elif isinstance(message, Write):
                if (stream := self._streams.get(message.id)) is not None:
                    stream.to_write.put_nowait(message.payload)
            elif isinstance(message, Cancel):
                if (task := self._calls.get(message.id)) is not None:
                    task.cancel()
            elif isinstance(message, OpenStream):
                self._streams[message.id] = _Stream()
                self._start(message, self._stream)
            elif isinstance(message, OpenChannel):
                self._open_channel(message)
            else:
                self._close_channel(message)

    def _start(self, message: Call | OpenStream, work: Callable[[Any, _Channel], Coroutine[Any, Any, None]]) -> None:
        number = message.id
        # Not in the task: the next message may close it.
        channel = self._channels.get(message.channel)
        if channel is None:
            self._send(Ended(number, "UNAVAILABLE", self._unusable.get(message.channel, CLOSED)))
            return
        task = self._calls[number] = asyncio.get_running_loop().create_task(self._run(message, channel, work))
        # Not in the task: it may be cancelled before its first step.
        task.add_done_callback(partial(self._forget, number))

    async def _run(
        self, message: Call | OpenStream, channel: _Channel, work: Callable[[Any, _Channel], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await work(message, channel)
        except grpc.aio.AioRpcError as error:
            self._send(Ended(message.id, error.code().name, error.details() or ""))
        except grpc.aio.UsageError:  # the connection was closed before the call began
            self._send(Ended(message.id, "UNAVAILABLE", CLOSED))
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            self._send(Ended(message.id, "UNAVAILABLE", CLOSED))
        except Exception as error:
            self._send(Ended(message.id, "UNKNOWN", repr(error)))
            raise

    def _forget(self, number: int, _ended: "asyncio.Task[None]") -> None:
        del self._calls[number]
        self._streams.pop(number, None)

    def _on_taken(self, message: Taken) -> None:
        stream = self._streams.get(message.id)
        if stream is not None:
            stream.unread -= message.size
            stream.taken.set()

    def _open_channel(self, message: OpenChannel) -> None:
        try:
            self._channels[message.channel] = _Channel(open_channel(message.target))
        except OSError as error:  # a certificate that can't be read
            self._unusable[message.channel] = str(error)

    def _close_channel(self, message: CloseChannel) -> None:
        self._unusable.pop(message.channel, None)
        channel = self._channels.pop(message.channel, None)
        if channel is None:
            return
        task = asyncio.get_running_loop().create_task(channel.channel.close(message.grace))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _call(self, call: Call, channel: _Channel) -> None:
        self._send(Answer(call.id, await channel.unary(call.method)(call.payload, timeout=call.timeout)))

    async def _stream(self, message: OpenStream, channel: _Channel) -> None:
        state = self._streams[message.id]
        call: Any = channel.channel.stream_stream(message.method)(metadata=message.metadata)
        writing = asyncio.get_running_loop().create_task(self._write(message.id, state, call))
        try:
            while True:
                payload = await call.read()
                if payload is grpc.aio.EOF:
                    self._send(Ended(message.id, "OK", ""))
                    return
                self._send_soon(Received(message.id, payload))
                state.unread += len(payload)
                while state.unread > WINDOW_BYTES:
                    state.taken.clear()
                    await state.taken.wait()
        finally:
            writing.cancel()
            call.cancel()

    async def _write(self, number: int, state: _Stream, call: Any) -> None:
        # A stream that has ended is reported by its reader.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await call.write(await state.to_write.get())
                self._send(Written(number))

    def _send(self, message: FromConnection) -> None:
        self._unsent.append(message)
        if not self._is_sending:
            self._is_sending = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _send_soon(self, message: Received) -> None:
        """With the next response, or after a pause: messages of a stream are read one by one, and each frame wakes the
        server. The first one after a pause is sent immediately."""
        loop = asyncio.get_running_loop()
        if loop.time() >= self._sent_at + _PAUSE_SECONDS:
            self._send(message)
            return
        self._unsent.append(message)
        if not self._is_sending and self._timer is None:
            self._timer = loop.call_later(_PAUSE_SECONDS, self._flush)

    def _flush(self) -> None:
        self._is_sending = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sent_at = asyncio.get_running_loop().time()
        unsent, self._unsent = self._unsent, []
        if unsent and not self.ended.is_set():
            self.framing.send(_encode(unsent))


async def _run(connection: socket.socket) -> None:
    process = ChannelProcess()
    await asyncio.get_running_loop().create_connection(lambda: process.framing, sock=connection)
    await process.ended.wait()
    await process.close()


if __name__ == "__main__":
    loops.run(_run(socket.socket(fileno=os.dup(_INPUT))))
