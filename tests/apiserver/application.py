"""A server behind the ASGI application, and requests of clients."""

import asyncio
import json
from typing import Any

from tests.stores import new_store

from pilothouse.apiserver.asgi import Application
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.server import ApiServer
from pilothouse.env import Env

MAPS = "/api/v1/namespaces/default/configmaps"
ADMIN = {"authorization": "Bearer admin"}
JANE = {"authorization": "Bearer jane"}
JSON = {"content-type": "application/json"}


class Exchange:
    """One pending request: ``events`` were sent so far; ``leave`` disconnects the client."""

    def __init__(
        self, application: Application, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> None:
        path, _, query = target.partition("?")
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        if body:
            self.scope["headers"].append((b"content-length", str(len(body)).encode()))
        self._application = application
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": body})
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.status = 0
        self.headers: dict[str, str] = {}

    async def run(self) -> bytes:
        """The complete response body."""
        await self._application(self.scope, self._incoming.get, self._send)
        return b"".join([self.events.get_nowait() for _ in range(self.events.qsize())])

    def receive(self, data: bytes) -> None:
        """Send more of the request body."""
        self._incoming.put_nowait({"type": "http.request", "body": data})

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.events.put_nowait(message.get("body", b""))


class World:
    """A server with one administrator and one user without rights."""

    def __init__(self, env: Env, authorization: str = "RBAC") -> None:
        self.env = env
        self.core = ApiServer(env, new_store(env))
        token_authenticators = [
            StaticTokenAuthenticator(
                {"admin": Identity("admin", ("system:masters",)), "jane": Identity("jane", ("crew",), "u1")}
            )
        ]
        self.handler_chain = HandlerChain(
            self.core, address="10.0.0.1:6443", token_authenticators=token_authenticators, authorization=authorization
        )
        self.application = Application(env, self.handler_chain)

    def begin(self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None) -> Exchange:
        sent = {**ADMIN, **(JSON if body is not None else {}), **(headers or {})}
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return Exchange(self.application, method, target, {k: v for k, v in sent.items() if v}, data)

    async def request(
        self, method: str, target: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        exchange = self.begin(method, target, body, headers)
        answer = await exchange.run()
        return exchange.status, json.loads(answer) if exchange.headers["content-type"] == "application/json" else answer


def config_map(name: str = "cm", **data: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": data}
