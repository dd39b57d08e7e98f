"""Restores stored objects when what they are derived from changes."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.origins import own_writes
from pilothouse.storage import Change, Staged


class Follower(ABC):
    """Stages what follows, once at the start and after each wake. ``run`` until cancelled."""

    reason: str
    """Why the server writes it."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._changed = asyncio.Event()
        self._changed.set()

    def notify(self, _changes: Sequence[Change]) -> None:
        """Something has changed; for ``store.follow``."""
        self._changed.set()

    async def run(self) -> None:
        """Stage and commit whenever something has changed."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with own_writes(self._core.env, "", self.reason):
                await self._core.keep_trying(lambda: self._core.keep_up(self.stage))

    @abstractmethod
    def stage(self) -> Staged | None:
        """Stage all that is not as it should be; the last of it, or None."""
