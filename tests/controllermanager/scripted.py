"""A stub API server: the test responds to each request."""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api import wire
from pilothouse.client import Client
from pilothouse.client.errors import ConnectionRefused
from pilothouse.env import Env

Answer = Callable[[str, str, Any], tuple[int, Any]]
"""(method, target, body) to (status, document)."""


class Scripted:
    """A ``wire.Transport``. ``requests`` are the requests; while ``down`` connections are refused."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[tuple[str, str, Any]] = []
        self.down = False

    def client(self, env: Env) -> Client:
        return Client(self, env)

    async def request(self, request: wire.Request) -> wire.Response:
        body = msgspec.json.decode(request.body) if request.body else None
        self.requests.append((request.method, request.target, body))
        if self.down:
            raise ConnectionRefused("connection refused by nobody")
        status, document = self._answer(request.method, request.target, body)
        return wire.Response(status, {"content-type": "application/json"}, msgspec.json.encode(document))

    async def open(self, request: wire.Request) -> wire.Stream:
        raise AssertionError(f"no watch expected: {request.target}")

    async def close(self) -> None:
        return None


def status(code: int, reason: str, message: str = "") -> tuple[int, Any]:
    """An error response."""
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return code, {**document, "message": message or reason}
