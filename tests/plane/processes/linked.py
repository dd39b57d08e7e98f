"""An API server and its programs' connection, linked on one event loop by transports that split what they carry."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from pilothouse.apiserver import ApiServer
from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.plane.clients import ADMIN, LocalClients
from pilothouse.plane.processes.framing import Framing
from pilothouse.plane.processes.programs_connection import ProgramsConnection
from pilothouse.plane.processes.server_connection import ServerConnection
from pilothouse.storage import MemoryStore


class Carrier(asyncio.WriteTransport):
    """Delivers what is written to the other end, in pieces of ``size`` bytes, each in an iteration of its own."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.other: Framing | None = None
        self.carried = 0
        self._size = size
        self._pieces: list[bytes] = []
        self._closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high

    def writelines(self, list_of_data: Iterable[bytes]) -> None:  # type: ignore[override]
        data = b"".join(list_of_data)
        self.carried += len(data)
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._carry)
        self._pieces += [data[at : at + self._size] for at in range(0, len(data), self._size)]

    def _carry(self) -> None:
        piece = self._pieces.pop(0)
        assert self.other is not None
        self.other.data_received(piece)
        if self._pieces:
            asyncio.get_running_loop().call_soon(self._carry)
        elif self._closed:
            self.other.connection_lost(None)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if not self._pieces and self.other is not None:
                self.other.connection_lost(None)


def link(one: Framing, other: Framing, size: int) -> tuple[Carrier, Carrier]:
    """Connect two ends; returns their transports."""
    carriers = Carrier(size), Carrier(size)
    carriers[0].other, carriers[1].other = other, one
    one.connection_made(carriers[0])
    other.connection_made(carriers[1])
    return carriers


class Linked:
    """A server, and a client of it over the connection."""

    def __init__(self, env: Env, *, size: int = 1 << 16) -> None:
        self.server = ApiServer(env, MemoryStore(env))
        self.became_ready = asyncio.Event()
        self.programs = ProgramsConnection(self.server.transport, self.became_ready.set)
        self.connection = ServerConnection()
        self.to_programs, self.to_server = link(self.programs.framing, self.connection.framing, size)
        self.clients = LocalClients(env, self.connection.transport)
        self.client: Client = self.clients.client("manager", *ADMIN)


@contextlib.asynccontextmanager
async def linked(env: Env, *, size: int = 1 << 16) -> AsyncIterator[Linked]:
    """A ``Linked`` whose connection is closed at the end."""
    result = Linked(env, size=size)
    await result.server.commit_bootstrap_objects()
    try:
        yield result
    finally:
        await result.programs.close()
        await result.server.close()
