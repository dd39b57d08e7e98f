"""Loops that keep stored objects as what they follow from has become: they sleep while nothing changes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pilothouse.apiserver.core import Core
from pilothouse.storage import Change, Staged


class Follower(ABC):
    """Stages what follows, once at the start and after each wake. ``run`` until cancelled."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._woken = asyncio.Event()
        self._woken.set()

    def wake(self, _changes: Sequence[Change]) -> None:
        """Something has changed; for ``store.follow``."""
        self._woken.set()

    async def run(self) -> None:
        """Stage and commit whenever something has changed."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            staged = self.stage()
            if staged is not None:
                await self._core.commit(staged)

    @abstractmethod
    def stage(self) -> Staged | None:
        """Stage all that is not as it should be; the last of it, or None."""
