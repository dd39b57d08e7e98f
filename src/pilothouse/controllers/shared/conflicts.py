"""Retries a write after a conflict a few times, without the work queue's backoff.

Mirrors ``RetryOnConflict`` with its two usual paces, client-go v0.36 ``util/retry/util.go``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pilothouse.client.errors import Conflict

T = TypeVar("T")

RETRY = (0.01, 0.01, 0.01, 0.01)
"""The pauses of ``DefaultRetry``: five attempts."""
BACKOFF = (0.01, 0.05, 0.25)
"""The pauses of ``DefaultBackoff``: four attempts, for objects with several writers."""


async def retry_on_conflict(write: Callable[[int], Awaitable[T]], delays: tuple[float, ...]) -> T:
    """Call ``write`` with the number of the try, from 0, until it meets no conflict. Raises the last one."""
    for attempt, delay in enumerate(delays):
        try:
            return await write(attempt)
        except Conflict:
            await asyncio.sleep(delay)
    return await write(len(delays))
