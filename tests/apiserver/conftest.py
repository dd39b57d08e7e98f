"""A server of its own for each test."""

from collections.abc import AsyncIterator

import pytest
from tests.apiserver.api import Api, started
from tests.apiserver.application import World

from pilothouse.env import Env


@pytest.fixture
async def api(env: Env) -> Api:
    """The user of a new server with the default options."""
    return Api(env)


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
