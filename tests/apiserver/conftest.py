"""A separate server for each test."""

from collections.abc import AsyncIterator

import pytest
from tests import stores
from tests.apiserver.api import Api, started
from tests.apiserver.application import World

from pilothouse.env import Env

ALSO_ON_ETCD = frozenset(f"test_{verb}.py" for verb in ("create", "get", "update", "delete"))
"""Of ``endpoints``: what every run does on etcd as well, where there is one. ``--store etcd`` does everything there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of the chosen modules that have ``api`` run on either store."""
    path = metafunc.definition.path
    is_chosen = "api" in metafunc.fixturenames and path.parent.name == "endpoints" and path.name in ALSO_ON_ETCD
    if is_chosen and stores.selected == "memory" and metafunc.definition.get_closest_marker("not_on") is None:
        on_etcd = pytest.param("etcd", id="etcd", marks=pytest.mark.real)
        metafunc.parametrize("store_kind", ["memory", on_etcd], indirect=True)


@pytest.fixture
def store_kind(request: pytest.FixtureRequest) -> str:
    """What ``api`` stores in; empty for what the run has."""
    return str(getattr(request, "param", ""))


@pytest.fixture
async def api(env: Env, store_kind: str) -> Api:
    """The user of a new server with the default options."""
    return Api(env, store=stores.new_store(env, kind=store_kind))


@pytest.fixture
async def started_api(api: Api) -> AsyncIterator[Api]:
    """The user of a new server with all that it has outside of simulations."""
    async with started(api):
        yield api


@pytest.fixture
def authorization() -> str:
    """The modes of authorization of ``world``."""
    return "RBAC"


@pytest.fixture
async def world(env: Env, authorization: str) -> AsyncIterator[World]:
    """A new server behind the ASGI application."""
    world = World(env, authorization)
    await world.handler_chain.start()
    yield world
    await world.application.stop()
    await world.core.close()
