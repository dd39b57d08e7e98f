"""Leases for keys that expire. Keys that are written within some time share one, because leases are expensive.

As apiserver's ``pkg/storage/etcd3/lease_manager.go`` (v0.36).
"""

import asyncio
from collections.abc import Awaitable, Callable

_REUSE_SHARE = 0.05
"""A key may live longer than its TTL by this share of it: for that time a lease is reused
(``leaseReuseDurationPercent``)."""
_MAX_OBJECTS = 1000
"""Maximum number of keys of a lease (``defaultLeaseMaxObjectCount``): etcd deletes all of them at once."""


class LeaseManager:
    """Grants leases. ``grant`` requests a new one from etcd, ``monotonic`` returns the time, ``reuse_seconds`` is how
    long one is shared."""

    def __init__(
        self, grant: Callable[[int], Awaitable[int]], monotonic: Callable[[], float], reuse_seconds: int
    ) -> None:
        self._grant = grant
        self._monotonic = monotonic
        self._reuse_seconds = reuse_seconds
        self._lock = asyncio.Lock()
        self._lease = 0
        self._expires = 0.0
        self._objects = 0

    async def lease(self, ttl: int) -> int:
        """A lease that lasts for at least this many seconds, and not for much longer."""
        async with self._lock:
            now = self._monotonic()
            reuse = min(self._reuse_seconds, int(_REUSE_SHARE * ttl))
            self._objects += 1
            if now + ttl < self._expires < now + ttl + reuse and self._objects <= _MAX_OBJECTS:
                return self._lease
            self._lease = await self._grant(ttl + reuse)
            self._expires = now + ttl + reuse
            self._objects = 1
            return self._lease
