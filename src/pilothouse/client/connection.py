"""One HTTP/1.1 connection, as a bare asyncio protocol around httptools' parser.

``dial`` creates these, ``pool`` manages them, ``remote`` writes requests to them. One request at a time: either its
whole response is awaited (``exchange``) or its body is streamed (``open_stream``), which uses the connection until its
end.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, cast

import httptools

from pilothouse.api import wire
from pilothouse.client.errors import ConnectionLost

_HIGH_WATER = 1 << 20
"""A stream whose reader is this many bytes behind stops reading from its socket."""

_poll = getattr(select, "poll", None)


class Headers(Mapping[str, str]):
    """Response headers, decoded when they are read: most never are."""

    __slots__ = ("_decoded", "_raw")

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        self._raw = raw
        self._decoded: dict[str, str] | None = None

    def _all(self) -> dict[str, str]:
        if self._decoded is None:
            decoded: dict[str, str] = {}
            for name, value in self._raw:
                key, text = name.decode("latin-1").lower(), value.decode("latin-1")
                decoded[key] = f"{decoded[key]}, {text}" if key in decoded else text
            self._decoded = decoded
        return self._decoded

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"Headers({self._all()!r})"


class Connection(asyncio.Protocol):
    """A connection to an API server, or to a proxy in front of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[wire.Response] | None = None
        self._opening: asyncio.Future[RemoteStream] | None = None
        self._stream: RemoteStream | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._status = 0
        self._begun = False
        self._poller: Any = None
        self.lost: asyncio.Future[None] = loop.create_future()
        """Done when the connection is closed and the loop has dropped it."""
        self.closed = False
        """Whether the connection is of no more use."""
        self.uses = 0
        """How many requests were written to it."""
        self.idle_since = 0.0
        """When it was last returned to the pool, in loop time."""
        self.generation = 0
        """The generation of credentials with which it was created; see ``Pool``."""
        self.answered = False
        """Whether any byte of the response to the current request was received."""

    # For the pool and the transport

    def exchange(self, data: bytes) -> asyncio.Future[wire.Response]:
        """Write a request; the future is its whole response, or ``ConnectionLost``."""
        assert self._transport is not None, "a connection is used once it is made"
        assert not self.closed, "a closed connection was lent out"
        self._answer = future = self._loop.create_future()
        self.uses += 1
        self.answered = False
        self._transport.write(data)
        return future

    def open_stream(self, data: bytes) -> "asyncio.Future[RemoteStream]":
        """Write a request; the future is its response as soon as the status is received. The connection cannot be
        reused."""
        assert self._transport is not None, "a connection is used once it is made"
        assert not self.closed, "a closed connection was lent out"
        self._opening = opening = self._loop.create_future()
        self.uses += 1
        self._transport.write(data)
        return opening

    def is_stale(self) -> bool:
        """Whether the server has closed an idle connection or sent unrequested bytes that the loop has not processed
        yet. Costs a system call."""
        if self.closed or self._transport is None or self._transport.is_closing():
            return True
        if self._poller is None:
            sock = self._transport.get_extra_info("socket")
            if sock is None or _poll is None:
                return False
            self._poller = _poll()
            self._poller.register(sock.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)
        return bool(self._poller.poll(0))

    def abort(self) -> None:
        """Drop the connection immediately, even before a response."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close an idle connection, with TLS' farewell."""
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def pause(self) -> None:
        """Stop reading: the stream's reader is behind."""
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's TLS transports are no subclass of asyncio.Transport, they only behave as one.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None and self._opening is None and self._stream is None:
            self.abort()  # there was no request: a 408 before the server closes, or a broken server
            return
        self.answered = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionLost(f"the server's answer is not HTTP/1.1: {error}"))
            self.abort()
            return
        if self._stream is not None and self._body:
            # All that was received in one read is one piece, so that a reader gets a batch instead of single events.
            piece = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body = []
            self._stream.feed(piece)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if not self.lost.done():
            self.lost.set_result(None)
        if error is None and self._begun and not self._delimited():
            self.on_message_complete()  # a body without a length ends with the connection
        reason = f": {error}" if error is not None and str(error) else ""
        self._fail(ConnectionLost(f"the server closed the connection before the answer was complete{reason}"))
        # The parser refers to methods of this object, and this object to the parser.
        self._parser = None
        self._transport = None

    # httptools

    def on_message_begin(self) -> None:
        if self._answer is None and self._opening is None and self._stream is None:
            # Bytes after a complete response: they would be mixed into the next response.
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:
            return
        self._begun = True
        if self._opening is not None:
            stream = RemoteStream(self, self._status, Headers(self._headers))
            self._headers = []
            opening, self._opening = self._opening, None
            self._stream = stream
            if opening.cancelled():
                self.abort()
            else:
                opening.set_result(stream)

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._status < 200:  # 100 Continue and similar: the response follows
            self._headers = []
            return
        self._begun = False
        if self._stream is not None:
            stream, self._stream = self._stream, None
            if self._body:
                stream.feed(b"".join(self._body))
                self._body = []
            stream.end(None)
            self.close()  # a watch has a connection of its own, which is not reused
            return
        future, self._answer = self._answer, None
        body = self._body
        whole = body[0] if len(body) == 1 else b"".join(body)
        response = wire.Response(self._status, Headers(self._headers), whole)
        self._headers, self._body = [], []
        if self._parser is not None and not self._parser.should_keep_alive():
            self.close()
        if future is not None and not future.done():
            future.set_result(response)

    # Parts

    def _delimited(self) -> bool:
        headers = Headers(self._headers) if self._stream is None else self._stream.headers
        return "content-length" in headers or "chunked" in headers.get("transfer-encoding", "").lower()

    def _fail(self, error: ConnectionLost) -> None:
        for waiting in (self._answer, self._opening):
            if waiting is not None and not waiting.done():
                waiting.set_exception(error)
        if self._stream is not None:
            self._stream.end(error)
        self._answer = self._opening = self._stream = None


async def close_all(connections: Iterable[Connection], *, seconds: float = 1.0) -> None:
    """Close connections and wait until they are closed, so that the loop can be closed. Slow ones are aborted."""
    waiting = [connection for connection in connections if not connection.lost.done()]
    for connection in waiting:
        connection.close()
    for connection in waiting:
        try:
            async with asyncio.timeout(seconds):
                await connection.lost
        except TimeoutError:
            connection.abort()
            seconds = 0.1


class RemoteStream:
    """A body in pieces (``wire.Stream``). Reading stops while its reader is more than a megabyte behind."""

    def __init__(self, connection: Connection, status: int, headers: Headers) -> None:
        self.status: int = status
        self.headers: Mapping[str, str] = headers
        self._connection = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._ended = False
        self._error: ConnectionLost | None = None
        self._reader: asyncio.Future[None] | None = None

    def feed(self, piece: bytes) -> None:
        """Take a piece from the connection."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _HIGH_WATER and not self._paused:
            self._paused = True
            self._connection.pause()
        self._notify()

    def end(self, error: ConnectionLost | None) -> None:
        """The connection has nothing more, and why."""
        self._ended = True
        self._error = error
        self._notify()

    def _notify(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._pieces:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        pieces = self._pieces
        whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces, self._size = [], 0
        if self._paused:
            self._paused = False
            self._connection.resume()
        return whole

    async def close(self) -> None:
        """Stop receiving."""
        self._pieces, self._size = [], 0
        self.end(None)
        self._connection.abort()
