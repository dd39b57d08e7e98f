"""Accepts connections from a socket, within ``limits``.

A silent connection only costs an open file; its first byte creates a ``Connection``, and starts the handshake.
``State`` has the connections by class.
"""

import asyncio
import errno
import socket
import ssl
from collections import deque
from contextlib import suppress

from pilothouse.env import Log
from pilothouse.serving.limits import UNAUTHENTICATED_BUFFER, Limits
from pilothouse.serving.protocol import Connection, State

_ACCEPTS_PER_TURN = 16
"""The number of connections that are accepted before yielding to the loop."""
_RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_RETRY_SECONDS = 0.1
_TLS_CLOSE_SECONDS = 2.0

_log = Log("serving")


class Listener:
    """Accepts from one listening socket, between ``start`` and ``close``."""

    def __init__(self, listening: socket.socket, state: State, limits: Limits, context: ssl.SSLContext | None) -> None:
        self._listening = listening
        self._state = state
        self._limits = limits
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._accepting: asyncio.Task[None] | None = None
        self._silent: dict[socket.socket, float] = {}
        """Silent connections, with the time of their accept."""
        self._readable: deque[socket.socket] = deque()
        """Connections with data that wait for room."""
        self._opening: dict[asyncio.Task[None], None] = {}
        self._room = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._warned = False

    def start(self) -> None:
        """Start accepting."""
        self._accepting = self._loop.create_task(self._accept())

    async def close(self) -> None:
        """Stop accepting, and close connections without a handshake."""
        self._state.on_capacity = None
        for timer in (self._retry, self._sweep):
            if timer is not None:
                timer.cancel()
        if self._accepting is not None:
            self._accepting.cancel()
            # The loop must remove the socket before it is closed, and its descriptor reused.
            await asyncio.wait([self._accepting])
        self._listening.close()
        for connected in [*self._silent, *self._readable]:
            self._forget(connected)
        self._readable.clear()
        for connection in list(self._state.entered):
            if not connection.handshake_complete:
                connection.drop()

    async def wait_closed(self) -> None:
        """Wait until pending handshakes have ended."""
        while self._opening:
            await asyncio.wait(list(self._opening))

    async def _accept(self) -> None:
        accepted = 0
        while True:
            try:
                connected, _address = await self._loop.sock_accept(self._listening)
            except ConnectionError:
                continue  # one that was closed before it was accepted
            except OSError as error:
                if self._listening.fileno() < 0:
                    return
                await self._pause_after_error(error)
                continue
            connected.setblocking(False)
            with suppress(OSError):  # on macOS options cannot be set on a closed connection
                # asyncio's loop only does this for sockets that were created with the protocol number.
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNAUTHENTICATED_BUFFER)
            self._silent[connected] = self._loop.time()
            try:
                self._loop.add_reader(connected, self._has_data, connected)
            except NotImplementedError:  # a loop without reader callbacks: Windows
                del self._silent[connected]
                self._readable.append(connected)
                self._admit()
            if self._sweep is None:
                self._sweep = self._loop.call_later(self._limits.handshake_seconds, self._drop_silent)
            while len(self._silent) + len(self._readable) > self._limits.silent:
                if self._silent:
                    self._forget(next(iter(self._silent)))
                else:
                    self._room.clear()
                    await self._room.wait()
            accepted += 1
            if accepted % _ACCEPTS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _has_data(self, connected: socket.socket) -> None:
        self._loop.remove_reader(connected)
        del self._silent[connected]
        try:
            closed = not connected.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            closed = False
        except OSError:
            closed = True
        if closed:
            connected.close()
        else:
            self._readable.append(connected)
            self._admit()

    def _admit(self) -> None:
        """Create connections for sockets with data, as far as there is room."""
        self._state.on_capacity = None
        while self._readable and self._has_room():
            connected = self._readable.popleft()
            connection = Connection(self._state, self._loop)
            self._state.enter(connection, connected)
            task = self._loop.create_task(self._open(connected, connection))
            self._opening[task] = None
            task.add_done_callback(self._opening.__delitem__)
            self._room.set()
        if self._readable:
            self._state.on_capacity = self._admit

    def _has_room(self) -> bool:
        state, limits = self._state, self._limits
        full = len(state.entered) >= limits.connections
        if not full and len(state.new_connections) < limits.new_connections:
            return True
        if full and state.unauthenticated:
            next(iter(state.unauthenticated)).drop()
            return True
        oldest = next(iter(state.new_connections), None)
        if oldest is None:
            return False
        wait = oldest.last_progress_at + limits.patience_seconds - self._loop.time()
        if wait > 0:
            if self._retry is None:
                self._retry = self._loop.call_later(wait, self._retry_admit)
            return False
        _log.info("Closing a connection whose request takes too long, because too many are open", v=2)
        oldest.drop()
        return True

    def _retry_admit(self) -> None:
        self._retry = None
        self._admit()

    async def _open(self, connected: socket.socket, connection: Connection) -> None:
        """Run the TLS handshake of a client."""
        secured = self._context is not None
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                connected,
                ssl=self._context,
                ssl_handshake_timeout=self._limits.handshake_seconds if secured else None,
                ssl_shutdown_timeout=_TLS_CLOSE_SECONDS if secured else None,
            )
        except OSError as error:
            _log.info("Connection closed during the TLS handshake", v=4, err=error)
        finally:
            if not connection.handshake_complete:
                self._state.leave(connection)

    def _forget(self, connected: socket.socket) -> None:
        if self._silent.pop(connected, None) is not None:
            with suppress(NotImplementedError):
                self._loop.remove_reader(connected)
        connected.close()

    def _drop_silent(self) -> None:
        self._sweep = None
        now, seconds = self._loop.time(), self._limits.handshake_seconds
        for connected, since in list(self._silent.items()):
            if now - since < seconds:
                self._sweep = self._loop.call_later(since + seconds - now, self._drop_silent)
                return
            self._forget(connected)

    async def _pause_after_error(self, error: OSError) -> None:
        """Accepting failed: wait."""
        if not self._warned:
            self._warned = True
            _log.warning("Connections can't be accepted at the moment", err=error)
        if error.errno in _RESOURCE_ERRORS:
            self._close_one_connection()
        await asyncio.sleep(_RETRY_SECONDS)

    def _close_one_connection(self) -> None:
        if self._silent:
            self._forget(next(iter(self._silent)))
        elif oldest := next(iter(self._state.unauthenticated or self._state.new_connections), None):
            oldest.drop()
