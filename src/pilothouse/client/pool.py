"""Which connection a request gets.

At most ``limit`` connections are open or being established; further requests wait in order. Establishing a connection
is independent of the request that caused it: the first waiting request gets whatever is available first, a new
connection or a returned one (as in Go's ``net/http``), and the connection of a cancelled request serves the next one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from pilothouse.client.connection import Connection, close_all
from pilothouse.client.errors import TransportError

_SURE_FOR = 0.5
"""Idle seconds after which a connection is checked before it is reused."""


class Pool:
    """Connections to one host."""

    def __init__(
        self,
        dial: Callable[[], Awaitable[Connection]],
        *,
        limit: int,
        idle_seconds: float,
        check: Callable[[], int],
        renew: Callable[[], None],
    ) -> None:
        """``check`` returns the current generation; connections of older ones are not reused. ``renew`` is called
        occasionally, and may start a new generation."""
        self._dial = dial
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._check = check
        self._renew = renew
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._dials: dict[asyncio.Task[Connection], asyncio.Future[Connection]] = {}
        self._closed = False
        self._open: dict[Connection, None] = {}
        self._going: dict[Connection, None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def take_idle(self) -> Connection | None:
        """A connection that can be used immediately, the one used last (so that the others may grow old and go)."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            age = self._loop.time() - connection.idle_since
            if connection.closed or (age > _SURE_FOR and (age > self._idle_seconds or connection.is_stale())):
                self.discard(connection)
            else:
                return connection
        return None

    async def acquire(self) -> Connection:
        """A connection, in the order of the calls. Raises the error of establishing one, if it was for this call."""
        if self._closed:
            raise TransportError("the transport is closed")
        ready = self.take_idle()
        if ready is not None:
            return ready
        turn: asyncio.Future[Connection] = self._loop.create_future()
        self._waiting.append(turn)
        self._dial_more()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release(turn.result())
            raise

    def release(self, connection: Connection) -> None:
        """Return a connection whose response is complete."""
        if connection.closed or self._closed or connection.generation != self._check():
            self.discard(connection)
            return
        turn = self._next()
        if turn is not None:
            turn.set_result(connection)
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._idle_seconds / 3, self._close_idle)

    def discard(self, connection: Connection) -> None:
        """Return a connection that must not be reused."""
        self._release(connection)
        self._dial_more()

    async def close(self) -> None:
        """Close everything. Requests in flight fail with ``ConnectionLost``, waiting ones with ``TransportError``."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        while (turn := self._next()) is not None:
            turn.set_exception(TransportError("the transport was closed"))
        dials = list(self._dials)
        for task in dials:
            task.cancel()
        await asyncio.gather(*dials, return_exceptions=True)
        idle, self._idle = self._idle, []
        opened = dict(self._open)
        self._open.clear()
        for connection in opened:
            if connection not in idle:
                connection.abort()
        await close_all([*opened, *self._going])

    def _release(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        if not connection.closed:
            connection.close()
        if not connection.lost.done():
            # TLS sends a close alert first, which takes a moment; close() must wait for it.
            self._going[connection] = None
            connection.lost.add_done_callback(lambda _: self._going.pop(connection, None))

    def _next(self) -> asyncio.Future[Connection] | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None

    def _dial_more(self) -> None:
        """Establish a connection for the first waiting request for which none is being established, if the limit
        allows."""
        if not self._waiting or len(self._open) + len(self._dials) >= self._limit:
            return
        served = set(map(id, self._dials.values()))
        for turn in self._waiting:
            if not turn.done() and id(turn) not in served:
                task = self._loop.create_task(self._dial_connection(), name="dial")
                self._dials[task] = turn
                task.add_done_callback(self._on_dialed)
                return

    async def _dial_connection(self) -> Connection:
        generation = self._check()
        connection = await self._dial()
        connection.generation = generation
        return connection

    def _on_dialed(self, task: asyncio.Task[Connection]) -> None:
        turn = self._dials.pop(task)
        if not task.cancelled():
            error = task.exception()
            if error is None:
                connection = task.result()
                self._open[connection] = None
                self.release(connection)
            elif not turn.done():
                # The error is for the call that caused it, unless that has got another connection in the meantime.
                turn.set_exception(error)
        self._dial_more()

    def _close_idle(self) -> None:
        self._sweep = None
        self._renew()
        now, generation = self._loop.time(), self._check()
        idle: list[Connection] = []
        for connection in self._idle:
            if (
                connection.closed
                or connection.generation != generation
                or now - connection.idle_since >= self._idle_seconds
            ):
                self._release(connection)
            else:
                idle.append(connection)
        self._idle = idle
        if idle:
            self._sweep = self._loop.call_later(self._idle_seconds / 3, self._close_idle)
