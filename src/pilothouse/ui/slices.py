"""Long work on the loop in slices, so that others have their turn every few milliseconds."""

import asyncio
from collections.abc import Callable

SLICE_SECONDS = 0.004


class Slices:
    """Measures how long the loop has been held. ``await turn()`` now and then: it lets others run once that is due."""

    __slots__ = ("_began", "_now")

    def __init__(self, perf_counter: Callable[[], float]) -> None:
        self._now = perf_counter
        self._began = perf_counter()

    async def turn(self) -> None:
        """Let others run if the slice is over."""
        if self._now() - self._began >= SLICE_SECONDS:
            await self.rest()

    async def rest(self) -> None:
        """Let others run now."""
        await asyncio.sleep(0)
        self._began = self._now()
