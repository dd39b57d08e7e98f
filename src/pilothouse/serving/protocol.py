"""One client's connection: bytes in, requests out, answers in their order.

httptools finds the requests, ``exchange`` runs one, ``server`` makes connections and ends them.

* Heads are bounded. An answer may come before its body is read (a 413); the rest of the body is then read and dropped
  up to a bound, since closing at once would reset the connection before the client has seen the answer.
* The peer's certificate is in every request's scope (``peer_of``).
* Requests may be pipelined; each begins when the one before is answered.
"""

import asyncio
import datetime
import socket
import urllib.parse
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import httptools

from pilothouse.env import Clock, Log
from pilothouse.serving.exchange import App, Exchange, Message, Receive, Scope, Send
from pilothouse.serving.peer import EXTENSION, Peer, read_peer

__all__ = ["HEAD_BYTES", "UNREAD_BYTES", "App", "Connection", "Message", "Receive", "Scope", "Send", "State"]

HEAD_BYTES = 64 * 1024
"""Bytes that a request's line and headers may take before they must be complete."""

UNREAD_BYTES = 16 * 1024 * 1024
"""Bytes of a body that are read and dropped after its answer was sent. Then the connection is closed."""

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ASGI = {"version": "3.0", "spec_version": "2.3"}

_log = Log("serving")


class State:
    """What the connections of one server share."""

    def __init__(
        self, app: App, clock: Clock, idle_seconds: float, refuses: Callable[[Peer], str | None] | None = None
    ) -> None:
        self.app = app
        self.idle_seconds = idle_seconds
        """How long a connection may be silent between requests."""
        self.refuses = refuses
        """Why a client certificate is not believed, or None; None itself where nobody is asked for one."""
        self.stopping = False
        self.connections: dict[Connection, None] = {}
        self.tasks: dict[asyncio.Task[None], None] = {}
        """Requests under way."""
        self.empty = asyncio.Event()
        """Set while there are no connections."""
        self.empty.set()
        self._clock = clock
        self._dated_at = -1.0
        self._date = b""

    def date(self, loop_time: float) -> bytes:
        """The ``Date`` header, right to the second, at the cost of answers, not of idle seconds."""
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
        # What comes behind a request that asks to close is nobody's; it must not spoil the answer under way.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.writable = asyncio.Event()
        """Set while the client keeps up with what is written."""
        self.writable.set()
        self._reading_paused = False
        self._idle_since = loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._about: dict[str, Any] = {}
        # Requests: the one being read, the one being answered, and those that wait for it.
        self._read: Exchange | None = None
        self._active: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._wants_continue = False
        self._in_head = False
        self._begun = 0
        """How many requests have begun in what is being read now."""
        self._spent = 0
        """Bytes of the request being read that are not its body."""
        self._unread_bytes = 0

    # For the server

    def shutdown(self) -> None:
        """Close after the answer under way, or at once when there is none."""
        if self._active is None:
            self.close()
        else:
            self._active.keep_alive = False
            self._waiting.clear()

    # For exchanges

    @property
    def standing_headers(self) -> bytes:
        """Header lines of every answer."""
        return self._state.date(self._loop.time())

    def write(self, data: bytes) -> None:
        """Send. Once the client is gone nothing happens."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def read_on(self) -> None:
        """Take more from the client."""
        if self._reading_paused and not self._waiting:
            self._reading_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self) -> None:
        """Close once everything written is out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def answered(self) -> None:
        """The answer under way is complete: on to the next request."""
        self._active = None
        self._idle_since = self._loop.time()
        if self._transport is None or self._transport.is_closing():
            return
        if self._waiting:
            self._start(self._waiting.popleft())
        self.read_on()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's TLS transports are no subclass of asyncio.Transport, they only behave as one.
        self._transport = cast(asyncio.Transport, transport)
        state = self._state
        state.connections[self] = None
        state.empty.clear()
        tls = transport.get_extra_info("ssl_object")
        self._about = {
            "server": _address(transport.get_extra_info("sockname")),
            "client": _address(transport.get_extra_info("peername")),
            "scheme": "http" if tls is None else "https",
            "extensions": {} if tls is None else {EXTENSION: self._shown(read_peer(tls))},
        }
        connected = transport.get_extra_info("socket")
        if connected is not None:
            # A watch can be silent for a minute, and its client be gone without a word.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if state.stopping:
            self._transport.close()  # its handshake was under way when the listener was closed
            return
        # Whoever connects and says nothing is idle, as after an answer.
        self._idle_timer = self._loop.call_later(state.idle_seconds, self._close_if_idle)

    def _shown(self, peer: Peer | None) -> dict[str, Any]:
        refuses = self._state.refuses
        refusal = refuses(peer) if peer is not None and refuses is not None else None
        if refusal is not None:
            _log.info("Client certificate is not believed", v=2, err=refusal)
        return {"peer": peer, "refusal": refusal}

    def connection_lost(self, error: Exception | None) -> None:
        state = self._state
        state.connections.pop(self, None)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._transport = None
        self.writable.set()
        if self._active is not None:
            self._active.disconnect()
        self._waiting.clear()
        # The parser holds this object's methods, and this object the parser.
        self._parser = None
        if not state.connections:
            state.empty.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return  # what it sends is no HTTP any more
        between = self._read is None and not self._in_head
        self._begun = 0
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # What follows is in a protocol that nobody here speaks; the application answers the request itself.
            _log.info("Upgrade requested and not offered", v=4, path=self._url.decode("latin-1"))
            self._hear_no_more()
        except httptools.HttpParserError:
            # A client that speaks TLS to a plain port, or the other way round, ends here.
            self._break_off(400, b"Bad Request")
        else:
            self._check_spent(len(data), between=between)

    def _check_spent(self, size: int, *, between: bool) -> None:
        if self._begun == 0:
            self._spent += size
        elif self._begun == 1 and between:
            self._spent = size
        else:
            self._spent = 0  # the rest of one request and the beginning of another: how much of each, nobody knows
        if self._spent > (HEAD_BYTES if self._in_head else UNREAD_BYTES):
            self._break_off(431, b"Request Header Fields Too Large")

    # httptools

    def on_message_begin(self) -> None:
        self._idle_since = self._loop.time()
        self._in_head = True
        self._begun += 1
        self._url = b""
        self._headers = []
        self._wants_continue = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer; nobody asks for one
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._wants_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._unread_bytes = 0
        parser = self._parser
        raw_path, query = _split(self._url)
        path = raw_path.decode("ascii")
        version: str = parser.get_http_version()
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
            **self._about,
        }
        keep_alive = version != "1.0" and bool(parser.should_keep_alive()) and not self._state.stopping
        exchange = Exchange(self, scope, keep_alive=keep_alive, wants_continue=self._wants_continue)
        self._read = exchange
        if self._active is None:
            self._start(exchange)
        else:
            self._waiting.append(exchange)
            self._pause_reading()

    def on_body(self, body: bytes) -> None:
        exchange = self._read
        assert exchange is not None, "a body follows its head"
        self._spent -= len(body)
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

    # Parts

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

    def _hear_no_more(self) -> None:
        """Nothing that still comes can be understood. What was asked before is answered, then the connection ends."""
        self._parser = None
        last = self._waiting[-1] if self._waiting else self._active
        if last is not None:
            last.keep_alive = False

    def _break_off(self, status: int, phrase: bytes) -> None:
        """A request can't be read to its end. What was asked before it is answered, then the connection ends."""
        broken = self._read
        if broken is not None and broken in self._waiting:
            self._waiting.remove(broken)
        self._hear_no_more()
        if self._active is not None and self._active is not broken:
            return
        if broken is None or not broken.written:
            self.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
                % (status, phrase, len(phrase), phrase)
            )
        self.close()

    def _close_if_idle(self) -> None:
        self._idle_timer = None
        # One timer per connection that looks now and then costs less than one per request.
        silent = 0.0 if self._active is not None else self._loop.time() - self._idle_since
        if silent >= self._state.idle_seconds:
            self.close()
        else:
            self._idle_timer = self._loop.call_later(self._state.idle_seconds - silent, self._close_if_idle)


def http_date(moment: datetime.datetime) -> str:
    """An instant in UTC as HTTP writes it, whatever the locale: ``Thu, 01 Jan 2026 00:00:00 GMT``."""
    return f"{_DAYS[moment.weekday()]}, {moment.day:02} {_MONTHS[moment.month - 1]} {moment:%Y %H:%M:%S} GMT"


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of what a request asks for, be it a path or, as proxies get it, a whole URL."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""


def _address(name: Any) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else None
