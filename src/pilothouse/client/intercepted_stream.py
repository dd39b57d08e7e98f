"""A watch whose events can be delayed, held and cut off. Part of ``interceptor``."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping

from pilothouse.api import wire


class InterceptedStream:
    """A watch stream around a watch stream (``wire.Stream``).

    A task of its own reads ahead, so that an event's delay counts from its arrival and not from the delivery of the one
    before. Each piece is one whole line.
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
        self._reader: asyncio.Future[None] | None = None
        self._pump = self._loop.create_task(self._read(), name="intercepted watch")

    def stop(self, last: bytes = b"", *, error: ConnectionError | None = None) -> None:
        """End the stream now, after this last line; what has not been delivered never will be."""
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
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

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
        self._reader = self._loop.create_future()
        timer = self._loop.call_at(due, self.notify) if due > self._loop.time() else None
        try:
            await self._reader
        finally:
            self._reader = None
            if timer is not None:
                timer.cancel()

    async def _read(self) -> None:
        partial = b""
        try:
            async for piece in self._inner:
                lines = (partial + piece).split(b"\n") if partial else piece.split(b"\n")
                partial = lines.pop()
                for line in lines:
                    # The reader takes lines from the front only: none passes the one before it, whatever its delay.
                    due = self._loop.time() + self._delay()
                    # One whole line is passed on as the object it came as; the decode memo knows it by that.
                    whole = piece if len(lines) == 1 and not partial and len(piece) == len(line) + 1 else line + b"\n"
                    self._lines.append((due, whole))
                self.notify()
        except ConnectionError as error:
            self._error = error
        self._ended = True
        self.notify()
