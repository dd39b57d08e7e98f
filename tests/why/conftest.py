"""A cluster in virtual time."""

from collections.abc import AsyncIterator

import pytest
from tests.why.cluster import Cluster

from pilothouse.env import Env
from pilothouse.testing import async_plane


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[Cluster]:
    """Three nodes, all controllers, and a user."""
    async with async_plane(env=env) as plane:
        yield Cluster(plane)
