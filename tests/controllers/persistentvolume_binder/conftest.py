"""What the tests of this controller run in."""

from collections.abc import AsyncIterator

import pytest
from tests.controllers.node_world import World
from tests.controllers.persistentvolume_binder.world import binding

from pilothouse.env import Env


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    async with binding(env) as world:
        yield world
