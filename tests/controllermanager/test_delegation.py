"""Delegated authentication and authorization at the secure port, and caching of reviews."""

import asyncio
from typing import Any

import pytest
from tests.controllermanager.scripted import Scripted, status

from pilothouse.controllermanager.authentication import ANONYMOUS
from pilothouse.controllermanager.delegation import Authorizer, ReviewFailed, TokenReviews, User
from pilothouse.env import Env


def review(_method: str, target: str, body: Any) -> tuple[int, Any]:
    """Authenticates one token, and allows ``reader`` to read metrics."""
    if target.partition("?")[0].endswith("/tokenreviews"):
        good = body["spec"]["token"] == "good"
        user = {"username": "reader", "uid": "7", "groups": ["staff"]} if good else {}
        return 201, {"status": {"authenticated": good, "user": user}}
    assert target.partition("?")[0] == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    spec = body["spec"]
    allowed = spec["user"] == "reader" and spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
    return 201, {"status": {"allowed": allowed, "reason": "" if allowed else "no role"}}


async def test_token_reviews_are_cached(env: Env) -> None:
    server = Scripted(review)
    tokens = TokenReviews(env, server.client(env), cache_seconds=10)
    for _time in range(3):
        assert await tokens.user("good") == User(username="reader", uid="7", groups=("staff",))
        assert await tokens.user("bad") is None
    assert len(server.requests) == 2
    await asyncio.sleep(10)
    await tokens.user("good")
    assert len(server.requests) == 3


async def test_unreachable_api_server_is_an_error_and_not_cached(env: Env) -> None:
    server = Scripted(review)
    server.down = True
    tokens = TokenReviews(env, server.client(env), cache_seconds=10)
    with pytest.raises(ReviewFailed, match="connection refused"):
        await tokens.user("good")
    assert env.monotonic() < 0.1, "nobody there is not asked again"
    server.down = False
    assert await tokens.user("good") is not None


async def test_transient_errors_are_retried(env: Env) -> None:
    refusals = [status(500, "InternalError"), status(429, "TooManyRequests"), status(504, "Timeout")]
    server = Scripted(lambda *asked: refusals.pop() if refusals else review(*asked))
    tokens = TokenReviews(env, server.client(env), cache_seconds=10)
    assert await tokens.user("good") is not None
    assert len(server.requests) == 4
    # 0.5, 0.75 and 1.125 s, each up to a fifth longer.
    assert 2.375 <= env.monotonic() <= 2.375 * 1.2
    refusals.extend([status(500, "InternalError")] * 9)
    with pytest.raises(ReviewFailed):
        await tokens.user("other")
    assert len(server.requests) == 9, "five tries are enough"


async def test_review_with_an_error_is_not_cached(env: Env) -> None:
    server = Scripted(lambda *_: (201, {"status": {"error": "the issuer is away"}}))
    tokens = TokenReviews(env, server.client(env), cache_seconds=10)
    for _time in range(2):
        with pytest.raises(ReviewFailed, match="the issuer is away"):
            await tokens.user("good")
    assert len(server.requests) == 2


def authorizer(env: Env, server: Scripted | None, **changes: Any) -> Authorizer:
    settings: dict[str, Any] = {
        "always_allow_paths": ("/healthz", "livez", "/open/*"),
        "authorized_seconds": 10.0,
        "unauthorized_seconds": 5.0,
    }
    return Authorizer(env, server.client(env) if server is not None else None, **{**settings, **changes})


READER = User(username="reader", uid="7", groups=("staff",), extra={"scopes": ("a", "b")})


async def test_authorization(env: Env) -> None:
    server = Scripted(review)
    judge = authorizer(env, server)

    async def allows(user: User, verb: str, path: str) -> bool:
        return (await judge.review(user, verb, path)).allowed

    for path in ("/healthz", "/livez", "/open/", "/open/more"):
        assert await allows(ANONYMOUS, "get", path), path
    assert await allows(User(username="x", groups=("system:masters",)), "delete", "/anything")
    assert server.requests == [], "nobody had to be asked for these"
    assert await allows(READER, "get", "/metrics")
    assert server.requests[0][2]["spec"] == {
        "user": "reader",
        "uid": "7",
        "groups": ["staff"],
        "extra": {"scopes": ["a", "b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }
    assert not await allows(READER, "get", "/configz")
    assert (await judge.review(READER, "get", "/configz")).reason == "no role"
    assert not await allows(READER, "post", "/metrics")
    assert not await allows(ANONYMOUS, "get", "/healthz/more")


async def test_allowed_and_denied_reviews_have_separate_ttls(env: Env) -> None:
    server = Scripted(review)
    judge = authorizer(env, server)
    for _second in range(10):
        await judge.review(READER, "get", "/metrics")
        await judge.review(READER, "get", "/configz")
        await asyncio.sleep(1)
    paths = [body["spec"]["nonResourceAttributes"]["path"] for _method, _target, body in server.requests]
    assert paths == ["/metrics", "/configz", "/configz"]


async def test_long_attributes_are_not_cached(env: Env) -> None:
    server = Scripted(review)
    judge = authorizer(env, server)
    for _time in range(2):
        await judge.review(READER, "get", f"/{'x' * 10_000}")
    assert len(server.requests) == 2


async def test_failed_review_is_an_error_and_not_cached(env: Env) -> None:
    broken = True
    server = Scripted(lambda *asked: status(403, "Forbidden") if broken else review(*asked))
    judge = authorizer(env, server)
    with pytest.raises(ReviewFailed):
        await judge.review(READER, "get", "/metrics")
    broken = False
    assert (await judge.review(READER, "get", "/metrics")).allowed


async def test_only_open_paths_and_system_masters_without_delegation(env: Env) -> None:
    judge = authorizer(env, None)
    assert (await judge.review(READER, "get", "/healthz")).allowed
    assert not (await judge.review(READER, "get", "/metrics")).allowed
