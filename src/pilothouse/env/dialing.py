"""Connections that may be given up at any moment, which uvloop's own ``create_connection`` does not guarantee.

``client.dial`` makes its connections to API servers of these steps, and the API server those to webhooks. None of it
exists on a virtual loop, which raises ``NotImplementedError``.
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
    """None of a name's addresses took a connection; ``failures`` has what each of them said, if there were any."""

    def __init__(self, failures: Iterable[OSError]) -> None:
        super().__init__("no address took the connection")
        self.failures = tuple(failures)


async def connect(
    loop: asyncio.AbstractEventLoop, addresses: Iterable[tuple[Any, ...]], prepare: Callable[[socket.socket], None]
) -> socket.socket:
    """A socket that is connected to the first of these addresses (``getaddrinfo``'s) that takes it.

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
def handed_over(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> Iterator[None]:
    """While the loop makes a transport of the socket. Should that fail, the descriptor is the loop's to close.

    uvloop (0.21 ``create_connection``) closes the socket only when the transport stands. If the peer resets the
    connection before that, libuv closes the descriptor, and the socket would close it once more when it is collected:
    whatever connection has the number by then would lose it, and the next one to get it would be refused by the loop.
    """
    try:
        yield
    except BaseException:
        if type(loop).__module__.startswith("uvloop"):
            sock.detach()
        raise


async def shake_hands(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    make: Callable[[], P],
    context: ssl.SSLContext,
    server_name: str,
    seconds: float,
) -> Made[P]:
    """TLS over a connected socket: the transport, and the protocol that ``make`` has made for it.

    The socket belongs to this call. Raises ``OSError``, of which ``ssl.SSLError`` is one. Cancelled, it leaves nothing
    behind.
    """

    async def shake() -> Made[P]:
        with handed_over(loop, sock):
            return await loop.create_connection(
                make, sock=sock, ssl=context, server_hostname=server_name, ssl_handshake_timeout=seconds
            )

    shaking = loop.create_task(shake(), name="handshake")
    try:
        return await asyncio.shield(shaking)
    except asyncio.CancelledError:
        # uvloop (0.23 ``create_connection``), cancelled between two steps, closes the socket under a handshake that has
        # just succeeded, whose last message then meets a closed transport. Without its socket it fails by itself.
        if not shaking.done():
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        shaking.add_done_callback(_hang_up)
        await asyncio.shield(asyncio.gather(shaking, return_exceptions=True))
        raise


def _hang_up(shaking: asyncio.Task[Made[Any]]) -> None:
    """The result of a handshake is no longer awaited."""
    if not shaking.cancelled() and shaking.exception() is None:
        shaking.result()[0].abort()
