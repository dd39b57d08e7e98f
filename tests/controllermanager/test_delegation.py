"""Callers of the secure port are told apart and judged by the API server, and its answers are kept for a while."""

import asyncio
from typing import Any

from tests.controllermanager.scripted import Scripted, status

from pilothouse.controllermanager.delegation import Authenticator, Authorizer, User
from pilothouse.env import Env
from pilothouse.env.virtual import run

ANONYMOUS = User(username="system:anonymous", groups=("system:unauthenticated",))


def review(_method: str, target: str, body: Any) -> tuple[int, Any]:
    """Knows one token, and lets ``reader`` read metrics."""
    if target.endswith("/tokenreviews"):
        good = body["spec"]["token"] == "good"
        user = {"username": "reader", "uid": "7", "groups": ["staff"]} if good else {}
        return 201, {"status": {"authenticated": good, "user": user}}
    assert target == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    spec = body["spec"]
    allowed = spec["user"] == "reader" and spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    return 201, {"status": {"allowed": allowed}}


def test_who_is_asking() -> None:
    async def main(env: Env) -> None:
        server = Scripted(review)
        authenticator = Authenticator(env, server.client(env), cache_seconds=10)
        assert await authenticator.user(None, "") == ANONYMOUS
        assert await authenticator.user(None, "Basic abc") == ANONYMOUS
        assert server.asked == []
        reader = User(username="reader", uid="7", groups=("staff", "system:authenticated"))
        assert await authenticator.user(None, "Bearer good") == reader
        assert await authenticator.user(None, "bearer  good ") == reader
        assert await authenticator.user(None, "Bearer bad") is None
        # A certificate goes before a token.
        by_certificate = await authenticator.user(User(username="admin", groups=("system:masters",)), "Bearer bad")
        assert by_certificate == User(username="admin", groups=("system:masters", "system:authenticated"))

    run(main)


def test_answers_about_tokens_are_kept_good_and_bad() -> None:
    async def main(env: Env) -> None:
        server = Scripted(review)
        authenticator = Authenticator(env, server.client(env), cache_seconds=10)
        for _time in range(3):
            await authenticator.user(None, "Bearer good")
            await authenticator.user(None, "Bearer bad")
        assert len(server.asked) == 2
        await asyncio.sleep(10)
        await authenticator.user(None, "Bearer good")
        assert len(server.asked) == 3

    run(main)


def test_an_api_server_that_is_away_lets_no_token_in_and_nothing_is_kept() -> None:
    async def main(env: Env) -> None:
        server = Scripted(review)
        server.down = True
        authenticator = Authenticator(env, server.client(env), cache_seconds=10)
        assert await authenticator.user(None, "Bearer good") is None
        server.down = False
        assert await authenticator.user(None, "Bearer good") is not None

    run(main)


def test_without_delegation_everybody_is_anonymous() -> None:
    async def main(env: Env) -> None:
        authenticator = Authenticator(env, None, cache_seconds=10)
        assert await authenticator.user(None, "Bearer good") == ANONYMOUS

    run(main)


def authorizer(env: Env, server: Scripted | None, **changes: Any) -> Authorizer:
    settings: dict[str, Any] = {
        "always_allow_paths": ("/healthz", "livez", "/open/*"),
        "authorized_seconds": 10.0,
        "unauthorized_seconds": 5.0,
    }
    return Authorizer(env, server.client(env) if server is not None else None, **{**settings, **changes})


READER = User(username="reader", uid="7", groups=("staff",))


def test_who_may_what() -> None:
    async def main(env: Env) -> None:
        server = Scripted(review)
        judge = authorizer(env, server)
        for path in ("/healthz", "/livez", "/open/", "/open/more"):
            assert await judge.allows(ANONYMOUS, "get", path), path
        assert await judge.allows(User(username="x", groups=("system:masters",)), "delete", "/anything")
        assert server.asked == [], "nobody had to be asked for these"
        assert await judge.allows(READER, "get", "/metrics")
        assert server.asked[0][2]["spec"] == {
            "user": "reader",
            "uid": "7",
            "groups": ["staff"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
        assert not await judge.allows(READER, "get", "/configz")
        assert not await judge.allows(READER, "post", "/metrics")
        assert not await judge.allows(ANONYMOUS, "get", "/healthz/more")

    run(main)


def test_yes_and_no_are_kept_each_for_its_time() -> None:
    async def main(env: Env) -> None:
        server = Scripted(review)
        judge = authorizer(env, server)
        for _second in range(10):
            await judge.allows(READER, "get", "/metrics")
            await judge.allows(READER, "get", "/configz")
            await asyncio.sleep(1)
        paths = [body["spec"]["nonResourceAttributes"]["path"] for _method, _target, body in server.asked]
        assert paths == ["/metrics", "/configz", "/configz"]

    run(main)


def test_a_failed_question_is_a_no_that_is_not_kept() -> None:
    async def main(env: Env) -> None:
        broken = True
        server = Scripted(lambda *asked: status(403, "Forbidden") if broken else review(*asked))
        judge = authorizer(env, server)
        assert not await judge.allows(READER, "get", "/metrics")
        broken = False
        assert await judge.allows(READER, "get", "/metrics")

    run(main)


def test_without_delegation_only_open_paths_and_masters_pass() -> None:
    async def main(env: Env) -> None:
        judge = authorizer(env, None)
        assert await judge.allows(READER, "get", "/healthz")
        assert not await judge.allows(READER, "get", "/metrics")

    run(main)
