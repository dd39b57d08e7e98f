"""One client's connection: parses requests, and writes responses in their order.

httptools parses the requests, ``exchange`` runs one, ``server`` creates and ends connections.

* Heads are limited, in size and time. A response may precede the body of its request (a 413); the rest of the body is
  then read and dropped up to a limit, since closing immediately would reset the connection before the client has read
  the response.
* The client certificate is in every request's scope (``peer_of``), and a callback for applications that have
  authenticated the client (``mark_authenticated``): until then the connection counts as unauthenticated (``limits``).
* Requests may be pipelined; each starts when the previous response is complete, and few are read ahead.
* A client that does not read its response is disconnected.
"""

import asyncio
import contextlib
import datetime
import re
import socket
import urllib.parse
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import httptools

from pilothouse.env import Clock, Log
from pilothouse.serving.exchange import App, Exchange, Message, Receive, Scope, Send
from pilothouse.serving.limits import AUTHENTICATED_BUFFER, Limits
from pilothouse.serving.peer import AUTHENTICATED, EXTENSION, Peer, read_peer

__all__ = ["HEAD_BYTES", "UNREAD_BYTES", "App", "Connection", "Message", "Receive", "Scope", "Send", "State"]

HEAD_BYTES = 64 * 1024
"""The maximum size of a request's line and headers."""

UNREAD_BYTES = 16 * 1024 * 1024
"""The maximum size of a body that is read and dropped after the response. A larger one closes the connection."""

_HEADERS = 1000
"""The maximum number of headers of a request."""
_LINES, _SLICE = 64, 1024
"""Data with more lines is parsed in slices of this size: it may be hundreds of small requests, which can wait until the
first is complete."""
_HOST = re.compile(rb"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*").fullmatch
"""As Go's ``httpguts.ValidHostHeader``."""

_TLS_READ, _TLS_WRITE = 16 * 1024, 64 * 1024

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ASGI = {"version": "3.0", "spec_version": "2.3"}

_log = Log("serving")


class State:
    """The state shared by the connections of one server, with the connections by class (``limits``)."""

    def __init__(
        self, app: App, clock: Clock, limits: Limits, verify: Callable[[Peer], str | None] | None = None
    ) -> None:
        self.app = app
        self.limits = limits
        self.verify = verify
        """Why a client certificate is not trusted, or None; None itself if none is requested."""
        self.stopping = False
        self.entered: dict[Connection, socket.socket] = {}
        """All connections, including those in their handshake."""
        self.new_connections: dict[Connection, None] = {}
        """Connections before their first response, the oldest first."""
        self.unauthenticated: dict[Connection, None] = {}
        """Connections with responses but without authentication; the one with the oldest response first."""
        self.on_capacity: Callable[[], None] | None = None
        """Called when a connection is closed or authenticated."""
        self._heads: dict[Connection, int] = {}
        self._head_bytes = 0
        """Sizes of incomplete heads by connection, the oldest first."""
        self.connections: dict[Connection, None] = {}
        """Connections after their handshake."""
        self.tasks: dict[asyncio.Task[None], None] = {}
        """Running requests."""
        self.empty = asyncio.Event()
        """Set while there are no connections."""
        self.empty.set()
        self._clock = clock
        self._dated_at = -1.0
        self._date = b""

    def enter(self, connection: "Connection", connected: socket.socket) -> None:
        """Add a connection."""
        self.entered[connection] = connected
        self.new_connections[connection] = None

    def leave(self, connection: "Connection") -> None:
        """Remove a connection. Idempotent."""
        if self.entered.pop(connection, None) is not None:
            self.new_connections.pop(connection, None)
            self.unauthenticated.pop(connection, None)
            self.release_head(connection)
            self._resume_writing()

    def hold_head(self, connection: "Connection", size: int) -> None:
        """Set the size of a connection's incomplete head."""
        self._head_bytes += size - self._heads.get(connection, 0)
        self._heads[connection] = size
        while self._head_bytes > self.limits.head_bytes:
            next(iter(self._heads)).drop()

    def release_head(self, connection: "Connection") -> None:
        """The head is complete or dropped."""
        self._head_bytes -= self._heads.pop(connection, 0)

    def mark_authenticated(self, connection: "Connection") -> None:
        """The client of the connection was authenticated."""
        if connection in self.new_connections or connection in self.unauthenticated:
            self.new_connections.pop(connection, None)
            self.unauthenticated.pop(connection, None)
            with contextlib.suppress(OSError):
                self.entered[connection].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, AUTHENTICATED_BUFFER)
            self._resume_writing()

    def response_complete(self, connection: "Connection") -> bool:
        """A response on the connection is complete. Returns whether it is still unauthenticated."""
        new_connections, unauthenticated = self.new_connections, self.unauthenticated
        if connection in new_connections:
            del new_connections[connection]
        elif connection in unauthenticated:
            del unauthenticated[connection]
        else:
            return False
        unauthenticated[connection] = None  # move to the end
        if len(unauthenticated) > self.limits.unauthenticated:
            _log.info("Closing an unauthenticated connection, because too many are open", v=2)
            next(
                (candidate for candidate in unauthenticated if candidate.is_backlogged), next(iter(unauthenticated))
            ).drop()
        self._resume_writing()
        return connection in unauthenticated

    def _resume_writing(self) -> None:
        if self.on_capacity is not None:
            self.on_capacity()

    def date(self, loop_time: float) -> bytes:
        """The ``Date`` header, updated each second by responses, so that it costs nothing when idle."""
        if loop_time - self._dated_at >= 1.0 or not self._date:
            self._dated_at = loop_time
            self._date = b"date: %b\r\n" % http_date(self._clock.now()).encode()
        return self._date


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, state: State, loop: asyncio.AbstractEventLoop) -> None:
        self._state = state
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        # Data after a request with ``Connection: close`` is ignored; it must not break the current response.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.writable = asyncio.Event()
        """Set while the client reads fast enough."""
        self.writable.set()
        self._reading_paused = False
        self.handshake_complete = False
        """Whether the handshake is complete."""
        self.last_progress_at = loop.time()
        """When it started, or the handshake was completed."""
        self._idle_since = self.last_progress_at
        self._has_had_request = False
        """Whether a request has started."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._extensions: dict[str, Any] = {}
        # Requests: the one being read, the one being handled, and those waiting.
        self._read: Exchange | None = None
        self._active: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._hosts: list[bytes] = []
        self._expects_continue = False
        self._in_head = False
        self._rejection = (400, b"Bad Request")
        """The response when the parser stops."""
        self._unparsed = b""
        """Data after requests that are not complete yet."""
        self._read_timer: asyncio.TimerHandle | None = None
        """Timeout of the head, or of the rest of the body."""
        self._stall_timer: asyncio.TimerHandle | None = None
        self._resumed = 0
        self._unwritten = 0
        self._requests_begun = 0
        """The number of requests that started in the current data."""
        self._framing_bytes = 0
        """The size of the current request without its body."""
        self._unread_bytes = 0

    # Called by the server

    @property
    def is_backlogged(self) -> bool:
        """Whether there are pending requests or unread responses."""
        return bool(self._unparsed or self._waiting) or self._read is not None or not self.writable.is_set()

    def drop(self) -> None:
        """Close immediately, and remove it from the state, to make room."""
        connected = self._state.entered.get(self)
        self._state.leave(self)
        if self._transport is not None:
            self._transport.abort()
        elif connected is not None:
            # The handshake fails, and cleans up.
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def authenticated(self) -> None:
        """The client was authenticated (``mark_authenticated``)."""
        self._state.mark_authenticated(self)

    def shutdown(self) -> None:
        """Close after the current response, or immediately without one."""
        if self._active is None:
            self.close()
        else:
            self._active.keep_alive = False
            self._waiting.clear()

    # Called by exchanges

    @property
    def common_headers(self) -> bytes:
        """Header lines of every response."""
        return self._state.date(self._loop.time())

    def write(self, data: bytes) -> None:
        """Send. Does nothing after a disconnect."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def resume_reading(self) -> None:
        """Continue reading from the client."""
        if self._reading_paused and not self._waiting and not self._unparsed:
            self._reading_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self) -> None:
        """Close after everything was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close immediately."""
        if self._transport is not None:
            self._transport.abort()

    def response_complete(self) -> None:
        """The current response is complete: start the next request."""
        exchange = self._active
        self._active = None
        self._idle_since = self._loop.time()
        unauthenticated, limits = self._state.response_complete(self), self._state.limits
        if self._transport is None or self._transport.is_closing():
            return
        if exchange is not None and exchange is self._read:
            self._set_timeout(limits.unread_unauthenticated_seconds if unauthenticated else limits.unread_seconds)
        if self._waiting:
            self._start(self._waiting.popleft())
        if self._unparsed and not self._waiting:
            data, self._unparsed = self._unparsed, b""
            self._feed(data)
        self.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's TLS transports are no subclass of asyncio.Transport, but have its methods.
        self._transport = cast(asyncio.Transport, transport)
        state = self._state
        self.handshake_complete = True
        self.last_progress_at = self._loop.time()
        state.connections[self] = None
        state.empty.clear()
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            # By default TLS has read buffers of 256 KiB, twice, and write buffers of 512 KiB.
            self._transport.set_read_buffer_limits(high=_TLS_READ)  # type: ignore[attr-defined]  # as TLS transports have
            self._transport.set_write_buffer_limits(high=_TLS_WRITE)
        self._extensions = {
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "http" if tls is None else "https",
            "extensions": {
                AUTHENTICATED: self.authenticated,
                **({} if tls is None else {EXTENSION: self._peer_scope(read_peer(tls))}),
            },
        }
        connected = transport.get_extra_info("socket")
        if connected is not None:
            # A watch can be silent for a minute, and its client gone without closing the connection.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if state.stopping:
            self._transport.close()  # the listener was closed during the handshake
            return
        self._idle_timer = self._loop.call_later(self._idle_seconds, self._close_if_idle)

    def _peer_scope(self, peer: Peer | None) -> dict[str, Any]:
        verify = self._state.verify
        verification_error = verify(peer) if peer is not None and verify is not None else None
        if verification_error is not None:
            _log.info("Client certificate is not trusted", v=2, err=verification_error)
        return {"peer": peer, "refusal": verification_error}

    def connection_lost(self, error: Exception | None) -> None:
        state = self._state
        state.connections.pop(self, None)
        state.leave(self)
        for timer in (self._idle_timer, self._read_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._transport = None
        self._unparsed = b""
        self.writable.set()
        if self._active is not None:
            self._active.disconnect()
        self._waiting.clear()
        # Break reference cycles: parser and connection refer to each other; so do the scopes of its requests, and a
        # request whose body has not arrived.
        self._parser = None
        self._extensions = {}
        self._read = None
        if not state.connections:
            state.empty.set()

    def pause_writing(self) -> None:
        self.writable.clear()
        # One timer per connection that checks from time to time, as for idleness: large responses pause often.
        if self._stall_timer is None and self._transport is not None:
            self._unwritten = self._transport.get_write_buffer_size()
            self._stall_timer = self._loop.call_later(self._state.limits.stalled_seconds, self._abort_if_stalled, 0)
            self._resumed = 0

    def resume_writing(self) -> None:
        self.writable.set()
        self._resumed += 1

    def data_received(self, data: bytes) -> None:
        if self._unparsed:
            self._unparsed += data  # TLS had received it before reading was paused
            return
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        if data.count(b"\n") <= _LINES:
            self._parse(data)
            return
        for offset in range(0, len(data), _SLICE):
            if self._waiting:
                self._unparsed = data[offset:]
                self._pause_reading()
                return
            self._parse(data[offset : offset + _SLICE])

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            # Its data is no longer HTTP.
            if self._active is not None and self._active.upgraded and not self._active.feed(data):
                self._pause_reading()
            return
        between_requests = self._read is None and not self._in_head
        self._requests_begun = 0
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The application upgrades the protocol, or responds normally. Later data is not HTTP.
            _log.info("The client requests another protocol", v=4, path=self._url.decode("latin-1"))
            self._stop_parsing()
        except httptools.HttpParserError:
            # Also TLS clients on a plain port, or the reverse.
            self._reject_request(*self._rejection)
        else:
            self._check_framing_bytes(len(data), between=between_requests)
            if self._in_head:
                if self._read_timer is None:
                    self._set_timeout(self._state.limits.head_seconds)
                self._state.hold_head(self, self._framing_bytes)

    def _check_framing_bytes(self, size: int, *, between: bool) -> None:
        if self._requests_begun == 0:
            self._framing_bytes += size
        elif self._requests_begun == 1 and between:
            self._framing_bytes = size
        else:
            self._framing_bytes = 0  # data of two requests, whose sizes are unknown
        if self._framing_bytes > (HEAD_BYTES if self._in_head else UNREAD_BYTES):
            self._reject_request(431, b"Request Header Fields Too Large")

    # httptools

    def on_message_begin(self) -> None:
        self._idle_since = self._loop.time()
        self._has_had_request = True
        self._in_head = True
        self._requests_begun += 1
        self._url = b""
        self._headers = []
        self._hosts = []
        self._expects_continue = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # trailers are ignored
        name = name.lower()
        if name == b"host":
            self._hosts.append(value)
        elif name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))
        if len(self._headers) > _HEADERS:
            self._reject(431, b"Request Header Fields Too Large")

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._read_timer is not None:
            self._cancel_timeout()
            self._state.release_head(self)
        self._unread_bytes = 0
        parser = self._parser
        version: str = parser.get_http_version()
        self._check_host(version)
        raw_path, query = _split(self._url)
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
            **self._extensions,
        }
        keep_alive = version != "1.0" and bool(parser.should_keep_alive()) and not self._state.stopping
        exchange = Exchange(self, scope, keep_alive=keep_alive, expects_continue=self._expects_continue)
        self._read = exchange
        if self._active is None:
            self._start(exchange)
        else:
            self._waiting.append(exchange)
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        exchange = self._read
        assert exchange is not None, "a body follows its head"
        self._framing_bytes -= len(body)
        if exchange.complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > UNREAD_BYTES:
                self.close()
        elif not exchange.feed(body):
            self._pause_reading()

    def on_message_complete(self) -> None:
        exchange = self._read
        assert exchange is not None, "a body follows its head"
        exchange.feed_end()
        self._read = None
        self._cancel_timeout()

    # Helpers

    def _check_host(self, version: str) -> None:
        """As Go's server: exactly one Host, optional before HTTP/1.1 (``net/http``, ``conn.readRequest``)."""
        hosts = self._hosts
        if version not in ("1.1", "1.0"):
            self._reject(505, b"HTTP Version Not Supported")
        if len(hosts) > 1:
            self._reject(400, b"Bad Request: too many Host headers")
        if not hosts:
            if version != "1.0":
                self._reject(400, b"Bad Request: missing required Host header")
        elif _HOST(hosts[0]) is None:
            self._reject(400, b"Bad Request: malformed Host header")

    def _reject(self, status: int, phrase: bytes) -> None:
        """Stop the parser that called; ``_reject_request`` sends the response."""
        self._rejection = (status, phrase)
        raise _RejectedError

    def _set_timeout(self, seconds: float) -> None:
        self._cancel_timeout()
        self._read_timer = self._loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        if self._active is None:
            self.close()
        else:
            self._stop_parsing()

    def _cancel_timeout(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _abort_if_stalled(self, resumed: int) -> None:
        self._stall_timer = None
        transport = self._transport
        if transport is None or self.writable.is_set():
            return
        unwritten = transport.get_write_buffer_size()
        if resumed == self._resumed and unwritten >= self._unwritten:
            _log.info("Closing a connection whose client does not read", v=2, bytes=unwritten)
            transport.abort()
            return
        self._unwritten = unwritten
        self._stall_timer = self._loop.call_later(
            self._state.limits.stalled_seconds, self._abort_if_stalled, self._resumed
        )

    def _start(self, exchange: Exchange) -> None:
        self._active = exchange
        tasks = self._state.tasks
        task = self._loop.create_task(exchange.run(self._state.app))
        tasks[task] = None
        task.add_done_callback(tasks.__delitem__)

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _stop_parsing(self) -> None:
        """Ignore all further data. Previous requests get their responses, then the connection is closed."""
        self._parser = None
        last_exchange = self._waiting[-1] if self._waiting else self._active
        if last_exchange is not None:
            last_exchange.keep_alive = False

    def _reject_request(self, status: int, phrase: bytes) -> None:
        """A request is invalid. Previous requests get their responses, then the connection is closed."""
        rejected = self._read
        if rejected is not None and rejected in self._waiting:
            self._waiting.remove(rejected)
        self._unparsed = b""
        self._stop_parsing()
        if self._active is not None and self._active is not rejected:
            return
        if rejected is None or not rejected.written:
            self.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
                % (status, phrase, len(phrase), phrase)
            )
        self.close()

    @property
    def _idle_seconds(self) -> float:
        """The idle timeout; shorter before the first request."""
        limits = self._state.limits
        return limits.idle_seconds if self._has_had_request else min(limits.head_seconds, limits.idle_seconds)

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        # One timer per connection that checks from time to time is cheaper than one per request.
        idle = 0.0 if self._active is not None else self._loop.time() - self._idle_since
        remaining = self._idle_seconds - idle
        if remaining <= 0:
            self.close()
        else:
            self._idle_timer = self._loop.call_later(remaining, self._close_if_idle)


class _RejectedError(Exception):
    """Stops the parser at a request that is rejected."""


def http_date(moment: datetime.datetime) -> str:
    """A time in UTC in the format of HTTP, independent of the locale: ``Thu, 01 Jan 2026 00:00:00 GMT``."""
    return f"{_DAYS[moment.weekday()]}, {moment.day:02} {_MONTHS[moment.month - 1]} {moment:%Y %H:%M:%S} GMT"


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request target: a path or, for proxies, an absolute URL."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""


def _address(name: Any) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else None
