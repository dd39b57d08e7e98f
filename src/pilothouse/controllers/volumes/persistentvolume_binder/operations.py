"""Runs provisioning and deletion concurrently with the two workers, one operation at a time for each claim and volume.

A failed operation is in backoff, from half a second to two minutes; the next sync of its claim or volume starts it
again, at the latest the resync, as ``goroutinemap`` with exponential backoff (v1.36 ``pkg/util/goroutinemap``).
"""

from collections.abc import Awaitable, Callable

from pilothouse.client.errors import ApiError
from pilothouse.env import Env, Log
from pilothouse.runtime import Backoff, Requeue, WorkerPool, WorkQueue

CONCURRENCY = 16
FIRST_SECONDS, LONGEST_SECONDS = 0.5, 122.0

Operation = Callable[[], Awaitable[None]]


class OperationFailed(Exception):
    """Events have been recorded; it may be retried after a backoff."""


class Operations:
    """Running operations, and those in backoff. ``pool`` must run."""

    def __init__(self, env: Env, name: str, log: Log) -> None:
        self._log = log
        self._backoff = Backoff(env, FIRST_SECONDS, LONGEST_SECONDS)
        self._begun: dict[str, Operation] = {}
        self._queue: WorkQueue[str] = WorkQueue(env, f"{name}-operations")
        self.pool = WorkerPool(
            f"{name}-operations", self._queue, self._run, workers=CONCURRENCY, log=log, component=name
        )

    def begin(self, key: str, operation: Operation) -> None:
        """Start the operation unless one of that name is running or in backoff."""
        if key in self._begun:
            self._log.info("Operation is already running, skipping", v=4, operationName=key)
        elif self._backoff.is_in_backoff(key):
            self._log.info("Operation postponed due to exponential backoff", v=4, operationName=key)
        else:
            self._begun[key] = operation
            self._queue.add(key)

    async def _run(self, key: str) -> Requeue | None:
        operation = self._begun.get(key)
        if operation is None:
            return None  # it was interrupted; the next sync starts it again
        try:
            await operation()
        except (ApiError, OSError, OperationFailed) as error:
            self._backoff_of(key)
            self._log.info("Operation failed", v=2, operationName=key, err=str(error))
        except Exception:
            self._backoff_of(key)
            raise
        else:
            self._backoff.reset(key)
        finally:
            self._begun.pop(key, None)
        return None

    def _backoff_of(self, key: str) -> None:
        self._backoff.next(key)
        self._backoff.collect()  # including deleted claims and volumes
