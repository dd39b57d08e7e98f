"""Live reads of nodes, for decisions that must not rely on an old cache.

A cache may have a taint that was removed, or lack a node that exists (kubernetes#119862, #141887), and the resulting
deletion of a pod cannot be undone. Used by pod garbage collection and taint eviction.
"""

import asyncio
import math

from pilothouse.api.core import NODES, Node
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.env import Env

_KEPT = 1024


def is_about(error: NotFound, name: str) -> bool:
    """Whether the details of a 404 name the object. Otherwise it may come from a proxy."""
    details = error.status.details
    return details is not None and details.name == name


class _Read:
    __slots__ = ("at", "began", "lock", "node")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.began = -1
        self.at = -math.inf
        self.node: Node | None = None


class LiveNodes:
    """Reads nodes live; concurrent requests for a node share one read.

    A caller takes a ``moment()`` when it decides, and gets a state that was read after that.
    """

    def __init__(self, client: Client, env: Env) -> None:
        self._client = client
        self._env = env
        self._moment = 0
        self._reads: dict[str, _Read] = {}

    def moment(self) -> int:
        """The current moment, for ``get``. A counter, because two things may happen at the same clock time."""
        self._moment += 1
        return self._moment

    async def get(self, name: str, *, since: int, max_age: float = math.inf) -> Node | None:
        """The node, read after ``since`` and at most ``max_age`` seconds ago; None if it does not exist.

        Raises the error of the read, including a 404 that does not name the node.
        """
        read = self._reads.get(name)
        if read is None:
            if len(self._reads) >= _KEPT:
                self._forget()
            read = self._reads[name] = _Read()
        async with read.lock:
            if read.began <= since or self._env.monotonic() - read.at > max_age:
                started_at, at = self.moment(), self._env.monotonic()
                read.node = await self._read(name)
                read.began, read.at = started_at, at
            return read.node

    async def _read(self, name: str) -> Node | None:
        try:
            return await self._client.get(NODES, name)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return None

    def _forget(self) -> None:
        for name in [name for name, read in self._reads.items() if not read.lock.locked()]:
            del self._reads[name]
