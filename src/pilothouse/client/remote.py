"""HTTP to any API server: the remote transport.

``connect`` creates one from a kubeconfig; ``Client`` sends through it. It uses ``Pool`` (which connection), ``Dialer``
(new ones), ``Connection`` (bytes) and ``credentials``.
"""

import asyncio
import ssl
from collections.abc import Sequence

from pilothouse.api import wire
from pilothouse.client.connection import Connection, RemoteStream, close_all
from pilothouse.client.credentials import Anonymous, Credentials
from pilothouse.client.dial import Dialer
from pilothouse.client.endpoint import Endpoint, Proxy
from pilothouse.client.errors import ConnectionLost, TransportError
from pilothouse.client.metrics import ConnectionMetrics
from pilothouse.client.pool import Pool
from pilothouse.client.requests import FencedRequest, FixedHeaders, encode_headers
from pilothouse.client.tls import TlsContexts, TlsSettings
from pilothouse.env import Env
from pilothouse.machinery.causes import cause_header

MAX_CONNECTIONS = 32
"""To one host, without watches, which have connections of their own."""

IDLE_SECONDS = 90.0
"""After which an unused connection is closed (Go ``http.DefaultTransport``)."""


class RemoteTransport:
    """The transport over HTTP/1.1 (``wire.Transport``).

    Requests wait in order for one of ``max_connections``. If the server had closed an idle connection, a GET is sent
    again immediately; a write only if certainly no byte of it was sent. Other errors are raised: ``ConnectionRefused``,
    ``ConnectFailed`` (neither was sent), ``ConnectionLost`` (unknown). After a 401 credentials are renewed if possible,
    and the request is sent once more. Cancelling a request closes its connection.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        env: Env,
        *,
        tls: TlsSettings | None = None,
        credentials: Credentials | None = None,
        proxy: Proxy | None = None,
        headers: Sequence[tuple[str, str]] = (),
        max_connections: int = MAX_CONNECTIONS,
        idle_seconds: float = IDLE_SECONDS,
        metrics: ConnectionMetrics | None = None,
    ) -> None:
        """``headers`` go with every request (impersonation); a name may repeat."""
        self.endpoint = endpoint
        self.host = f"{endpoint.host}:{endpoint.port}"
        """The metrics' label."""
        self._credentials = credentials or Anonymous()
        self._contexts = TlsContexts(tls or TlsSettings(), env, metrics) if endpoint.tls else None
        server_name = tls.server_name if tls is not None else ""
        self._dialer = Dialer(endpoint, proxy, self._context if endpoint.tls else None, server_name, metrics)
        self._max_connections = max_connections
        self._idle_seconds = idle_seconds
        fixed = f"Host: {endpoint.authority}\r\n".encode("latin-1")
        for name, value in headers:
            fixed += encode_headers({name: value})
        self._target_prefix = endpoint.path_prefix
        if proxy is not None and not endpoint.tls:
            # A plain proxy needs the whole URL, and its credentials, in each request.
            self._target_prefix = str(endpoint)
            if proxy.authorization:
                fixed += encode_headers({"Proxy-Authorization": proxy.authorization})
        self._fixed = fixed
        self._pool_: Pool | None = None
        self._streams: dict[Connection, None] = {}
        self._check_streams: asyncio.TimerHandle | None = None
        self._closed = False

    async def request(self, request: wire.Request) -> wire.Response:
        """Send and wait for the whole response."""
        login = self._credentials.current()
        if login is None:
            login = await self._credentials.fetch()
        response = await self._exchange(request, login)
        if response.status == 401 and await self._credentials.rejected(login):
            # The server rejected it before it read the request: sending it once more is safe for writes as well.
            response = await self._exchange(request, await self._credentials.fetch())
        return response

    async def open(self, request: wire.Request) -> RemoteStream:
        """Send on a separate connection and return when the status is received."""
        login = self._credentials.current()
        if login is None:
            login = await self._credentials.fetch()
        stream = await self._open(request, login)
        if stream.status == 401 and await self._credentials.rejected(login):
            await stream.close()
            stream = await self._open(request, await self._credentials.fetch())
        return stream

    async def close(self) -> None:
        """Close all connections. Requests in flight fail with ``ConnectionLost``; later requests, and watches that are
        still connecting, with ``TransportError``."""
        self._closed = True
        if self._check_streams is not None:
            self._check_streams.cancel()
            self._check_streams = None
        streams, self._streams = self._streams, {}
        for connection in streams:
            connection.abort()
        await close_all(streams)
        if self._pool_ is not None:
            await self._pool_.close()

    @property
    def _pool(self) -> Pool:
        # Created at the first use: pools belong to a loop, but transports are also created without a running one.
        if self._pool_ is None:
            self._pool_ = Pool(
                self._dialer.dial,
                limit=self._max_connections,
                idle_seconds=self._idle_seconds,
                check=self._generation,
                renew=self._renew,
            )
        return self._pool_

    async def _exchange(self, request: wire.Request, login: bytes) -> wire.Response:
        data = self._encode(request, login)
        if self._closed:
            raise TransportError("the transport is closed")
        pool = self._pool
        while True:
            connection = pool.take_idle() or await pool.acquire()
            if isinstance(request, FencedRequest) and request.fence is not None:
                try:
                    request.fence()  # it may have waited in line for long
                except BaseException:
                    pool.release(connection)
                    raise
            if connection.closed:
                pool.discard(connection)  # closed between being lent and being used: nothing was sent
                continue
            reused = connection.uses > 0
            try:
                response = await connection.exchange(data)
            except ConnectionLost:
                pool.discard(connection)
                # The server closed an idle connection at that moment (its keep-alive expired). A read can be repeated
                # in any case. Each iteration uses up a connection that was idle before.
                if reused and not connection.answered and request.method in {"GET", "HEAD"}:
                    continue
                raise
            except BaseException:
                connection.abort()
                pool.discard(connection)
                raise
            pool.release(connection)
            return response

    async def _open(self, request: wire.Request, login: bytes) -> RemoteStream:
        data = self._encode(request, login)
        if self._closed:
            raise TransportError("the transport is closed")
        generation = self._generation()
        connection = await self._dialer.dial()
        connection.generation = generation
        if self._closed:
            connection.abort()
            raise TransportError("the transport was closed")
        self._streams = {stream: None for stream in self._streams if not stream.lost.done()}
        self._streams[connection] = None
        if self._check_streams is None:
            self._check_streams = asyncio.get_running_loop().call_later(self._idle_seconds / 3, self._monitor_streams)
        try:
            return await connection.open_stream(data)
        except BaseException:
            connection.abort()
            raise

    def _encode(self, request: wire.Request, login: bytes) -> bytes:
        headers, body, target = request.headers, request.body, request.target
        if not target.isascii() or " " in target or not target.isprintable():
            raise ValueError(f"the target {target!r} is not percent-encoded")
        block = headers.block if type(headers) is FixedHeaders else encode_headers(headers)
        head = f"{request.method} {self._target_prefix}{target} HTTP/1.1\r\n".encode()
        if body or request.method != "GET":
            cause = cause_header()
            return b"%b%b%b%b%bContent-Length: %d\r\n\r\n%b" % (
                head, self._fixed, login, block, cause, len(body), body,
            )  # fmt: skip
        return b"%b%b%b%b\r\n" % (head, self._fixed, login, block)

    async def _context(self) -> ssl.SSLContext:
        assert self._contexts is not None, "only asked for with TLS"
        return self._contexts.get(await self._credentials.key_pair())

    def _renew(self) -> None:
        """Check whether certificate files have changed; connections with older ones are then closed."""
        if self._contexts is not None and self._contexts.has_changed():
            self._contexts.reload()

    def _monitor_streams(self) -> None:
        """End the watches whose client certificate has been replaced: the API server accepts the old one as long as the
        connection exists. They are opened again at their last version (client-go ``transport/cert_rotation.go``, v0.36:
        "shutting down client connections to start using new credentials")."""
        self._check_streams = None
        self._renew()
        generation = self._generation()
        self._streams = {stream: None for stream in self._streams if not stream.lost.done()}
        for stream in list(self._streams):
            if stream.generation != generation:
                stream.abort()
        if self._streams:
            self._check_streams = asyncio.get_running_loop().call_later(self._idle_seconds / 3, self._monitor_streams)

    def _generation(self) -> int:
        return self._credentials.generation + (self._contexts.generation if self._contexts is not None else 0)
