"""Whether etcd responds, for ``/livez`` and ``/readyz``."""

import asyncio
import math
from collections.abc import Callable
from typing import Literal

from pilothouse.env import Log
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient, EtcdError
from pilothouse.storage.etcd.options import EtcdOptions

Check = Literal["health", "readiness"]

_SHARE_OF_TIMEOUT = 0.9
"""Timeout of the request, as a share of that of the check: the client then still switches to another member."""

_log = Log("etcd")


class HealthCheck:
    """Checks etcd at most twice in a timeout; in between the last result is returned."""

    def __init__(self, client: EtcdClient, root: bytes, seconds: float, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._key = root + b"health"
        self._seconds = seconds
        self._monotonic = monotonic
        self._checked_at = -math.inf
        self._responds = False
        self._checking = asyncio.Lock()

    async def responds(self) -> bool:
        """Whether etcd responds within the timeout. Callers that arrive during a check share its result."""
        async with self._checking:
            if self._monotonic() - self._checked_at >= self._seconds / 2:
                self._responds = await self._request()
                self._checked_at = self._monotonic()
            return self._responds

    async def _request(self) -> bool:
        request = messages.RangeRequest(key=self._key)
        try:
            async with asyncio.timeout(self._seconds):
                await self._client.range(request, timeout=_SHARE_OF_TIMEOUT * self._seconds)
        except (TimeoutError, EtcdError) as error:
            _log.warning("etcd does not answer", endpoint=self._client.endpoint.url, error=str(error) or "timeout")
            return False
        return True


def health_checks(
    client: EtcdClient, root: bytes, options: EtcdOptions, monotonic: Callable[[], float]
) -> dict[Check, HealthCheck]:
    """Those of ``--etcd-healthcheck-timeout`` and ``--etcd-readycheck-timeout``."""
    timeouts: dict[Check, float] = {"health": options.healthcheck_timeout, "readiness": options.readycheck_timeout}
    return {check: HealthCheck(client, root, seconds, monotonic) for check, seconds in timeouts.items()}
