"""What the tests of this controller run in."""

from collections.abc import AsyncIterator

import pytest
from tests.controllers.horizontal_pod_autoscaler.scene import Scene, scaling

from pilothouse.env import Env


@pytest.fixture
async def scene(env: Env) -> AsyncIterator[Scene]:
    async with scaling(env) as scene:
        yield scene
