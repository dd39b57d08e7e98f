"""Proxied links between programs, which can be cut, held and slowed.

One thread passes all bytes on. A link that is *held* delivers nothing and closes nothing, as a network that loses
packets; what was sent meanwhile arrives when it is released. A link that is *cut* is reset, and refuses connections.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

_CHUNK = 65536
_SOURCE = re.compile(rb"(?i)x-server-from: *([0-9a-f]+)")
OPEN, HELD, CUT = "open", "held", "cut"


class Link:
    """A link from one program to another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = OPEN
        self.delay = 0.0
        self.opened = asyncio.Event()
        self.opened.set()
        self.writers: set[asyncio.StreamWriter] = set()

    def set(self, state: str) -> None:
        """Change the link, on the loop of the network."""
        self.state = state
        if state == HELD:
            self.opened.clear()
        else:
            self.opened.set()
        if state == CUT:
            for writer in list(self.writers):
                writer.transport.abort()


class Network:
    """The links, and the thread that proxies them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.links: dict[str, Link] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def connect(self, name: str, target: int) -> int:
        """A port that forwards to another port of this machine over one link."""
        return int(self._do(self._listen(target, lambda _first: name)))

    def connect_peers(self, to: str, target: int, name_of: Callable[[str], str]) -> int:
        """A port for the peers of an etcd member: the link depends on who connects, by the id of a member in the
        header of its requests (``X-Server-From``). ``name_of`` names the member."""
        return int(self._do(self._listen(target, lambda first: f"{name_of(_source(first))}>{to}", peek=True)))

    def set(self, names: "list[str]", state: str) -> None:
        """Cut, hold or open links, including unused ones."""
        self._do(self._set(names, state))

    def slow(self, names: "list[str]", seconds: float) -> None:
        """Delay each direction of the links."""
        self._do(self._slow(names, seconds))

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _link(self, name: str) -> Link:
        link = self.links.get(name)
        if link is None:
            link = self.links[name] = Link(name)
        return link

    async def _set(self, names: "list[str]", state: str) -> None:
        for name in names:
            self._link(name).set(state)

    async def _slow(self, names: "list[str]", seconds: float) -> None:
        for name in names:
            self._link(name).delay = seconds

    async def _listen(self, target: int, name_of: Callable[[bytes], str], *, peek: bool = False) -> int:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._serve(reader, writer, target, name_of, peek=peek))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=512)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: int,
        name_of: Callable[[bytes], str],
        *,
        peek: bool,
    ) -> None:
        writers = {writer}
        link: Link | None = None
        try:
            first = await reader.readuntil(b"\r\n\r\n") if peek else b""
            link = self._link(name_of(first))
            if link.state == CUT:
                return
            streams, onward = await asyncio.open_connection("127.0.0.1", target)
            writers.add(onward)
            link.writers |= writers
            await asyncio.gather(_pass_on(reader, onward, link, first), _pass_on(streams, writer, link, b""))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one side has ended, or nothing listens
        finally:
            for item in writers:
                item.transport.abort()
            if link is not None:
                link.writers -= writers


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link, first: bytes) -> None:
    chunk = first
    while True:
        if chunk:
            if link.delay:
                await asyncio.sleep(link.delay)
            await link.opened.wait()
            writer.write(chunk)
            await writer.drain()
        chunk = await reader.read(_CHUNK)
        if not chunk:
            break
    await link.opened.wait()  # an end is not delivered either
    writer.close()


def _source(first: bytes) -> str:
    match = _SOURCE.search(first)
    return match[1].decode() if match else ""
