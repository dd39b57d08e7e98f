"""A TCP relay in front of the API server, whose connections can be cut at any point."""

import asyncio
import random
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

_CHUNK = 65536
_QUIET_SECONDS = 1.0


@dataclass(eq=False)
class _Line:
    """One relayed connection."""

    writer: asyncio.StreamWriter
    onward: asyncio.StreamWriter
    asked_at: float
    """The time of the last bytes to the server."""
    waiting: bool = False
    """Whether the server has sent nothing since: possibly a pending request, which TLS hides."""


class Relay:
    """Relays bytes to a port of this machine and back, including TLS.

    While the backend is down, connections are closed immediately, as by a load balancer without backends.
    """

    def __init__(self, target: int) -> None:
        self.port = 0
        self.cuts = 0
        self.unanswered = 0
        """How many connections ended, by a cut or by the server's death, while the client waited for an answer. No
        client can know whether such a request was carried out."""
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._lines: dict[_Line, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open(self) -> int:
        """The number of connections."""
        return len(self._lines)

    def cut(self, rng: random.Random, share: float, *, quiet: bool) -> int:
        """Reset about this share of the connections, without a TLS or HTTP shutdown. Returns their number.

        ``quiet``: only connections without a recent or pending request: watches and idle ones.
        """
        return int(self._do(self._cut(rng, share, quiet=quiet)))

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._do(self._listen())
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)

    async def _end(self) -> None:
        self._server.close()
        await self._cut(random.Random(0), 1.0, quiet=False)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _cut(self, rng: random.Random, share: float, *, quiet: bool) -> int:
        until = self._loop.time() - _QUIET_SECONDS
        fit = [line for line in self._lines if not quiet or (line.asked_at < until and not line.waiting)]
        doomed = [line for line in fit if rng.random() < share]
        for line in doomed:
            for writer in (line.writer, line.onward):
                writer.transport.abort()
        self.cuts += len(doomed)
        return len(doomed)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            streams, onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        line = _Line(writer, onward, self._loop.time())
        self._lines[line] = None
        try:
            await asyncio.gather(self._forward_requests(reader, line), self._answer(streams, line))
        finally:
            del self._lines[line]
            for item in (writer, onward):
                item.transport.abort()

    async def _forward_requests(self, reader: asyncio.StreamReader, line: _Line) -> None:
        try:
            while chunk := await reader.read(_CHUNK):
                line.asked_at, line.waiting = self._loop.time(), True
                line.onward.write(chunk)
                await line.onward.drain()
            line.waiting = False  # the client itself hung up
        except ConnectionError:
            pass  # cut, or a side died: that is what the relay is for
        finally:
            # The end of one direction ends both: half-closed connections are not used here.
            line.onward.close()

    async def _answer(self, reader: asyncio.StreamReader, line: _Line) -> None:
        try:
            while chunk := await reader.read(_CHUNK):
                line.waiting = False
                line.writer.write(chunk)
                await line.writer.drain()
        except ConnectionError:
            pass  # as above
        finally:
            self.unanswered += line.waiting
            line.writer.close()
