"""``Process``: the manager of a simulation, from a start to its end."""

import asyncio

from pilothouse.controllermanager.manager import Manager
from pilothouse.sim.connection import Wire


class Process:
    """One life of the manager."""

    def __init__(self, number: int, wiring: Wire, *, stale: bool) -> None:
        self.number = number
        self.wire = wiring
        self.stale = stale
        """Begins with lists from a server that may be behind."""
        self.down = 0.0
        """How long until the next one is started, should it die."""
        self.next_is_stale = False
        self.manager: Manager | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """``manager#2``."""
        return self.wire.name
