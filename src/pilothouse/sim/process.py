"""``Process``: the manager of a simulation, or another program, from a start to its end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from pilothouse.client import Client
from pilothouse.controllermanager.manager import Manager
from pilothouse.env import Env
from pilothouse.sim.connection import Wire
from pilothouse.sim.webhooks import ProgramWebhooks


class Program(msgspec.Struct, frozen=True):
    """A program that takes the manager's place in a simulation: it is what dies and meets the faults. The manager then
    is a part of the cluster, and is spared."""

    name: str
    start: Callable[[Client, Env], Coroutine[Any, Any, object]]
    """Called for each process. A coroutine that runs until it is cancelled."""
    definitions: tuple[dict[str, Any], ...] = ()
    """CustomResourceDefinitions that are there before it starts."""
    webhooks: ProgramWebhooks | None = None


class Process:
    """One life of the manager, or of the program in its place."""

    def __init__(self, number: int, wiring: Wire, *, stale: bool) -> None:
        self.number = number
        self.wire = wiring
        self.stale = stale
        """Begins with lists from a server that may be behind."""
        self.down = 0.0
        """How long until the next one is started, should it die."""
        self.next_is_stale = False
        self.manager: Manager | None = None
        """None if it is another program."""
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """``manager#2``."""
        return self.wire.name
