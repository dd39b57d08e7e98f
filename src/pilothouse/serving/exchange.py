"""One HTTP request and its response: ``receive`` and ``send`` of an ASGI application.

``protocol.Connection`` creates one for each parsed request, feeds it the body, and runs it once the previous responses
are complete. An error of the application only fails its request.
"""

import asyncio
import http
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from pilothouse.env import Log

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

READ_AHEAD = 64 * 1024
"""Reading from the connection is paused while more bytes of a body than this are not consumed."""

_MAX_JOINED_BODY = 64 * 1024
"""Bodies of up to this many bytes are written together with the head."""
_WITHOUT_BODY = (204, 304)
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search
_STATUS_LINES = {int(one): b"HTTP/1.1 %d %s\r\n" % (one, one.phrase.encode()) for one in http.HTTPStatus}

_log = Log("serving")


class Wire(Protocol):
    """The interface of a connection for exchanges."""

    @property
    def common_headers(self) -> bytes:
        """Header lines of every response."""

    def write(self, data: bytes) -> None:
        """Send. Does nothing after a disconnect."""

    @property
    def writable(self) -> asyncio.Event:
        """Set while the client reads fast enough."""

    def resume_reading(self) -> None:
        """Continue reading from the client."""

    def close(self) -> None:
        """Close after everything was written."""

    def abort(self) -> None:
        """Close immediately."""

    def response_complete(self) -> None:
        """Called when the response is complete."""


class Exchange:
    """One request in progress."""

    __slots__ = (
        "_body",
        "_chunked",
        "_end_sent",
        "_ended",
        "_expected",
        "_expects_continue",
        "_head",
        "_size",
        "_started",
        "_waiter",
        "_wire",
        "complete",
        "disconnected",
        "keep_alive",
        "scope",
        "streaming",
        "upgraded",
        "written",
    )

    def __init__(self, wire: Wire, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        """Whether the connection may serve another request after this one."""
        self.complete = False
        """Whether the whole response was written."""
        self.disconnected = False
        """Whether the client has disconnected."""
        self.streaming: asyncio.Task[Any] | None = None
        """The task of a streamed response."""
        self.upgraded = False
        """Whether the response was 101: both directions are then no HTTP, and not parsed."""
        self.written = False
        """Whether the client may have received a part of the response."""
        self._wire = wire
        self._expects_continue = expects_continue
        self._body: list[bytes] = []
        self._size = 0
        self._ended = False
        self._end_sent = False
        self._waiter: asyncio.Future[None] | None = None
        self._started = False
        self._head = b""
        """The head of the response, until it is written."""
        self._chunked = False
        self._expected: int | None = None
        """The remaining bytes of the response's body; None if unknown."""

    # Called by the connection

    def feed(self, chunk: bytes) -> bool:
        """Add a piece of the body. Returns False if reading should be paused."""
        self._body.append(chunk)
        self._size += len(chunk)
        self._notify()
        return self._size <= READ_AHEAD

    def feed_end(self) -> None:
        """The body is complete."""
        self._ended = True
        self._notify()

    def disconnect(self) -> None:
        """The client has disconnected. A streamed response is cancelled; others complete, so that no write is
        interrupted."""
        self.disconnected = True
        self._notify()
        if self.streaming is not None:
            self.streaming.cancel()

    # Called by the application

    async def run(self, app: App) -> None:
        """Run the application. Never raises."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            # Requests are only cancelled by the connection and by a shutdown. Abort, so that the client does not
            # mistake a partial response for a complete one.
            self._wire.abort()
        except ConnectionError as error:
            self._wire.abort()
            _log.info("Connection lost while responding", v=4, path=self.scope["path"], err=error)
        except Exception as error:  # noqa: BLE001  # only this request fails
            _log.exception("A request failed unexpectedly", error, method=self.scope["method"], path=self.scope["path"])
            await self._fail()
        else:
            if not self.complete and not self.disconnected:
                _log.error(
                    "The application returned without a response", method=self.scope["method"], path=self.scope["path"]
                )
                await self._fail()
        finally:
            self.streaming = None

    async def receive(self) -> Message:
        """``http.request`` with the next piece of the body, or ``http.disconnect``."""
        if self._expects_continue:
            self._expects_continue = False
            if not (self._body or self._ended):
                self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.disconnected or self.complete):
            if self._body or (self._ended and not self._end_sent):
                self._end_sent = self._ended
                body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
                self._body, self._size = [], 0
                if not self._ended:
                    self._wire.resume_reading()
                return {"type": "http.request", "body": body, "more_body": not self._ended}
            self._wire.resume_reading()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the response. The head is delayed until the first part of the body: both are then one write,
        one TLS record and one wakeup of the client. Waits while the client does not read."""
        kind = message["type"]
        if kind == "http.response.start":
            if self._started:
                raise RuntimeError("the response has already started")
            self._head = self._render(message["status"], message.get("headers", ()))
            self._started = True
            return
        if kind != "http.response.body":
            raise RuntimeError(f"{kind!r} is not a message of an HTTP response")
        if self.complete or not self._started:
            raise RuntimeError("a body must follow the start of the response and precede its end")
        more = message.get("more_body", False)
        if more:
            # If several tasks send, as with pongs between events, it is the first one.
            self.streaming = self.streaming or asyncio.current_task()
            if self.disconnected:
                raise ConnectionResetError("the client is gone")
        if not self._wire.writable.is_set() and not self.disconnected:
            await self._wire.writable.wait()
        self._write_body(message.get("body", b""), more=more)
        if not more:
            self.complete = True
            self.streaming = None
            self._notify()
            if not self.disconnected:
                if not self.keep_alive:
                    self._wire.close()
                self._wire.response_complete()

    # Helpers

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _render(self, status: int, headers: Any) -> bytes:
        if self._expects_continue:
            # It is unknown whether the next bytes are the body or another request.
            self.keep_alive = self._expects_continue = False
        length: int | None = None
        has_close = False
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, self._wire.common_headers]
        for name, value in headers:
            if _CONTROL(value) or _CONTROL(name):
                raise RuntimeError(f"header {name!r} has characters that no header may have")
            if name == b"content-length":
                length = int(value)
            elif name == b"connection" and value.lower() == b"close":
                has_close = True
                self.keep_alive = False
            lines.append(b"%b: %b\r\n" % (name, value))
        if status == http.HTTPStatus.SWITCHING_PROTOCOLS:
            self.upgraded = True
            self.keep_alive = False
        elif self.scope["method"] == "HEAD" or status in _WITHOUT_BODY:
            length = 0
        elif length is None:
            if self.scope["http_version"] == "1.0":
                self.keep_alive = False  # the body ends with the connection
            else:
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
        self._expected = length
        if not (self.keep_alive or has_close or self.upgraded):
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _write_body(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        elif self._expected is not None:
            self._expected -= len(body)
            if self._expected < 0 or (self._expected and not more):
                raise RuntimeError("the body of the response does not match its content-length")
        if self._head:
            head, self._head = self._head, b""
            self.written = True
            if len(body) > _MAX_JOINED_BODY:
                self._wire.write(head)
            else:
                body = head + body
        if body:
            self._wire.write(body)

    async def _fail(self) -> None:
        """The application failed: respond with 500 if nothing was sent, else abort the connection."""
        if self.complete:
            return
        if self.written:
            self._wire.close()
            return
        self._started = self._chunked = False
        body = b"Internal Server Error"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
