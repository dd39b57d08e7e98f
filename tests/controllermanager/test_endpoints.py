"""Pages of the secure port, and who gets them."""

import asyncio
from typing import Any

import pytest
from tests.controllermanager.scripted import Scripted
from tests.controllermanager.test_delegation import review

from pilothouse.controllermanager.delegation import Authenticator, Authorizer, User
from pilothouse.controllermanager.endpoints import Endpoints
from pilothouse.controllermanager.health import Health
from pilothouse.env import Env
from pilothouse.env.virtual import run
from pilothouse.runtime.metrics import Registry


class Caller:
    """Asks the endpoints, without sockets."""

    def __init__(self, env: Env) -> None:
        self.health, self.readiness, self.metrics = Health(), Health(), Registry()
        self.certificate_user: User | None = None
        client = Scripted(review).client(env)
        self.endpoints = Endpoints(
            health=self.health,
            readiness=self.readiness,
            metrics=self.metrics,
            authenticator=Authenticator(env, client, cache_seconds=10),
            authorizer=Authorizer(
                env,
                client,
                always_allow_paths=("/healthz", "/readyz", "/livez"),
                authorized_seconds=10,
                unauthorized_seconds=10,
            ),
            config=lambda: b'{"a":1}',
            certificate_user=lambda _scope: self.certificate_user,
        )

    async def get(self, path: str, *, token: str = "", query: str = "", method: str = "GET") -> tuple[int, str]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            await asyncio.get_running_loop().create_future()

        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {"type": "http", "path": path, "method": method, "headers": headers, "query_string": query.encode()}
        await self.endpoints(scope, receive, send)
        length = dict(sent[0]["headers"])[b"content-length"]
        assert int(length) == len(sent[1]["body"])
        return sent[0]["status"], sent[1]["body"].decode()


MASTER = User(username="admin", groups=("system:masters",))


@pytest.mark.parametrize(
    ("path", "certificate", "token", "expected"),
    [
        pytest.param("/healthz", None, "", (200, "ok"), id="health is for everybody"),
        pytest.param("/livez", None, "", (200, "ok"), id="so is liveness"),
        pytest.param("/readyz", None, "", (200, "ok"), id="and readiness"),
        pytest.param("/healthz", None, "bad", (401, "Unauthorized"), id="but not with a wrong token"),
        pytest.param(
            "/metrics",
            None,
            "",
            (403, 'forbidden: User "system:anonymous" cannot get path "/metrics"'),
            id="metrics are not",
        ),
        pytest.param("/metrics", None, "good", (200, ""), id="metrics with the right to them"),
        pytest.param(
            "/configz",
            None,
            "good",
            (403, 'forbidden: User "reader" cannot get path "/configz"'),
            id="a right to one page is none to another",
        ),
        pytest.param("/configz", MASTER, "", (200, '{"a":1}'), id="masters may do everything"),
        pytest.param("/other", MASTER, "", (404, "404 page not found\n"), id="what is not there"),
        pytest.param("/healthz/ping", MASTER, "", (404, "404 page not found\n"), id="single checks are not served"),
        pytest.param(
            "/other",
            None,
            "",
            (403, 'forbidden: User "system:anonymous" cannot get path "/other"'),
            id="who may not look is not told what is there",
        ),
    ],
)
def test_pages(path: str, certificate: User | None, token: str, expected: tuple[int, str]) -> None:
    async def main(env: Env) -> None:
        caller = Caller(env)
        caller.certificate_user = certificate
        assert await caller.get(path, token=token) == expected

    run(main)


def test_health_and_readiness_are_two_things() -> None:
    async def main(env: Env) -> None:
        caller = Caller(env)
        caller.readiness.add("controllers", lambda: "not yet")
        assert (await caller.get("/healthz"))[0] == 200
        assert await caller.get("/readyz") == (500, "[-]controllers failed: reason withheld\nreadyz check failed\n")
        assert (await caller.get("/readyz", query="exclude=controllers"))[0] == 200
        assert (await caller.get("/livez", query="verbose"))[1] == "[+]ping ok\nlivez check passed\n"

    run(main)


def test_metrics_are_in_the_text_form() -> None:
    async def main(env: Env) -> None:
        caller = Caller(env)
        caller.metrics.counter("seen_total", "How many were seen").labels_of().inc()
        assert await caller.get("/metrics", token="good") == (
            200,
            "# HELP seen_total How many were seen\n# TYPE seen_total counter\nseen_total 1\n",
        )

    run(main)
