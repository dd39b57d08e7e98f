"""The world of component tests of nodes, as a fixture."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.nodes.world import World, world

from pilothouse.env import Env


@pytest.fixture
async def w(env: Env, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A server with simulated nodes. ``pytest.mark.world`` has their names and options; a test's mark extends its
    module's."""
    nodes: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    for mark in request.node.iter_markers("world"):
        nodes = nodes or mark.args
        options = {**mark.kwargs, **options}
    async with world(env, *nodes, **options) as running:
        yield running
