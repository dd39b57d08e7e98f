"""``Server``: serves an ASGI application on a port of the running loop.

Used by the API server and the manager. ``protocol`` implements HTTP.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from pilothouse.env import Clock, Log, SystemClock
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.serving.limits import Limits
    from pilothouse.serving.listener import Listener
    from pilothouse.serving.protocol import App, State
    from pilothouse.serving.tls import ServerTls

with lazy_imports():
    from pilothouse.serving import limits, listener, protocol

_CLOSE_SECONDS = 1.0
_BACKLOG = 1024

_log = Log("serving")


class CannotListen(OSError):
    """Listening on the address failed."""


class PortInUse(CannotListen):
    """Another program listens on the port."""


class Server:
    """Serves ``app`` over HTTP/1.1, or over HTTPS with ``tls``, from ``start`` to ``stop``, on the running loop.

    ``port=0`` selects a free port; ``more_ports=n`` also tries the n following ones. ``lifespan`` messages and
    websockets are not supported. Responses are written as they are sent; ``send`` waits while a client has about 64 KiB
    to read. A streamed response is cancelled when its client disconnects. An exception of the application becomes a
    500, or an aborted connection after the start of the response.
    """

    def __init__(
        self,
        app: "App",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        more_ports: int = 0,
        tls: "ServerTls | None" = None,
        clock: Clock | None = None,
        shares_port: bool = False,
        limits: "Limits | None" = None,
    ) -> None:
        """``shares_port`` lets several processes listen on the port, among which the kernel distributes connections
        (SO_REUSEPORT); ``limits`` are adapted to the open files of the process."""
        self.host = host
        self.port = port
        """The requested port and, after the start, the actual one."""
        self._app = app
        self._more_ports = more_ports
        self._shares_port = shares_port
        self._tls = tls
        self._clock = clock or SystemClock()
        self._limits = limits
        self._state: State | None = None
        self._listener: Listener | None = None

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        anywhere = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  # compared only
        host = anywhere.get(self.host, self.host)
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    async def start(self) -> int:
        """Start listening; returns the port. Raises ``PortInUse`` or another ``CannotListen``."""
        listening = self._bind()
        try:
            tls, clock = self._tls, self._clock
            bounds = (self._limits or limits.Limits()).within(limits.open_files())
            state = self._state = protocol.State(
                self._app,
                clock,
                bounds,
                None if tls is None else lambda peer: tls.verification_error(peer, clock.now()),
            )
            self._listener = listener.Listener(listening, state, bounds, tls.context if tls is not None else None)
            self._listener.start()
        except BaseException:
            listening.close()
            raise
        self.port = int(listening.getsockname()[1])
        return self.port

    def _bind(self) -> socket.socket:
        with _describing_errors(self.host, self.port):
            family, _type, _protocol, _name, address = socket.getaddrinfo(
                _without_idna(self.host) or "0.0.0.0",  # noqa: S104  # an empty host has always meant every interface
                self.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )[0]
        last_port = self.port + self._more_ports if self.port else 0
        for port in range(self.port, last_port + 1):
            listening = socket.socket(family, socket.SOCK_STREAM)
            try:
                with _describing_errors(self.host, port):
                    if os.name == "posix":
                        # A port that a previous run has just closed may be reused; one in use may not.
                        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if self._shares_port:
                        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                    listening.bind((address[0], port, *address[2:]))
                    # Now, because two sockets can be bound to one port as long as neither listens.
                    listening.listen(_BACKLOG)
                    listening.setblocking(False)
                    return listening
            except PortInUse:
                listening.close()
                if port == last_port:
                    raise
            except BaseException:
                listening.close()
                raise
        raise AssertionError("the last port either listens or raises")

    async def stop(self, grace: float = 5.0) -> None:
        """Stop listening, let requests finish for at most ``grace`` seconds, then abort the rest.

        Idle connections are closed immediately. Streams need not end by themselves: an application should end its
        watches first, so that clients get a clean end. Idempotent, also without ``start``.
        """
        listener, self._listener = self._listener, None
        if listener is None or self._state is None:
            return
        state = self._state
        state.stopping = True
        await listener.close()
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(grace):
                await state.empty.wait()
                while state.tasks:
                    await asyncio.gather(*state.tasks, return_exceptions=True)
        except TimeoutError:
            _log.info("Canceling requests", v=2, count=len(state.tasks), port=self.port)
            for task in list(state.tasks):
                task.cancel()
            for connection in list(state.connections):
                connection.abort()
            await asyncio.gather(*state.tasks, return_exceptions=True)
            await state.empty.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await listener.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.stop()


def _without_idna(host: str) -> str | bytes:
    """The name, without IDNA encoding for ASCII names: its tables (``encodings.idna``) are large."""
    return host.encode() if host.isascii() else host


@contextmanager
def _describing_errors(host: str, port: int) -> Iterator[None]:
    """Raise errors with the address and a solution."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        yield
    except socket.gaierror as error:
        raise CannotListen(f"can't listen on {address}: the host name does not resolve ({error.strerror})") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"can't listen on {address}: another program does; "
                "stop it, or choose another port (port 0 takes a free one)"
            ) from error
        if error.errno == errno.EACCES:
            raise CannotListen(f"can't listen on {address}: ports below 1024 need privileges") from error
        raise CannotListen(f"can't listen on {address}: {error.strerror}") from error
    except OverflowError as error:
        raise CannotListen(f"can't listen on {address}: ports go from 0 to 65535") from error
