"""The programs' end: transports to the API server of the other process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.wire import Request, Response
from pilothouse.client.errors import ConnectionLost
from pilothouse.machinery.causes import current_cause
from pilothouse.plane.processes.framing import Framing
from pilothouse.plane.processes.messages import (
    Answer,
    Call,
    Cancel,
    Chunks,
    Ended,
    GetMetrics,
    Metrics,
    Ready,
    ToPrograms,
    ToServer,
    User,
)

if TYPE_CHECKING:
    from pilothouse.apiserver.metrics.requests import ClientMetrics

_HOST = "local"
"""The label ``host`` of client metrics, as of requests in one process."""
_READS = ("GET", "HEAD")
_SERVER_ENDED = "the process of the API server has ended"
_decode = msgspec.msgpack.Decoder(ToPrograms).decode
_encode = msgspec.msgpack.Encoder().encode


class ServerConnection:
    """The connection to the API server's process. ``framing`` is its protocol."""

    def __init__(self) -> None:
        self.framing = Framing(self._on_frame, self._on_end)
        self.stopped = asyncio.Event()
        """Set when the API server stops the programs, or has ended."""
        self.metric_pages: Callable[[], Mapping[str, str]] = dict
        """Returns the metrics of the programs, by component."""
        self._users = self._calls = 0
        self._waiting: dict[int, asyncio.Future[Answer | Ended]] = {}
        self._streams: dict[int, RemoteStream] = {}
        self._unsent: list[ToServer] = []
        self.lost = False
        """Whether the API server has ended."""

    def transport(
        self, user: str, groups: Sequence[str], *, user_agent: str, metrics: "ClientMetrics | None"
    ) -> "ServerTransport":
        """The transport of a user (``plane.clients.Connect``)."""
        self._users += 1
        self._send(User(self._users, user, tuple(groups), user_agent))
        return ServerTransport(self, self._users, metrics)

    def report_ready(self) -> None:
        """All programs are ready."""
        self._send(Ready())

    async def request(self, user: int, request: Request) -> Response:
        """The response to a request. Raises ``ConnectionLost``."""
        answer = await self._answer(self._new_call(user, request, opens=False))
        return Response(answer.status, answer.headers, answer.body)

    async def open(self, user: int, request: Request) -> "RemoteStream":
        """The stream that a request opens. Raises ``ConnectionLost``."""
        call = self._new_call(user, request, opens=True)
        # Before its response: chunks may be in the same frame.
        stream = self._streams[call.id] = RemoteStream(self, call.id)
        try:
            answer = await self._answer(call)
        except BaseException:
            self._streams.pop(call.id, None)
            raise
        stream.status, stream.headers = answer.status, answer.headers
        return stream

    def close_stream(self, number: int) -> None:
        """The stream is not read any more."""
        if self._streams.pop(number, None) is not None:
            self._send(Cancel(number))

    def _new_call(self, user: int, request: Request, *, opens: bool) -> Call:
        self._calls += 1
        cause = None if request.method in _READS else current_cause()
        return Call(self._calls, user, opens, request.method, request.target, request.headers, request.body, cause)

    async def _answer(self, call: Call) -> Answer:
        if self.lost:
            raise ConnectionLost(_SERVER_ENDED)
        future: asyncio.Future[Answer | Ended] = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = future
        self._send(call)
        try:
            received = await future
        except asyncio.CancelledError:
            # A stream continues after its response.
            if self._waiting.pop(call.id, None) is not None or call.opens:
                self._send(Cancel(call.id))
            raise
        if isinstance(received, Ended):
            raise ConnectionLost(received.error)
        return received

    def _send(self, message: ToServer) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self.lost:
            self.framing.send(_encode(unsent))

    def _on_frame(self, payload: memoryview) -> None:
        frame = _decode(payload)
        chunks = frame.chunks
        for message in frame.messages:
            if type(message) is Chunks:
                stream = self._streams.get(message.id)
                if stream is not None:
                    stream.receive([chunks[position] for position in message.positions])
            elif isinstance(message, Answer | Ended):
                self._on_answer(message)
            elif isinstance(message, GetMetrics):
                self._send(Metrics(self.metric_pages()))
            else:
                self.stopped.set()

    def _on_answer(self, message: Answer | Ended) -> None:
        future = self._waiting.pop(message.id, None)
        if future is not None:
            if not future.done():
                future.set_result(message)
        elif isinstance(message, Ended):
            stream = self._streams.pop(message.id, None)
            if stream is not None:
                stream.end(message.error)

    def _on_end(self) -> None:
        self.lost = True
        for future in self._waiting.values():
            if not future.done():
                future.set_result(Ended(0, _SERVER_ENDED))
        self._waiting.clear()
        for stream in self._streams.values():
            stream.end(_SERVER_ENDED)
        self._streams.clear()
        self.stopped.set()


class ServerTransport:
    """The transport of one user (``wire.Transport``)."""

    def __init__(self, connection: ServerConnection, user: int, metrics: "ClientMetrics | None") -> None:
        self._connection = connection
        self._user = user
        self._metrics = metrics

    async def request(self, request: Request) -> Response:
        """``wire.Transport.request``."""
        if self._metrics is None:
            return await self._connection.request(self._user, request)
        started_at = asyncio.get_running_loop().time()
        response = await self._connection.request(self._user, request)
        self._count(request, started_at, response.status, len(response.body))
        return response

    async def open(self, request: Request) -> "RemoteStream":
        """``wire.Transport.open``."""
        started_at = asyncio.get_running_loop().time()
        stream = await self._connection.open(self._user, request)
        self._count(request, started_at, stream.status, 0)
        return stream

    def _count(self, request: Request, started_at: float, status: int, response_bytes: int) -> None:
        if self._metrics is not None:
            self._metrics.request_done(
                request.method,
                _HOST,
                str(status),
                seconds=asyncio.get_running_loop().time() - started_at,
                request_bytes=len(request.body),
                response_bytes=response_bytes,
            )

    async def close(self) -> None:
        """Nothing to do: all transports share one connection."""


class RemoteStream:
    """A stream of the API server. Its chunks are the same bytes objects in all streams that deliver an event."""

    def __init__(self, connection: ServerConnection, number: int) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._connection = connection
        self._number = number
        self._chunks: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error = ""

    def receive(self, chunks: list[bytes]) -> None:
        """Chunks have arrived."""
        self._chunks += chunks
        self._notify()

    def end(self, error: str) -> None:
        """The stream is over; ``error`` if the connection was lost."""
        self._ended = True
        self._error = error
        self._notify()

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """The chunks, in batches as they arrived. Raises ``ConnectionLost``."""
        while True:
            if self._chunks:
                chunks, self._chunks = self._chunks, []
                yield chunks
            elif self._error:
                raise ConnectionLost(self._error)
            elif self._ended:
                return
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunks in self.batches():
            for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Stop receiving."""
        self._ended = True
        self._connection.close_stream(self._number)
        self._notify()

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
