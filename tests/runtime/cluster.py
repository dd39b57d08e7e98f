"""The embedded API server with a request log and injected failures."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.runtime.scripted import refused

from pilothouse.api import wire
from pilothouse.apiserver.server import ApiServer
from pilothouse.client import Client
from pilothouse.client.errors import ConnectionRefused
from pilothouse.env import Env
from pilothouse.storage import MemoryStore


class Cluster:
    """A ``wire.Transport`` to a new API server.

    ``log`` has every request as ``(loop time, method, last part of the path, body)``. While ``down`` nobody listens;
    ``before`` may raise, or answer in the server's place. ``delay`` is how many seconds a request takes.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self.store = MemoryStore(env)
        self.server = ApiServer(env, self.store)
        self._inner = self.server.transport("admin", ["system:masters"])
        self.log: list[tuple[float, str, str, Any]] = []
        self.targets: list[str] = []
        self.down = False
        self.before: Callable[[wire.Request], wire.Response | None] | None = None
        self.delay = 0.0

    def client(self) -> Client:
        """A client whose requests are logged and can be made to fail."""
        return Client(self, self._env)

    def admin(self) -> Client:
        """An administrator's client without logging and failures."""
        return Client(self._inner, self._env)

    def objects(self, prefix: str) -> list[dict[str, Any]]:
        """All objects stored under a key prefix (``/events/``), in key order."""
        return [msgspec.json.decode(record.value) for record in self.store.list(prefix).records]

    def answer(self, code: int, reason: str, message: str = "", *, cause: str = "") -> wire.Response:
        """An error response."""
        return wire.Response(code, {}, refused(code, reason, message, cause=cause).body)

    def methods(self) -> list[str]:
        """The methods of all logged requests."""
        return [method for _at, method, _name, _body in self.log]

    async def request(self, request: wire.Request) -> wire.Response:
        self._note(request)
        if self.delay:
            await asyncio.sleep(self.delay)
        answer = self.before(request) if self.before is not None else None
        return answer if answer is not None else await self._inner.request(request)

    async def open(self, request: wire.Request) -> wire.Stream:
        self._note(request)
        return await self._inner.open(request)

    async def close(self) -> None:
        return None

    def _note(self, request: wire.Request) -> None:
        body: Any = msgspec.json.decode(request.body) if request.body else None
        path = urlsplit(request.target).path
        self.log.append((round(self._env.monotonic(), 3), request.method, path.rpartition("/")[2], body))
        self.targets.append(request.target)
        if self.down:
            raise ConnectionRefused("connection refused")
