"""The application of ``pilothouse top`` without a terminal: keys, and the screen as text."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from pilothouse.cli.screen.app import TopApp
from pilothouse.client import Client
from pilothouse.env import Env

WAIT_SECONDS = 20.0


class Screen:
    """``press`` keys, and ``until`` something is shown."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self._pilot.press(*keys)

    async def type(self, text: str) -> None:
        """Type a text and Enter."""
        names = {"/": "slash", "-": "minus", " ": "space", ":": "colon", ".": "full_stop"}
        await self._pilot.press(*(names.get(item, item) for item in text), "enter")

    @property
    def text(self) -> str:
        """All that is on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, pattern: str, *, removed: bool = False) -> str:
        """Wait for a regular expression on the screen, or, if ``removed``, for its removal; returns the screen."""
        return await self.until_true(lambda text: bool(re.search(pattern, text)) is not removed, pattern)

    async def until_true(self, condition: Callable[[str], bool], description: str) -> str:
        """Wait for a condition of the screen."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    await self._pilot.pause()
                    text = self.text
                    if condition(text):
                        return text
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not shown: {description}\n{self.text}") from None


@asynccontextmanager
async def shown(client: Client, *, size: tuple[int, int] = (160, 40), **options: Any) -> AsyncIterator[Screen]:
    """The application in a terminal of that size."""
    app = TopApp(client, Env(), server="test", **options)
    async with app.run_test(size=size) as pilot:
        yield Screen(app, pilot)
