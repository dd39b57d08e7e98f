"""What the tests of this controller run in."""

from collections.abc import AsyncIterator

import pytest
from tests.controllers.disruption.scene import budgeting
from tests.controllers.node_world import World

from pilothouse.env import Env


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    async with budgeting(env) as world:
        yield world
