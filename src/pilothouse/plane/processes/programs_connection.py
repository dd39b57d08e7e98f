"""The API server's end: handles the requests of the programs in the other process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.wire import Request, Stream, Transport
from pilothouse.apiserver.transport import Batches
from pilothouse.env import Log
from pilothouse.machinery.causes import adopt_cause
from pilothouse.plane.processes.framing import Framing
from pilothouse.plane.processes.messages import (
    Answer,
    Call,
    Cancel,
    Chunks,
    Ended,
    FromServer,
    GetMetrics,
    Metrics,
    Start,
    Stop,
    ToPrograms,
    ToServer,
    User,
)

if TYPE_CHECKING:
    from pilothouse.plane.clients import Connect

_log = Log("plane")
_decode = msgspec.msgpack.Decoder(list[ToServer]).decode
_encode = msgspec.msgpack.Encoder().encode


class ProgramsConnection:
    """The connection to the programs' process. ``framing`` is its protocol."""

    def __init__(self, connect: "Connect", on_ready: Callable[[], None]) -> None:
        """``connect`` creates the transport of a user to the API server."""
        self.framing = Framing(self._on_frame, self._on_end)
        self.ended = asyncio.Event()
        """Set when the programs have closed the connection."""
        self._connect = connect
        self._on_ready = on_ready
        self._transports: dict[int, Transport] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._metrics: asyncio.Future[Mapping[str, str]] | None = None
        self._unsent: list[FromServer] = []
        self._chunks: list[bytes] = []
        self._positions: dict[int, int] = {}
        """The position of a chunk in ``_chunks``, by its ``id``."""

    def start(self, message: Start) -> None:
        """Send the first frame."""
        self.framing.send(_encode(message))

    def stop(self) -> None:
        """Stop the programs."""
        self._send(Stop())

    async def metrics(self) -> Mapping[str, str]:
        """The metrics of the programs, by component; none if they have ended."""
        if self.ended.is_set():
            return {}
        if self._metrics is None:
            self._metrics = asyncio.get_running_loop().create_future()
            self._send(GetMetrics())
        return await asyncio.shield(self._metrics)

    async def close(self) -> None:
        """Cancel the requests in progress."""
        self.framing.close()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_frame(self, payload: memoryview) -> None:
        for message in _decode(payload):
            if isinstance(message, Call):
                work = self._stream(message) if message.opens else self._request(message)
                task = self._tasks[message.id] = asyncio.get_running_loop().create_task(work)
                # Not in the task: it may be cancelled before its first step.
                task.add_done_callback(partial(self._forget, message.id))
            elif isinstance(message, Cancel):
                cancelled = self._tasks.get(message.id)
                if cancelled is not None:
                    cancelled.cancel()
            elif isinstance(message, User):
                self._transports[message.number] = self._connect(
                    message.name, message.groups, user_agent=message.agent, metrics=None
                )
            elif isinstance(message, Metrics):
                self._set_metrics(message.pages)
            else:
                self._on_ready()

    def _on_end(self) -> None:
        self.ended.set()
        self._set_metrics({})

    def _set_metrics(self, pages: Mapping[str, str]) -> None:
        future, self._metrics = self._metrics, None
        if future is not None:
            future.set_result(pages)

    async def _request(self, call: Call) -> None:
        if call.cause is not None:
            adopt_cause(call.cause)
        try:
            request = Request(call.method, call.target, call.headers, call.body)
            response = await self._transports[call.user].request(request)
            self._send(Answer(call.id, response.status, response.headers, response.body))
        except Exception as error:  # noqa: BLE001  # a program can go on without this response
            self._fail(call, error)

    async def _stream(self, call: Call) -> None:
        try:
            request = Request(call.method, call.target, call.headers, call.body)
            stream = await self._transports[call.user].open(request)
            try:
                self._send(Answer(call.id, stream.status, stream.headers, b""))
                async for chunks in stream.batches() if isinstance(stream, Batches) else _single(stream):
                    self._send_chunks(call.id, chunks)
                    # Events wait in the watch, which ends if its reader is too slow.
                    await self.framing.writable.wait()
            finally:
                await stream.close()
            self._send(Ended(call.id, ""))
        except Exception as error:  # noqa: BLE001  # its reader opens another one
            self._fail(call, error)

    def _forget(self, number: int, _ended: asyncio.Task[None]) -> None:
        del self._tasks[number]

    def _fail(self, call: Call, error: Exception) -> None:
        _log.error("Request of a program failed", error=error, method=call.method, target=call.target)
        self._send(Ended(call.id, f"{type(error).__name__}: {error}"))

    def _send_chunks(self, number: int, chunks: list[bytes]) -> None:
        all_chunks, known = self._chunks, self._positions
        positions = []
        for chunk in chunks:
            position = known.get(id(chunk))
            if position is None:
                position = known[id(chunk)] = len(all_chunks)
                all_chunks.append(chunk)
            positions.append(position)
        self._send(Chunks(number, positions))

    def _send(self, message: FromServer) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        frame = ToPrograms(self._chunks, self._unsent)
        self._chunks, self._unsent, self._positions = [], [], {}
        if not self.ended.is_set():
            self.framing.send(_encode(frame))


async def _single(stream: Stream) -> AsyncIterator[list[bytes]]:
    async for chunk in stream:
        yield [chunk]
