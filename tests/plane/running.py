"""A plane that runs for the length of a block."""

import contextlib
from collections.abc import AsyncIterator

from pilothouse.env import TaskGroup
from pilothouse.plane import Plane


@contextlib.asynccontextmanager
async def running(plane: Plane) -> AsyncIterator[TaskGroup]:
    """The plane, from when it is ready to the end of the block, and with it all tasks of the group that it gives."""
    async with TaskGroup("test") as group:
        group.start(plane.run(), name="plane")
        await plane.wait_ready()
        yield group
        group.cancel()
