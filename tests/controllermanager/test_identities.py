"""Tokens for the controllers' service accounts (``client_builder_dynamic.go``, v1.36)."""

import datetime
from typing import Any

import pytest
from tests.controllermanager.scripted import Scripted, status

from pilothouse.client.errors import Forbidden
from pilothouse.controllermanager.identities import ServiceAccountToken
from pilothouse.env import Env
from pilothouse.env.virtual import run
from pilothouse.machinery.times import format_time

ACCOUNTS = "/api/v1/namespaces/kube-system/serviceaccounts"


class World:
    """Has namespaces and accounts, and issues tokens for an hour."""

    def __init__(self, env: Env, *, namespace: bool = True, account: bool = True) -> None:
        self.env = env
        self.namespace = namespace
        self.account = account
        self.refusals: list[tuple[int, Any]] = []
        self.lifetime = 3600

    def __call__(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        if (method, target) == ("GET", "/api/v1/namespaces/kube-system"):
            return (200, {}) if self.namespace else status(404, "NotFound")
        if (method, target) == ("POST", "/api/v1/namespaces"):
            self.namespace = True
            return 201, body
        if method == "GET" and target == f"{ACCOUNTS}/gc":
            return (200, {}) if self.account else status(404, "NotFound")
        if method == "POST" and target == ACCOUNTS:
            self.account = True
            return 201, body
        assert (method, target) == ("POST", f"{ACCOUNTS}/gc/token")
        if self.refusals:
            return self.refusals.pop(0)
        expires = self.env.now() + datetime.timedelta(seconds=self.lifetime)
        assert body["spec"] == {"expirationSeconds": 3600}
        return 201, {"status": {"token": "t", "expirationTimestamp": format_time(expires)}}


def test_an_account_that_is_there_is_only_asked_for_a_token() -> None:
    async def main(env: Env) -> None:
        server = Scripted(World(env))
        token, seconds = await ServiceAccountToken(env, server.client(env), "gc").issue()
        assert token == "t"
        assert 0.95 * 2880 - 2 <= seconds <= 2880 + 2, (
            "a fifth of its life is left when it is renewed, or a little more"
        )
        assert [(m, t) for m, t, _ in server.asked] == [("GET", f"{ACCOUNTS}/gc"), ("POST", f"{ACCOUNTS}/gc/token")]

    run(main)


def test_a_missing_account_is_made_and_its_namespace_too() -> None:
    async def main(env: Env) -> None:
        server = Scripted(World(env, namespace=False, account=False))
        await ServiceAccountToken(env, server.client(env), "gc").issue()
        assert [(m, t) for m, t, _ in server.asked] == [
            ("GET", f"{ACCOUNTS}/gc"),
            ("GET", "/api/v1/namespaces/kube-system"),
            ("POST", "/api/v1/namespaces"),
            ("POST", ACCOUNTS),
            ("POST", f"{ACCOUNTS}/gc/token"),
        ]

    run(main)


def test_short_lifetimes_count_as_ten_minutes() -> None:
    async def main(env: Env) -> None:
        world = World(env)
        world.lifetime = 60
        _token, seconds = await ServiceAccountToken(env, Scripted(world).client(env), "gc").issue()
        assert 0.95 * 480 - 2 <= seconds <= 480 + 2

    run(main)


def test_it_tries_four_times_with_growing_pauses() -> None:
    async def main(env: Env) -> None:
        world = World(env)
        world.refusals = [status(403, "Forbidden")] * 3
        server = Scripted(world)
        began = env.monotonic()
        token, _seconds = await ServiceAccountToken(env, server.client(env), "gc").issue()
        assert token == "t"
        assert env.monotonic() - began == pytest.approx(0.5 + 1 + 2, abs=0.01)
        world.refusals = [status(403, "Forbidden")] * 4
        with pytest.raises(Forbidden):
            await ServiceAccountToken(env, server.client(env), "gc").issue()

    run(main)
