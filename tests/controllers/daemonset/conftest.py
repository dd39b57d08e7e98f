"""What the tests of this controller run in."""

from collections.abc import AsyncIterator

import pytest
from tests.controllers.daemonset.world import World, controlled

from pilothouse.env import Env


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    async with controlled(env) as world:
        yield world
