"""A TCP load balancer for API servers: one address, and behind it those that are ready.

TLS goes through it untouched. Every second each server is asked for ``/readyz``; the connections of one that does not
answer 200 are closed, so that its clients come back and get another one (HAProxy: ``httpchk GET /readyz`` and
``on-marked-down shutdown-sessions``). It keeps nothing: whoever needs two of them has a virtual address in front.
"""

import argparse
import asyncio
import contextlib
import itertools
import signal
import ssl
import sys

CHECK_SECONDS = 1.0
CHECK_TIMEOUT = 3.0
CONNECT_TIMEOUT = 2.0
CHUNK = 65536
MOST_CONNECTIONS = 4000


class Backend:
    """An API server."""

    def __init__(self, address: str) -> None:
        host, _colon, port = address.rpartition(":")
        self.host, self.port = host.strip("[]"), int(port)
        self.address = address
        self.ready = True
        """Until it was asked."""
        self.connections: set[asyncio.StreamWriter] = set()

    async def check(self, context: ssl.SSLContext) -> None:
        """Ask whether it is ready, and close its connections when it is not."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                ready = await self._answers(context)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            ready = False
        if ready != self.ready:
            print(f"{self.address} is {'ready' if ready else 'not ready'}", file=sys.stderr, flush=True)
        self.ready = ready
        if not ready:
            for writer in list(self.connections):
                writer.transport.abort()

    async def _answers(self, context: ssl.SSLContext) -> bool:
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context)
        try:
            writer.write(f"GET /readyz HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n\r\n".encode())
            status = await reader.readuntil(b"\r\n")
            return status.split()[1:2] == [b"200"]
        finally:
            writer.transport.abort()


class Balancer:
    """Accepts connections and passes them on, in turn."""

    def __init__(self, addresses: list[str]) -> None:
        self.backends = [Backend(address) for address in addresses]
        self._turn = itertools.count()
        self._open: set[asyncio.Task[None]] = set()
        """One for each connection."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # It is asked for its health alone; clients check its certificate themselves.
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE

    async def run(self, host: str, port: int) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(self._accept, host, port, backlog=512)
        try:
            await asyncio.gather(*(self._check(backend) for backend in self.backends))
        finally:
            server.close()
            tasks = list(self._open)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _check(self, backend: Backend) -> None:
        while True:
            await backend.check(self._context)
            await asyncio.sleep(CHECK_SECONDS)

    def _candidates(self) -> list[Backend]:
        first = next(self._turn) % len(self.backends)
        turned = self.backends[first:] + self.backends[:first]
        return [backend for backend in turned if backend.ready]

    async def _connect(self) -> tuple[Backend, asyncio.StreamReader, asyncio.StreamWriter] | None:
        for backend in self._candidates():
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return backend, *await asyncio.open_connection(backend.host, backend.port)
            except (OSError, TimeoutError):
                continue
        return None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward, backend = None, None
        try:
            found = await self._connect()
            if found is None:
                return
            backend, there, onward = found
            backend.connections.add(onward)
            await asyncio.gather(_pass_on(reader, onward), _pass_on(there, writer))
        finally:
            writer.transport.abort()
            if backend is not None and onward is not None:
                backend.connections.discard(onward)
                onward.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The end of one direction is the end of both: HTTP does not half-close."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def serve(listen: str, backends: list[str]) -> None:
    """Serve until SIGTERM or SIGINT."""
    host, _colon, port = listen.rpartition(":")
    task = asyncio.ensure_future(Balancer(backends).run(host.strip("[]"), int(port)))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(description="A TCP load balancer for API servers.")
    found.add_argument("--listen", required=True, help="HOST:PORT to listen on")
    found.add_argument("--backends", required=True, help="HOST:PORT of each API server, comma separated")
    return found


def main() -> None:
    """Run until SIGTERM."""
    arguments = parser().parse_args()
    asyncio.run(serve(arguments.listen, arguments.backends.split(",")))


if __name__ == "__main__":
    main()
