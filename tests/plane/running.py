"""A plane that runs for the length of a block."""

import contextlib
from collections.abc import AsyncIterator

from pilothouse.env import TaskGroup
from pilothouse.plane import Plane


@contextlib.asynccontextmanager
async def running(plane: Plane) -> AsyncIterator[TaskGroup]:
    """Run the plane from its readiness to the end of the block, with all tasks of its group."""
    async with TaskGroup("test") as group:
        group.start(plane.run(), name="plane")
        await plane.wait_ready()
        yield group
        group.cancel()
