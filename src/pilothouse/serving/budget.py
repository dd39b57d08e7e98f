"""Limits the bytes of bodies that are being received and of responses that clients have not read yet.

One client that sends or reads slowly is served as long as there is room for all. When together they hold too much,
the one that has done so for longest is given up.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Held:
    """What one request holds; belongs to a ``Budget``."""

    __slots__ = ("limit", "since", "size")

    def __init__(self, limit: asyncio.Timeout, since: float) -> None:
        self.limit = limit
        self.since = since
        self.size = 0


class Budget:
    """Bytes for all requests together.

    ``most`` may be exceeded by those who began less than ``patience`` seconds ago: so long none is slow.
    """

    def __init__(self, most: int, patience: float = 0.0) -> None:
        self._most = most
        self._patience = patience
        self._size = 0
        self._holders: dict[Held, None] = {}

    @contextmanager
    def hold(self, limit: asyncio.Timeout) -> Iterator[Held]:
        """Hold some bytes, none at first. ``limit`` runs out early when they have to be given up."""
        held = Held(limit, asyncio.get_running_loop().time())
        self._holders[held] = None
        try:
            yield held
        finally:
            self._release(held)

    def grow(self, held: Held, size: int) -> None:
        """Hold more."""
        held.size += size
        self._size += size
        now = asyncio.get_running_loop().time()
        while self._size > self._most:
            oldest = next(iter(self._holders))
            if now - oldest.since < self._patience:
                return
            self._release(oldest)
            if not oldest.limit.expired():
                oldest.limit.reschedule(now)

    def _release(self, held: Held) -> None:
        if held in self._holders:
            del self._holders[held]
            self._size -= held.size
