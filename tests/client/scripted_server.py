"""A scripted HTTP server for client tests, with control of every byte and its time."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable

import httptools


class ReceivedRequest:
    """One received request."""

    def __init__(self, connection: "ServerConnection") -> None:
        self.connection = connection
        self.method = ""
        self.target = ""
        self.headers: list[tuple[str, str]] = []
        self.body = b""

    def header(self, name: str) -> str:
        """The header's value, or ""."""
        return next((value for key, value in self.headers if key == name.lower()), "")

    def answer(self, body: bytes = b"{}", *, status: int = 200, headers: str = "") -> None:
        """Send a complete response."""
        head = (
            f"HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        )
        self.connection.send(head.encode() + body)

    def begin(self) -> None:
        """Send the head of a chunked response."""
        self.connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, piece: bytes) -> None:
        """Send a chunk; an empty one ends the response."""
        self.connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))


Handler = Callable[[ReceivedRequest], Awaitable[None] | None]


class ServerConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: "ScriptedServer") -> None:
        self.server = server
        self.open = False
        self._parser = httptools.HttpRequestParser(self)

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.transport.write(data)

    def drop(self) -> None:
        """Reset the connection."""
        self.transport.abort()

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.open = True
        self.server.connections.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._asked = ReceivedRequest(self)

    def on_url(self, url: bytes) -> None:
        self._asked.target += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._asked.headers.append((name.decode().lower(), value.decode()))

    def on_body(self, body: bytes) -> None:
        self._asked.body += body

    def on_message_complete(self) -> None:
        self._asked.method = self._parser.get_method().decode()
        self.server.requests.append(self._asked)
        result = self.server.handler(self._asked)
        if result is not None:
            self.server.tasks.append(asyncio.ensure_future(result))


class ScriptedServer:
    """Serves on a free loopback port within an ``async with`` block."""

    def __init__(self, handler: Handler, *, tls: ssl.SSLContext | None = None) -> None:
        self.handler = handler
        self.requests: list[ReceivedRequest] = []
        self.connections: list[ServerConnection] = []
        self.tasks: list[asyncio.Future[None]] = []
        self._tls = tls
        self._greeted: dict[socket.socket, asyncio.Future[None]] = {}
        """Connections in the TLS handshake."""

    @property
    def open_connections(self) -> int:
        """The number of connected clients."""
        return sum(connection.open for connection in self.connections)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> "ScriptedServer":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self.tasks.append(asyncio.ensure_future(self._accept()))
        return self

    async def _accept(self) -> None:
        while True:
            connection, _address = await asyncio.get_running_loop().sock_accept(self._listener)
            self._greeted[connection] = asyncio.ensure_future(self._greet(connection))

    async def _greet(self, connection: socket.socket) -> None:
        # Not by ``create_server``: whoever is in the handshake when that is closed stays in the loop, which then can't
        # be closed. It need not be a client of the test: a program that has lost its server tries its port again.
        with contextlib.suppress(OSError):
            loop = asyncio.get_running_loop()
            await loop.connect_accepted_socket(lambda: ServerConnection(self), connection, ssl=self._tls)
        del self._greeted[connection]

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self._listener.close()
        for accepted in self._greeted:
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)
        await asyncio.gather(*self._greeted.values())
        for connection in self.connections:
            if connection.open:
                connection.drop()
