"""The test environment of controllers."""

from collections.abc import AsyncIterator

import pytest
from tests.controllers import node_world

from pilothouse.env import Env


@pytest.fixture
async def world(env: Env) -> AsyncIterator[node_world.World]:
    """An API server without any controller."""
    async with node_world.world(env) as world:
        yield world
