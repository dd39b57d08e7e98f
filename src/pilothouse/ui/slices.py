"""Splits long work on the event loop into slices of a few milliseconds."""

import asyncio
from collections.abc import Callable

SLICE_SECONDS = 0.004


class Slices:
    """Measures how long the loop has been blocked. ``await turn()`` regularly: it yields to other tasks when the slice
    is over."""

    __slots__ = ("_began", "_now")

    def __init__(self, perf_counter: Callable[[], float]) -> None:
        self._now = perf_counter
        self._began = perf_counter()

    async def turn(self) -> None:
        """Yield to other tasks if the slice is over."""
        if self._now() - self._began >= SLICE_SECONDS:
            await self.rest()

    async def rest(self) -> None:
        """Yield to other tasks now."""
        await asyncio.sleep(0)
        self._began = self._now()
