"""Trying a write again that met a newer object, a few times and soon: who lost a race by milliseconds need not wait for
the work queue's backoff.

Mirrors ``RetryOnConflict`` with its two usual paces, client-go v0.36 ``util/retry/util.go``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pilothouse.client.errors import Conflict

T = TypeVar("T")

RETRY = (0.01, 0.01, 0.01, 0.01)
"""The pauses of ``DefaultRetry``: five tries, for who expects to win the next one."""
BACKOFF = (0.01, 0.05, 0.25)
"""The pauses of ``DefaultBackoff``: four tries, for who shares an object with others that write it."""


async def retry_on_conflict(write: Callable[[int], Awaitable[T]], pauses: tuple[float, ...]) -> T:
    """Call ``write`` with the number of the try, from 0, until it meets no conflict. Raises the last one."""
    for attempt, pause in enumerate(pauses):
        try:
            return await write(attempt)
        except Conflict:
            await asyncio.sleep(pause)
    return await write(len(pauses))
