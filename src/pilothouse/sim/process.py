"""``Process``: one process of the manager, or of another program under test."""

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
    """A program that replaces the manager as the target of faults in a simulation. The manager is then part of the
    cluster, without faults."""

    name: str
    start: Callable[[Client, Env], Coroutine[Any, Any, object]]
    """Called for each process. The coroutine runs until it is cancelled."""
    definitions: tuple[dict[str, Any], ...] = ()
    """CustomResourceDefinitions that are created before the program starts."""
    webhooks: ProgramWebhooks | None = None


class Process:
    """One process of the manager, or of the program that replaces it."""

    def __init__(self, number: int, wiring: Wire, *, stale: bool) -> None:
        self.number = number
        self.wire = wiring
        self.stale = stale
        """Whether it starts with lists from a stale server."""
        self.down = 0.0
        """The delay before a restart after a crash."""
        self.next_is_stale = False
        self.manager: Manager | None = None
        """None for another program."""
        self.task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """``manager#2``."""
        return self.wire.name
