"""The base of every controller: one queue, N workers, one crash handler.

``reconcile(key)`` reads the whole state for one key and brings it closer to the desired state. It never runs
concurrently for the same key. Its result determines what happens to the key:

=====================================  ======================================================================
``reconcile`` …                        the key …
=====================================  ======================================================================
returns ``None``                       is done; its failures are forgotten
returns ``Requeue(after)``             is done, and comes back in ``after`` seconds
raises ``TerminalError``               is given up until something changes; logged, counted, failures forgotten
raises ``RetryLater``, ``LostLease``   comes back with backoff; logged only at verbosity 4
raises ``RetryLater(delay=…)``         comes back in ``delay`` seconds, its failures are forgotten; logged as that
raises any other ``Exception``         comes back with backoff; logged, counted
is cancelled                           is lost; the program is stopping
=====================================  ======================================================================

Model: controller-runtime ``pkg/internal/controller/controller.go`` and upstream's worker loops.
"""

import asyncio
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pilothouse.client.errors import Conflict, NotFound
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.causes import begin_sync
from pilothouse.machinery.metrics import Registry
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.crash_handler import report_broken_invariant
from pilothouse.runtime.errors import LostLease, RetryLater, TerminalError
from pilothouse.runtime.rate_limiters import RateLimiter
from pilothouse.runtime.workqueue import QueueClosed, WorkQueue

with lazy_imports():
    from pilothouse.tracing import syncs

K = TypeVar("K", bound=Hashable)

__all__ = ["Controller", "Requeue", "RetryLater", "TerminalError", "WorkerPool"]

COALESCING_TURNS = 32
"""``turns`` for controllers that aggregate pods. In a busy process each pod that becomes ready would otherwise cause a
write. If the process is idle the turns take less than 0.1 ms."""
STOP_SECONDS = 10.0
"""How long running reconciles get to finish when the controller is stopped."""


class Requeue(msgspec.Struct, frozen=True):
    """Enqueue the key again ``after`` seconds (controller-runtime's ``Result.RequeueAfter``). This is no failure."""

    after: float


class Syncing(Protocol):
    """An informer, or anything else that must be synced before workers start."""

    async def wait_synced(self) -> None:
        """Return once the cache is filled."""
        ...


class WorkerPool(Generic[K]):
    """N workers on one queue. A controller with several queues has several pools. With 0 workers its keys are never
    processed, as upstream, which does not validate some of these flags. ``component`` is recorded as the origin of
    their writes, by default ``name``.

    ``run`` ends when it is cancelled. It then takes no more keys, gives running reconciles ``stop_seconds`` to finish,
    cancels the others, and raises ``CancelledError``. No task is left running.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[Requeue | None]],
        *,
        workers: int = 1,
        metrics: Registry | None = None,
        log: Log | None = None,
        stop_seconds: float = STOP_SECONDS,
        component: str = "",
    ) -> None:
        self.name = name
        self.component = component or name
        self.queue = queue
        self.workers = max(workers, 0)
        self._reconcile = reconcile if queue.tracing is None else syncs.traced(self, reconcile, queue.tracing)
        self._log = log if log is not None else Log(name)
        self._stop_seconds = stop_seconds
        self._stopping = False
        self._logged_frames: tuple[object, ...] = ()
        """Of the last traceback in the log."""
        self._errors = (
            metrics.counter(
                "pilothouse_reconcile_errors_total", "Reconciles that failed, by controller and what became of the key",
                ("controller", "outcome"),
            )
            if metrics is not None
            else None
        )  # fmt: skip

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        if not self.workers:
            self._log.warning("Controller has no workers and does nothing", controller=self.name)
        async with TaskGroup(self.name) as group:
            running = self.workers
            all_idle: asyncio.Future[None] = loop.create_future()

            def ended(_task: asyncio.Task[None]) -> None:
                nonlocal running
                running -= 1
                if running == 0 and not all_idle.done():
                    all_idle.set_result(None)

            for number in range(self.workers):
                group.start(self._work(), name=f"{self.name}-worker-{number}").add_done_callback(ended)
            try:
                await all_idle
            except asyncio.CancelledError:
                self._stopping = True
                self.queue.shut_down()
                if running:
                    timer = loop.call_later(self._stop_seconds, self._cancel_after_timeout, group)
                    try:
                        # A new future: the one above was cancelled together with this task.
                        all_idle = loop.create_future()
                        await all_idle
                    finally:
                        timer.cancel()
                raise

    def _cancel_after_timeout(self, group: TaskGroup) -> None:
        self._log.warning("Reconciles did not finish in time, cancelling them", controller=self.name)
        group.cancel()

    async def _work(self) -> None:
        queue = self.queue
        while not self._stopping:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            begin_sync(self.component, key, queue.triggers(key))
            try:
                await self._sync_and_recover(key)
            finally:
                queue.done(key)
            # A reconcile without an await does not yield to the event loop: do it here.
            await asyncio.sleep(0)

    async def _sync_and_recover(self, key: K) -> None:
        try:
            requeue = await self._reconcile(key)
        except (RetryLater, LostLease) as error:
            self._log.info("Reconcile postponed", v=4, key=key, reason=error)
            if isinstance(error, RetryLater) and error.delay is not None:
                self.queue.forget(key)
                self.queue.add_after(key, error.delay)
            else:
                self.queue.add_rate_limited(key)
        except TerminalError as error:
            self._count("given_up")
            self._log.error("Reconcile failed, will not be retried", error=error, key=key)
            self.queue.forget(key)
        except Exception as error:  # noqa: BLE001  # one key fails, not the process
            self._handle_error(key, error)
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
            if requeue is not None:
                self.queue.add_after(key, requeue.after)

    def _handle_error(self, key: K, error: Exception) -> None:
        self._count("retried")
        if _is_conflict(key, error):
            # A conflict with another writer is not an error; the next sync uses the new object.
            self._log.info("Reconcile had a conflict, will be retried", key=key, reason=error)
            return
        # Errors of the API server or the network, and exceptions raised on purpose, are logged without a traceback.
        if type(error).__module__.startswith("pilothouse.") or isinstance(error, OSError):
            self._log.error("Reconcile failed, will be retried", error=error, key=key)
        elif (frames := _frames(error)) == self._logged_frames:
            # A bug fails each retry of each key at the same place.
            text = f"{type(error).__name__}: {error}"
            self._log.error("Reconcile failed, will be retried", err=text, key=key, traceback="as before")
            report_broken_invariant(error)
        else:
            self._logged_frames = frames
            self._log.exception("Reconcile failed, will be retried", error, key=key)
            report_broken_invariant(error)

    def _count(self, outcome: str) -> None:
        if self._errors is not None:
            self._errors.labels(self.name, outcome).inc()


def _frames(error: BaseException) -> tuple[object, ...]:
    """The type of the error, and the lines of its traceback."""
    lines = (f"{frame.f_code.co_filename}:{line}" for frame, line in traceback.walk_tb(error.__traceback__))
    return (type(error).__qualname__, *lines)


def _is_conflict(key: Hashable, error: Exception) -> bool:
    """Whether the error means that another client changed the object that was to be written, or deleted the object of
    the key."""
    if isinstance(error, NotFound) and error.status.details is not None:
        return error.status.details.name == str(key).rpartition("/")[2]
    return isinstance(error, Conflict)


class Controller(ABC):
    """A controller with one queue. Subclass it, add keys to ``queue`` from event handlers, write ``reconcile``.

    ``waits_for`` are the informers that must be synced before the first key is processed. Create it in the running
    loop. ``turns``: see ``WorkQueue``.
    """

    def __init__(
        self,
        name: str,
        env: Env,
        *,
        workers: int = 1,
        waits_for: Sequence[Syncing] = (),
        metrics: Registry | None = None,
        limiter: RateLimiter[str] | None = None,
        queue_name: str = "",
        turns: int = 0,
        log: Log | None = None,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.name = name
        self.env = env
        self.log = log if log is not None else Log(name)
        self.queue: WorkQueue[str] = WorkQueue(env, queue_name or name, metrics, limiter=limiter, turns=turns)
        self._waits_for: Sequence[Syncing] = tuple(waits_for)
        self._runnables: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._pool = WorkerPool(
            name, self.queue, self.reconcile, workers=workers, metrics=metrics, log=self.log, stop_seconds=stop_seconds
        )
        self.pools: list[WorkerPool[Any]] = [self._pool]
        """The workers of all its queues."""

    @abstractmethod
    async def reconcile(self, key: str) -> Requeue | None:
        """Bring the state for ``key`` closer to the desired state. The result is described in the module."""

    def add_runnable(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``work()`` as long as the controller, from before its caches are filled: an event recorder, for example.
        Call it before ``run``. ``name`` is appended to the controller's in the name of the task."""
        self._runnables.append((f"{self.name}-{name}", work))

    def add_worker_pool(self, pool: WorkerPool[Any]) -> None:
        """Also run the workers of another queue after the caches are synced. Call it before ``run``."""
        pool.component = self.name
        self.pools.append(pool)

        async def work() -> None:
            try:
                await self._synced()
                await pool.run()
            finally:
                pool.queue.shut_down()

        self._runnables.append((pool.name, work))

    async def run(self) -> None:
        """Wait for the caches, then work until cancelled. Stops as ``WorkerPool.run`` does."""
        async with TaskGroup(self.name) as group:
            for name, work in self._runnables:
                group.start(work(), name=name)
            self.log.info("Starting controller", controller=self.name)
            try:
                await self._synced()
                self.log.info("Caches are synced", v=2, controller=self.name)
                await self._pool.run()
            finally:
                self.queue.shut_down()
                self.log.info("Stopped controller", controller=self.name)

    async def _synced(self) -> None:
        for informer in self._waits_for:
            await informer.wait_synced()


class ManagedController(Controller):
    """A controller that is built from a descriptor. It waits for all informers that it gets from its context, before or
    after this constructor, except those declared as not awaited.

    A subclass adds event handlers to its informers, passes its ``EventRecorder``'s ``run`` to ``add_runnable``, and
    defines ``reconcile``."""

    def __init__(
        self,
        context: ControllerContext,
        name: str,
        *,
        workers: int = 1,
        limiter: RateLimiter[str] | None = None,
        queue_name: str = "",
        turns: int = 0,
    ) -> None:
        super().__init__(
            name,
            context.env,
            workers=workers,
            metrics=context.metrics,
            limiter=limiter,
            turns=turns,
            queue_name=queue_name,
            log=context.log,
        )
        # Not a copy: helpers of the controller may get informers later.
        self._waits_for = context.awaited
