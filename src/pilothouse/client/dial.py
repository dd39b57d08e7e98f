"""Making connections: name resolution, TCP, proxy, TLS, each with its time limit and its own error.

``Pool`` calls ``Dialer.dial`` when it needs one more connection. Limits and probes are upstream's (client-go transport
v0.36: dial 30 s, TLS handshake 10 s, dead peers found within 45 s as HTTP/2's pings do there).
"""

import asyncio
import ipaddress
import socket  # noqa: TID251  # options of the loop's own sockets
import ssl
from collections.abc import Awaitable, Callable

from pilothouse.client.connection import Connection
from pilothouse.client.endpoint import Endpoint, Proxy
from pilothouse.client.errors import ConfigError, ConnectFailed, ConnectionRefused
from pilothouse.client.metrics import ConnectionMetrics
from pilothouse.env.dialing import NotConnected, connect, handing_to_loop, tls_handshake
from pilothouse.env.environment import perf_counter_of

CONNECT_SECONDS = 30.0
TLS_SECONDS = 10.0

# A peer that died without a word is probed after 30 s of silence, then three times in 15 s. Watches can be silent for
# a minute and more, so nothing else would distinguish a quiet server from a dead one.
_KEEP_ALIVE = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPALIVE", 30),  # macOS' name for it
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 45_000),  # milliseconds: the same for a request that is never acknowledged
)


class Dialer:
    """Connects to one API server."""

    def __init__(
        self,
        endpoint: Endpoint,
        proxy: Proxy | None,
        context: Callable[[], Awaitable[ssl.SSLContext]] | None,
        server_name: str = "",
        metrics: ConnectionMetrics | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._proxy = proxy
        self._context = context
        self._server_name = server_name or endpoint.host
        self._metrics = metrics

    async def dial(self) -> Connection:
        """A new connection. Raises ``ConnectionRefused`` or ``ConnectFailed`` with address and reason."""
        loop = asyncio.get_running_loop()
        try:
            context = await self._context() if self._context is not None else None
        except ConfigError as error:
            # Certificates can become invalid while a program runs. It keeps trying, and reports the reason.
            raise ConnectFailed(str(error)) from error
        proxy = self._proxy
        if proxy is None:
            sock = await _connect(loop, self._endpoint.host, self._endpoint.port, self._metrics)
            return await self._connect_tls(loop, sock, context)
        sock = await _connect(loop, proxy.host, proxy.port, self._metrics, "the proxy ")
        if context is not None:
            return await self._connect_through_proxy(loop, sock, proxy, context)
        if proxy.scheme == "https":
            return await _tls_handshake(loop, sock, ssl.create_default_context(), proxy.host, f"the proxy {proxy.host}")
        return await self._connect_tls(loop, sock, None)

    async def _connect_tls(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, context: ssl.SSLContext | None
    ) -> Connection:
        if context is None:
            with handing_to_loop(loop, sock):
                _transport, connection = await loop.create_connection(lambda: Connection(loop), sock=sock)
            return connection
        return await _tls_handshake(loop, sock, context, self._server_name, str(self._endpoint))

    async def _connect_through_proxy(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, proxy: Proxy, context: ssl.SSLContext
    ) -> Connection:
        target = f"the proxy {proxy.host}:{proxy.port}"
        over_tls = ssl.create_default_context() if proxy.scheme == "https" else None
        host = f"[{self._endpoint.host}]" if ":" in self._endpoint.host else self._endpoint.host
        head = f"CONNECT {host}:{self._endpoint.port} HTTP/1.1\r\nHost: {host}:{self._endpoint.port}\r\n"
        if proxy.authorization:
            head += f"Proxy-Authorization: {proxy.authorization}\r\n"
        tunnel = _Tunnel(loop)
        transport: asyncio.Transport | None = None
        secured: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if over_tls is not None:
                    transport, _ = await tls_handshake(loop, sock, lambda: tunnel, over_tls, proxy.host, TLS_SECONDS)
                else:
                    with handing_to_loop(loop, sock):
                        transport, _ = await loop.create_connection(lambda: tunnel, sock=sock)
                transport.write(f"{head}\r\n".encode("latin-1"))
                await tunnel.opened
            connection = Connection(loop)
            transport.set_protocol(connection)
            secured = await loop.start_tls(
                transport, connection, context, server_hostname=self._server_name, ssl_handshake_timeout=TLS_SECONDS
            )
        except ssl.SSLError as error:
            raise _tls_failure(error, f"{self._endpoint} through {target}") from error
        except TimeoutError:
            raise ConnectFailed(f"{target} did not answer CONNECT within {CONNECT_SECONDS:.0f} s") from None
        except ConnectFailed as error:
            raise ConnectFailed(f"{target} did not open a tunnel to {self._endpoint.authority}: {error}") from None
        except OSError as error:
            raise ConnectFailed(f"{target}: {error}") from error
        finally:
            if secured is None and transport is not None:
                transport.abort()  # refused, broken or cancelled: no caller has a reference to it
        assert secured is not None, "start_tls returns the new transport"
        connection.connection_made(secured)
        return connection


class _Tunnel(asyncio.Protocol):
    """Waits for a proxy's response to CONNECT."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.opened: asyncio.Future[None] = loop.create_future()
        self._answer = b""

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, rest = self._answer.partition(b"\r\n\r\n")
        if self.opened.done() or (not end and len(self._answer) < 65536):
            return
        status = head.split(b"\r\n", 1)[0].decode("latin-1")
        words = status.split(" ", 2)
        if end and len(words) > 1 and words[0].startswith("HTTP/1.") and words[1] == "200" and not rest:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ConnectFailed(f"it answered {status!r}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectFailed(f"it closed the connection{f': {error}' if error else ''}"))


async def _connect(
    loop: asyncio.AbstractEventLoop, host: str, port: int, metrics: ConnectionMetrics | None, target: str = ""
) -> socket.socket:
    address = f"{target}{host}:{port}"
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            now = perf_counter_of(loop)
            began = now()
            try:
                addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                raise ConnectFailed(f"cannot find {address}: {error.strerror or error}") from error
            if metrics is not None and not _is_address(host):
                metrics.resolved(host, now() - began)
            return await connect(loop, addresses, _prepare)
    except TimeoutError:
        raise ConnectFailed(f"no connection to {address} within {CONNECT_SECONDS:.0f} s") from None
    except NotConnected as error:
        failures = error.failures
    if failures and all(isinstance(error, ConnectionRefusedError) for error in failures):
        raise ConnectionRefused(f"connection refused by {address}") from failures[0]
    reasons = "; ".join(error.strerror or str(error) for error in failures) or "the name has no address"
    raise ConnectFailed(f"cannot connect to {address}: {reasons}")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _prepare(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def _tls_handshake(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, context: ssl.SSLContext, server_name: str, target: str
) -> Connection:
    try:
        _transport, connection = await tls_handshake(
            loop, sock, lambda: Connection(loop), context, server_name, TLS_SECONDS
        )
    except ssl.SSLError as error:
        raise _tls_failure(error, target) from error
    except OSError as error:
        raise ConnectFailed(f"TLS with {target}: {str(error) or 'the server closed the connection'}") from error
    return connection


def _tls_failure(error: ssl.SSLError, target: str) -> ConnectFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConnectFailed(
            f"TLS with {target}: the server's certificate is not trusted: {error.verify_message}; check the certificate"
            " authority, or the server name, in the kubeconfig"
        )
    return ConnectFailed(f"TLS with {target}: {error.reason or error}")
