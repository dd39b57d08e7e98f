"""``DerivedObjectsController``: restores stored objects when the objects that they are derived from change."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pilothouse.apiserver.core import Core
from pilothouse.apiserver.origins import own_writes
from pilothouse.storage import Change, Staged


class DerivedObjectsController(ABC):
    """Calls ``stage`` once at the start and after each notification. ``run`` until cancelled."""

    reason: str
    """The reason of the writes, for causes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._changed = asyncio.Event()
        self._changed.set()

    def notify(self, _changes: Sequence[Change]) -> None:
        """Trigger a sync; for ``store.follow``."""
        self._changed.set()

    async def run(self) -> None:
        """Stage and commit after each notification."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            with own_writes(self._core.env, "", self.reason):
                await self._core.retry_until_stored(lambda: self._core.commit_staged(self.stage))
            await asyncio.sleep(0)  # a commit in memory does not wait, and triggers the next sync

    @abstractmethod
    def stage(self) -> Staged | None:
        """Stage every object that differs from its desired state; returns the last write, or None."""
