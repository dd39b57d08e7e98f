"""A watch whose events can be delayed, held and cut off. Part of ``interceptor``."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping

from pilothouse.api import wire


class InterceptedStream:
    """Wraps a watch stream (``wire.Stream``).

    A separate task reads ahead, so that an event's delay counts from its arrival, not from the delivery of the previous
    event. Each piece is one whole line.
    """

    def __init__(
        self,
        stream: wire.Stream,
        *,
        delay: Callable[[], float],
        may_pass: Callable[[], bool],
        delivered: Callable[[bytes], None],
        closed: "Callable[[InterceptedStream], None]",
    ) -> None:
        self.status: int = stream.status
        self.headers: Mapping[str, str] = stream.headers
        self._inner = stream
        self._delay = delay
        self._may_pass = may_pass
        self._delivered = delivered
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._lines: deque[tuple[float, bytes]] = deque()
        self._ended = False
        self._stopped = False
        self._error: ConnectionError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._pump = self._loop.create_task(self._read(), name="intercepted watch")

    def stop(self, last: bytes = b"", *, error: ConnectionError | None = None) -> None:
        """End the stream now, after this last line; lines that were not delivered are dropped."""
        self._pump.cancel()
        self._lines.clear()
        if last:
            self._lines.append((0.0, last))
        self._error = error
        self._ended = self._stopped = True
        self._closed(self)
        self.notify()

    def notify(self) -> None:
        """Check again whether something may be delivered."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            if self._lines:
                due, line = self._lines[0]
                if due <= self._loop.time() and (self._stopped or self._may_pass()):
                    self._lines.popleft()
                    self._delivered(line)
                    return line
                await self._wait(due)
            elif self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            else:
                await self._wait(0.0)

    async def close(self) -> None:
        """Stop receiving."""
        self.stop()
        await self._inner.close()

    async def _wait(self, due: float) -> None:
        self._waiter = self._loop.create_future()
        timer = self._loop.call_at(due, self.notify) if due > self._loop.time() else None
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    async def _read(self) -> None:
        partial = b""
        try:
            async for piece in self._inner:
                lines = (partial + piece).split(b"\n") if partial else piece.split(b"\n")
                partial = lines.pop()
                for line in lines:
                    # Lines are delivered in order: a line with a short delay does not overtake the one before it.
                    due = self._loop.time() + self._delay()
                    # A piece that is one whole line is passed on as the same object, which is the key of the decode
                    # memo.
                    whole = piece if len(lines) == 1 and not partial and len(piece) == len(line) + 1 else line + b"\n"
                    self._lines.append((due, whole))
                self.notify()
        except ConnectionError as error:
            self._error = error
        self._ended = True
        self.notify()
