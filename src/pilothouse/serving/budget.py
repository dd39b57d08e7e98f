"""Limits the total size of request bodies being received and of responses that clients have not read yet.

A slow client is served as long as the total is within the limit. When it is exceeded, the request that has been slow
for the longest time is aborted.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Reservation:
    """The bytes of one request; created by a ``Budget``."""

    __slots__ = ("limit", "since", "size")

    def __init__(self, limit: asyncio.Timeout, since: float) -> None:
        self.limit = limit
        self.since = since
        self.size = 0


class Budget:
    """The limit for all requests together.

    ``max_size`` may be exceeded by requests that started less than ``patience`` seconds ago: until then none counts as
    slow.
    """

    def __init__(self, max_size: int, patience: float = 0.0) -> None:
        self._max_size = max_size
        self._patience = patience
        self._size = 0
        self._reservations: dict[Reservation, None] = {}

    @contextmanager
    def hold(self, limit: asyncio.Timeout) -> Iterator[Reservation]:
        """Reserve bytes, none at first. ``limit`` expires when the request has to be aborted."""
        reservation = Reservation(limit, asyncio.get_running_loop().time())
        self._reservations[reservation] = None
        try:
            yield reservation
        finally:
            self._release(reservation)

    def grow(self, reservation: Reservation, size: int) -> None:
        """Reserve more bytes."""
        reservation.size += size
        self._size += size
        now = asyncio.get_running_loop().time()
        while self._size > self._max_size:
            oldest = next(iter(self._reservations))
            if now - oldest.since < self._patience:
                return
            self._release(oldest)
            if not oldest.limit.expired():
                oldest.limit.reschedule(now)

    def _release(self, reservation: Reservation) -> None:
        if reservation in self._reservations:
            del self._reservations[reservation]
            self._size -= reservation.size
