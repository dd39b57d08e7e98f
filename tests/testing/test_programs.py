"""Programs of a test that run with a plane, and invalid arguments of planes."""

import asyncio
import contextlib
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, BadRequest, InternalError
from pilothouse.client.interceptor import Rule, fail
from pilothouse.env import Env
from pilothouse.testing import async_plane, plane


class ConfigMap(View, frozen=True):
    """The minimal implementation."""

    metadata: ObjectMeta = ObjectMeta()


MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, ConfigMap)


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def exists(obj: object) -> bool:
    return obj is not None


class Beater:
    """Creates a ConfigMap every minute."""

    def __init__(self) -> None:
        self.ended = False

    async def run(self, client: Client, _env: Env) -> None:
        number = 0
        try:
            while True:
                await client.create(MAPS, config_map(f"beat-{number}"), "default")
                number += 1
                await asyncio.sleep(60)
        finally:
            self.ended = True


async def broken(_client: Client, _env: Env) -> None:
    raise KeyError("a bug")


def test_a_program_runs_on_the_planes_clock_until_the_end_of_the_block() -> None:
    beater = Beater()
    with plane(nodes=0, controllers=(), serve=False, movable_clock=True) as cluster:
        with cluster.running(beater.run):
            cluster.wait_for("v1", "ConfigMap", "beat-0", exists)
            cluster.advance(130)
            assert len(cluster.list("v1", "ConfigMap")) == 3
        assert beater.ended
        cluster.advance(300)
        assert len(cluster.list("v1", "ConfigMap")) == 3


def test_a_program_that_fails_is_reported_at_the_end_of_the_block() -> None:
    with plane(nodes=0, controllers=(), serve=False) as cluster:
        with pytest.raises(KeyError, match="a bug"), cluster.running(broken):
            pass
        cluster.create(config_map("the-plane-goes-on"))


def test_faults_meet_the_program_only() -> None:
    fault = Rule(fail(500), verb="create")
    with plane(nodes=0, controllers=(), serve=False) as cluster:
        with pytest.raises(InternalError), cluster.running(Beater().run, faults=[fault]):
            cluster.create(config_map("mine"))
        assert [item["metadata"]["name"] for item in cluster.list("v1", "ConfigMap")] == ["mine"]
        assert fault.hits == 1


async def test_beside_an_asynchronous_plane_too(env: Env) -> None:
    beater = Beater()
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        async with cluster.running(beater.run):
            await asyncio.sleep(200)
        assert beater.ended
        assert len(await cluster.list("v1", "ConfigMap")) == 4
        with pytest.raises(KeyError, match="a bug"):
            await _outlive(cluster.running(broken))


async def test_errors_of_an_asynchronous_block(env: Env) -> None:
    """They are raised as they are; together with one of the program, in a group."""
    group = ExceptionGroup("two of the block", [ValueError("one"), ValueError("two")])
    async with async_plane(env=env, nodes=0, controllers=()) as cluster:
        with pytest.raises(ExceptionGroup) as alone:
            await _fail(cluster.running(Beater().run), group)
        with pytest.raises(ExceptionGroup) as both:
            await _fail(cluster.running(broken), OSError("of the block"))
    assert alone.value is group
    assert [type(error) for error in both.value.exceptions] == [OSError, KeyError]


async def _fail(running: contextlib.AbstractAsyncContextManager[None], error: Exception) -> None:
    async with running:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
        raise error


async def _outlive(running: contextlib.AbstractAsyncContextManager[None]) -> None:
    async with running:
        await asyncio.sleep(1)
        raise AssertionError("the block is cancelled")


@cases(
    "settings, message",
    {
        "negative nodes": ({"nodes": -1}, "nodes must not be negative, got -1"),
        "one controller": ({"controllers": "job"}, "controllers must be a list of names, got 'job'"),
        "a misspelt controller": (
            {"controllers": ["*", "-garbagecolector"]},
            r"'garbagecolector' is not in the list of known controllers \(did you mean garbagecollector\?\)",
        ),
    },
)
def test_arguments_that_make_no_plane(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message), plane(**settings):
        pass


def test_a_misspelt_field_is_an_error() -> None:
    with plane(nodes=0, controllers=(), serve=False) as cluster:
        with pytest.raises(BadRequest, match='unknown field "dta"'):
            cluster.create({**config_map("a"), "dta": {}})
        cluster.create(config_map("a"))
        with pytest.raises(ApiError, match='unknown field "dta"'):
            cluster.patch("v1", "ConfigMap", "a", {"dta": {}})


def test_a_server_cannot_be_ahead() -> None:
    with (
        plane(nodes=0, controllers=(), serve=False) as cluster,
        pytest.raises(ValueError, match="must not be negative"),
    ):
        cluster.lag(-1)
