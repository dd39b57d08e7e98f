"""A few verbs over a dictionary, for components that only read and write single objects.

It stands where the embedded API server will: same transport, same answers for what is used here.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from tests.runtime.scripted import refused

from pilothouse.api import wire
from pilothouse.client.errors import ConnectionRefused
from pilothouse.env import Env
from pilothouse.machinery.merge_patch import apply_merge_patch


class TinyServer:
    """A ``wire.Transport``. ``log`` has every request as ``(loop time, method, name, body)``.

    ``before`` may raise, sleep or answer in the server's place.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.log: list[tuple[float, str, str, Any]] = []
        self.down = False
        self.before: Callable[[wire.Request], wire.Response | None] | None = None

    async def request(self, request: wire.Request) -> wire.Response:
        path = urlsplit(request.target).path
        body: Any = msgspec.json.decode(request.body) if request.body else None
        self.log.append((round(self._env.monotonic(), 3), request.method, path.rpartition("/")[2], body))
        await asyncio.sleep(0)
        if self.down:
            raise ConnectionRefused("connection refused")
        if self.before is not None:
            answer = self.before(request)
            if answer is not None:
                return answer
        return self._answer(request.method, path, body)

    async def open(self, request: wire.Request) -> wire.Stream:
        raise AssertionError(f"no watches here: {request.target}")

    async def close(self) -> None:
        return None

    def answer(self, code: int, reason: str, message: str = "", *, cause: str = "") -> wire.Response:
        """A refusal."""
        return wire.Response(code, {}, refused(code, reason, message, cause=cause).body)

    def _answer(self, method: str, path: str, body: Any) -> wire.Response:
        if method == "POST":
            meta = body["metadata"]
            name = meta.get("name") or meta["generateName"] + self._env.name_suffix()
            path = f"{path}/{name}"
            if path in self.objects:
                return self.answer(409, "AlreadyExists", f'"{name}" already exists')
            return self._store(path, {**body, "metadata": {**meta, "name": name, "uid": self._env.uid()}}, 201)
        known = self.objects.get(path)
        if known is None:
            return self.answer(404, "NotFound", f"{path} not found")
        if method == "GET":
            return wire.Response(200, {}, msgspec.json.encode(known))
        if method == "PUT":
            asked = body["metadata"].get("resourceVersion")
            if asked and asked != known["metadata"]["resourceVersion"]:
                return self.answer(409, "Conflict", "the object has been modified")
            return self._store(path, body, 200)
        if method == "PATCH":
            return self._store(path, apply_merge_patch(known, body), 200)
        assert method == "DELETE", method
        del self.objects[path]
        return wire.Response(200, {}, msgspec.json.encode(known))

    def _store(self, path: str, obj: Mapping[str, Any], code: int) -> wire.Response:
        self.version += 1
        stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self.objects[path] = stored
        return wire.Response(code, {}, msgspec.json.encode(stored))
