"""One HTTP connection: uvicorn's httptools protocol with what an API server needs in addition.

* The peer's certificate is in every request's scope (``peer_of``).
* A streamed answer is cancelled when its client goes away; any other request runs to its end, because half a write
  helps nobody.
* Heads are bounded. An answer may come before its body is read (a 413); the rest of the body is then read and dropped
  up to a bound, since closing at once would reset the connection before the client has seen the answer.
* The application runs behind a guard, in place of uvicorn's own, which takes a cancellation for a failure.

``server`` makes these; what is imported here is only imported once there is something to serve.
"""

import asyncio
import email.utils
import logging
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from pilothouse.env import Clock, Log
from pilothouse.serving.peer import EXTENSION, Peer, read_peer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEAD_BYTES = 64 * 1024
"""Bytes that a request's line and headers may take before they must be complete."""

UNREAD_BYTES = 16 * 1024 * 1024
"""Bytes of a body that are read and dropped after its answer was sent. Then the connection is closed."""

_CONNECTION = "pilothouse.connection"

_log = Log("serving")
_logger = logging.getLogger("pilothouse.serving")


class State(ServerState):
    """What the connections of one server share."""

    def __init__(self, clock: Clock, refuses: Callable[[Peer], str | None] | None = None) -> None:
        super().__init__()
        self.clock = clock
        self.refuses = refuses
        """Why a client certificate is not believed, or None; None itself where nobody is asked for one."""
        self.dated_at = -1.0
        self.stopping = False
        self.empty = asyncio.Event()
        """Set while there are no connections."""
        self.empty.set()

    def date(self, loop_time: float) -> None:
        """Keep the ``Date`` header of answers right to the second, at the cost of answers, not of idle seconds."""
        if loop_time - self.dated_at >= 1.0:
            self.dated_at = loop_time
            now = self.clock.now()
            self.default_headers = [(b"date", email.utils.format_datetime(now, usegmt=True).encode())]


class Connection(HttpToolsProtocol):
    """One client's connection."""

    def __init__(
        self,
        config: Config,
        server_state: State,
        app_state: dict[str, Any] | None = None,
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state or {}, _loop)
        self.logger = _logger
        self.access_log = False
        self.state = server_state
        self.streaming: asyncio.Task[Any] | None = None
        """The task that is in the middle of a streamed answer."""
        self._extensions: dict[str, Any] = {}
        self._in_head = False
        self._head_bytes = 0
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is here, its handshake done."""
        super().connection_made(transport)
        self.state.empty.clear()
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._extensions[EXTENSION] = self._shown(read_peer(tls))
        connected = transport.get_extra_info("socket")
        if connected is not None:
            # A watch can be silent for a minute, and its client be gone without a word.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Whoever connects and says nothing is idle, as after an answer.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _shown(self, peer: Peer | None) -> dict[str, Any]:
        refuses = self.state.refuses
        refusal = refuses(peer) if peer is not None and refuses is not None else None
        if refusal is not None:
            _log.info("Client certificate is not believed", v=2, err=refusal)
        return {"peer": peer, "refusal": refusal}

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone, or we have closed."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self.streaming is not None:
            self.streaming.cancel()
        if not self.connections:
            self.state.empty.set()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                self._refuse(431, b"Request Header Fields Too Large")

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP. A client that speaks TLS to a plain port, or the other way round, ends here."""
        if not self.transport.is_closing():
            self._refuse(400, b"Bad Request")

    def _refuse(self, status: int, phrase: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
            % (status, phrase, len(phrase), phrase)
        )
        self.transport.close()

    def break_off(self) -> None:
        """Close, with the answer incomplete. What was sent of it still goes out."""
        self.cycle.disconnected = True  # Or uvicorn would complain of an application that did not finish.
        self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0
        self._unread_bytes = 0
        self.scope["extensions"] = self._extensions
        self.scope[_CONNECTION] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        """A request's head is here, its application starts."""
        self._in_head = False
        self.state.date(self.loop.time())
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > UNREAD_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def _unsupported_upgrade_warning(self) -> None:
        # Not a warning: the application answers such a request, and says what it thinks of it.
        _log.info("Upgrade requested and not offered", v=4, path=self.scope["path"])


class _HeadFirst:
    """Stands in for a cycle's transport for two writes: keeps the first, and writes it with the second."""

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._head: bytes | None = None

    def write(self, data: bytes) -> None:
        """The head, then the beginning of the body."""
        if self._head is None:
            self._head = data
        else:
            self._cycle.transport = self._transport
            self._transport.write(self._head + data)


def guarded(app: App) -> App:
    """An application whose failures cost their request only, and which stops streaming when nobody listens."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        connection: Connection = scope.pop(_CONNECTION)
        started = complete = False
        head: Message | None = None

        async def noting(message: Message) -> None:
            nonlocal started, complete, head
            if not started and head is None:
                # The head waits for the beginning of the body, as ASGI asks servers to: both are then one write, one
                # TLS record and one wake-up of the client.
                head = message
                return
            if head is not None:
                started = True
                whole, head = head, None
                if scope["method"] != "HEAD":
                    cycle: RequestResponseCycle = send.__self__  # type: ignore[attr-defined]  # uvicorn's bound method
                    cycle.transport = _HeadFirst(cycle, cycle.transport)  # type: ignore[assignment]
                await send(whole)
            if message.get("more_body", False):
                connection.streaming = asyncio.current_task()
                if connection.parser is None:
                    # The connection was lost before the answer turned out to be a stream.
                    raise ConnectionResetError("the client is gone")
            else:
                complete = True
                connection.streaming = None
            await send(message)

        try:
            await app(scope, receive, noting)
        except asyncio.CancelledError:
            # Only this module and the server's stop cancel requests. The connection is gone or goes now; the client
            # must not take what it has for the whole answer.
            connection.transport.abort()
        except ConnectionError as error:
            connection.transport.abort()
            _log.info("Connection lost while answering", v=4, path=scope["path"], err=error)
        except Exception as error:  # noqa: BLE001  # the guard: one request fails, the server goes on
            _log.exception("A request failed unexpectedly", error, method=scope["method"], path=scope["path"])
            if not started:
                await _internal_error(send)
            elif not complete:
                connection.break_off()
        finally:
            connection.streaming = None

    return run


async def _internal_error(send: Send) -> None:
    body = b"Internal Server Error"
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
