"""Connects sockets so that a cancellation never leaks them, which uvloop's own ``create_connection`` does not
guarantee.

Used by ``client.dial`` for connections to API servers, and by the API server for webhooks. Not available on a virtual
loop, which raises ``NotImplementedError``.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)
Made = tuple[asyncio.Transport, P]


class NotConnected(OSError):
    """No connection to any address succeeded; ``failures`` are the errors."""

    def __init__(self, failures: Iterable[OSError]) -> None:
        super().__init__("no address took the connection")
        self.failures = tuple(failures)


async def connect(
    loop: asyncio.AbstractEventLoop, addresses: Iterable[tuple[Any, ...]], prepare: Callable[[socket.socket], None]
) -> socket.socket:
    """A socket connected to the first address (from ``getaddrinfo``) that accepts.

    ``prepare`` sets its options. Raises ``NotConnected``.
    """
    failures: list[OSError] = []
    for family, kind, protocol, _name, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            prepare(sock)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failures.append(error)
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise NotConnected(failures)


@contextlib.contextmanager
def handing_to_loop(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> Iterator[None]:
    """Used while the loop creates a transport for the socket. If that fails, the loop closes the descriptor.

    uvloop (0.21 ``create_connection``) closes the socket only if the transport was created. If the peer resets the
    connection before, libuv closes the descriptor, and garbage collection of the socket would close it again: a
    different connection with the same descriptor would be closed, and the loop would reject the next one that gets it.
    """
    try:
        yield
    except BaseException:
        if type(loop).__module__.startswith("uvloop"):
            sock.detach()
        raise


async def tls_handshake(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    make: Callable[[], P],
    context: ssl.SSLContext,
    server_name: str,
    seconds: float,
) -> Made[P]:
    """TLS handshake on a connected socket: returns the transport, and the protocol created by ``make``.

    The socket is owned by this call. Raises ``OSError``, a base of ``ssl.SSLError``. Nothing leaks if it is cancelled.
    """

    async def shake() -> Made[P]:
        with handing_to_loop(loop, sock):
            return await loop.create_connection(
                make, sock=sock, ssl=context, server_hostname=server_name, ssl_handshake_timeout=seconds
            )

    shaking = loop.create_task(shake(), name="handshake")
    try:
        return await asyncio.shield(shaking)
    except asyncio.CancelledError:
        # uvloop (0.23 ``create_connection``), if cancelled between two steps, closes the socket of a handshake that has
        # just succeeded, whose last message is then sent to a closed transport. Without its socket it fails by itself.
        if not shaking.done():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        shaking.add_done_callback(_close_abandoned)
        await asyncio.shield(asyncio.gather(shaking, return_exceptions=True))
        raise


def _close_abandoned(shaking: asyncio.Task[Made[Any]]) -> None:
    """Close the transport of a handshake whose result is no longer needed."""
    if not shaking.cancelled() and shaking.exception() is None:
        shaking.result()[0].abort()
