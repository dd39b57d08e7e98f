"""The page of a plane in virtual time, and requests to it without a socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from tests.plane.running import running

from pilothouse.apiserver.errors import StatusError
from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore, Retention
from pilothouse.ui import Page

HOST = "127.0.0.1:6443"
ADMIN_TOKEN = "Bearer admin"


class Answer(NamedTuple):
    """The response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def is_administrator(headers: Mapping[str, str], _certificate: bytes | None) -> bool:
    """As the handler chain: no credentials are anonymous, wrong ones are rejected."""
    if headers.get("authorization", ADMIN_TOKEN) != ADMIN_TOKEN:
        raise StatusError(401, "Unauthorized", "Unauthorized")
    return "authorization" in headers


class PageClient:
    """A browser's requests to a page."""

    def __init__(self, page: Page, client: Client, plane: Plane) -> None:
        self.page = page
        self.client = client
        self.plane = plane
        self.session: dict[str, str] = {}

    async def request(self, target: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """One request; underscores in the names of headers stand for hyphens, an empty value leaves one out."""
        sent: list[Any] = []
        path, _mark, query = target.partition("?")
        every = {"host": HOST, **self.session, **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": method,
            "scheme": "https",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in every.items() if value],
        }
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            result = next(messages, None)
            if result is None:
                await asyncio.get_running_loop().create_future()
            return result

        async def send(message: Any) -> None:
            sent.append(message)

        await self.page(scope, receive, send)
        content = b"".join(message["body"] for message in sent[1:])
        return Answer(sent[0]["status"], {n.decode(): v.decode() for n, v in sent[0]["headers"]}, content)

    async def log_in(self, token: str = "") -> Answer:
        """Exchange a token, by default a new one, for a session that later requests have."""
        token = token or self.page.link("").partition("#token=")[2]
        answer = await self.request(
            "/ui/api/login", "POST", json.dumps({"token": token}).encode(), origin=f"https://{HOST}"
        )
        if answer.status == 200:
            cookie = answer.headers["set-cookie"].partition(";")[0]
            self.session = {"cookie": cookie, "x-pilothouse-key": answer.json["key"]}
        return answer

    async def frames(self, target: str) -> list[dict[str, Any]]:
        """The frames of an answer of lines."""
        answer = await self.request(target)
        assert answer.status == 200, answer
        return [json.loads(line) for line in answer.body.splitlines()]


@contextlib.asynccontextmanager
async def page_client(env: Env, *, nodes: int = 2, history: float = 300.0) -> AsyncIterator[PageClient]:
    """A plane with a page, and a client that is not logged in."""
    store = MemoryStore(env, retention=Retention(seconds=history))
    plane = Plane(env, store, PlaneOptions(nodes=nodes))
    async with running(plane) as group:
        page = Page(
            env,
            plane.server.core,
            user="kubernetes-admin",
            client=plane.client(agent="pilothouse-ui"),
            is_administrator=is_administrator,
            manager=plane.manager,
            decisions=getattr(plane.scheduler, "decisions", None),
        )
        sampling = group.start(page.run(), name="page")
        try:
            yield PageClient(page, plane.client(), plane)
        finally:
            sampling.cancel()
            await page.stop()
