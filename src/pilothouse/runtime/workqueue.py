"""The work queue between event handlers, which add keys, and workers, which take them.

Follows client-go v0.36 ``util/workqueue`` (queue.go, delaying_queue.go, rate_limiting_queue.go) in one class:

* *Fair*: keys leave in the order in which they became due.
* *Stingy*: a key is never worked on twice at once, and a key added many times before it is taken is worked on once.
* *Re-entrant*: a key added while it is worked on comes back, exactly once, after ``done``.
* *Delays*: ``add_after`` keeps the earlier of two times for a key. Keys that still wait at shutdown are lost.

In addition to client-go's queue, it records the events for which a key was added, available in ``triggers`` while the
key is processed. A key that is added by a sync, to any queue, gets the triggers of that sync.

Not guaranteed: that a delayed key can be taken back, or that ``len`` counts delayed keys.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from pilothouse.env import Env
from pilothouse.env.environment import is_real, perf_counter_of
from pilothouse.machinery.causes import TIMER, Triggers, current_triggers
from pilothouse.machinery.metrics import Counter, Histogram, Registry, exponential_buckets
from pilothouse.runtime.dispatch import DISPATCH
from pilothouse.runtime.rate_limiters import RateLimiter, default_controller_limiter

if TYPE_CHECKING:
    from pilothouse.tracing.provider import Tracing

K = TypeVar("K", bound=Hashable)

_BUCKETS = exponential_buckets(1e-8, 10, 10)


class QueueClosed(Exception):
    """The queue is shut down and empty: the worker's work is over."""


class _QueueMetrics:
    """The metrics of one named queue: names, help texts and buckets of component-base
    ``metrics/prometheus/workqueue``."""

    __slots__ = (
        "added_at",
        "adds",
        "now",
        "queue_duration",
        "retries",
        "started_at",
        "unregister",
        "waited",
        "work_duration",
    )

    def __init__(self, name: str, registry: Registry, depth: Callable[[], int], now: Callable[[], float]) -> None:
        labels = ("name",)
        self.now = now
        self.added_at: dict[Hashable, float] = {}
        self.started_at: dict[Hashable, float] = {}
        self.waited = 0.0
        self.adds: Counter = registry.counter(
            "workqueue_adds_total", "[BETA] Total number of adds handled by workqueue", labels
        ).labels(name)
        self.retries: Counter = registry.counter(
            "workqueue_retries_total", "[BETA] Total number of retries handled by workqueue", labels
        ).labels(name)
        self.queue_duration: Histogram = registry.histogram(
            "workqueue_queue_duration_seconds",
            "[BETA] How long in seconds an item stays in workqueue before being requested.",
            labels,
            _BUCKETS,
        ).labels(name)
        self.work_duration: Histogram = registry.histogram(
            "workqueue_work_duration_seconds",
            "[BETA] How long in seconds processing an item from workqueue takes.",
            labels,
            _BUCKETS,
        ).labels(name)
        depth_gauge = registry.gauge("workqueue_depth", "[BETA] Current depth of workqueue", labels).labels(name)
        unfinished = registry.gauge(
            "workqueue_unfinished_work_seconds",
            "[BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. "
            "Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at "
            "which this increases.",
            labels,
        ).labels(name)
        longest = registry.gauge(
            "workqueue_longest_running_processor_seconds",
            "[BETA] How many seconds has the longest running processor for workqueue been running.",
            labels,
        ).labels(name)

        # Upstream updates the last two every 500 ms; here they are computed with each scrape.
        def refresh() -> None:
            depth_gauge.set(depth())
            at = now()
            ages = [at - started for started in self.started_at.values()]
            unfinished.set(sum(ages))
            longest.set(max(ages, default=0.0))

        self.unregister = registry.on_collect(refresh)


class WorkQueue(Generic[K]):
    """A work queue of hashable keys. Create it on the running loop.

    ``name`` labels its metrics; without a name or a registry there are none. With ``turns`` a key is returned that many
    iterations of the event loop after it became due. In an idle process they take microseconds. In a busy one, further
    events of the key arrive in the meantime and are merged. In virtual time keys are returned immediately.
    """

    def __init__(
        self,
        env: Env,
        name: str = "",
        metrics: Registry | None = None,
        *,
        limiter: RateLimiter[K] | None = None,
        turns: int = 0,
    ) -> None:
        self.name = name
        self._env = env
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self.at_rest: Callable[[K], float | None] | None = None
        """For a single key that is added periodically: called in the timer when the key is due. Returns the seconds
        until it is due again if a sync would do nothing, and the key counts as processed; or None, and a worker gets
        the key."""
        self._limiter = limiter if limiter is not None else cast("RateLimiter[K]", default_controller_limiter(env))
        self._held_back: deque[list[K]] = deque([] for _ in range(turns if is_real(self._loop) else 0))
        """Due keys by the iteration of the loop in which they are returned; empty if they are returned immediately."""
        self._turning = False
        self._queue: deque[K] = deque()
        self._dirty: set[K] = set()  # must be worked on; never iterated
        self._processing: set[K] = set()  # is being worked on; never iterated
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._waiting: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._triggers: dict[K, Triggers] = {}
        """The triggers of keys that are due or delayed."""
        self._taken: dict[K, Triggers] = {}
        """The triggers of keys that are being processed."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._shutting_down = False
        self.tracing: Tracing | None = env.tracing
        """Traces keys; None if tracing is off."""
        if metrics is None and self.tracing is not None:
            metrics = Registry()  # for spans: how long a key has waited
        self._measured = (
            _QueueMetrics(name, metrics, self._queue.__len__, perf_counter_of(self._loop))
            if name and metrics is not None
            else None
        )

    def __len__(self) -> int:
        """How many keys are ready to be taken."""
        return len(self._queue)

    def add(self, key: K) -> None:
        """Add ``key``. Does nothing if it is queued already, or after the queue was shut down."""
        if self._shutting_down:
            return
        if DISPATCH.type:
            self._record_trigger(key)
        elif (triggers := current_triggers()) is not None:
            self._merge_triggers(key, triggers)
        self._enqueue(key)

    def _enqueue(self, key: K) -> None:
        if key in self._dirty:
            return
        measured = self._measured
        if measured is not None:
            measured.adds.value += 1.0
            measured.added_at[key] = measured.now()
        self._dirty.add(key)
        if key not in self._processing:
            self._make_ready(key)

    def _make_ready(self, key: K) -> None:
        if self._held_back and not self._shutting_down:
            self._held_back[-1].append(key)
            if not self._turning:
                self._turning = True
                self._loop.call_soon(self._turn)
            return
        self._queue.append(key)
        if self._getters:
            self._notify_one()

    def _turn(self) -> None:
        """One iteration of the loop has passed."""
        held_back = self._held_back
        due = held_back.popleft()
        held_back.append([])
        for key in due:
            self._queue.append(key)
            if self._getters:
                self._notify_one()
        self._turning = any(held_back)
        if self._turning:
            self._loop.call_soon(self._turn)

    async def get(self) -> K:
        """Wait for the next key and mark it as being worked on.

        No other worker gets this key until ``done(key)``. If it is added again in the meantime, it is returned exactly
        once more, after ``done``. Keys are returned in the order in which they became due. Raises ``QueueClosed`` after
        the queue was shut down and is empty. Does not yield to the loop if a key is ready.
        """
        queue = self._queue
        while not queue:
            if self._shutting_down:
                raise QueueClosed(self.name)
            getter: asyncio.Future[None] = self._loop.create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    if queue:
                        self._notify_one()  # this notification was for a key: pass it on
                elif getter in self._getters:  # a key that was added later has overtaken it
                    self._getters.remove(getter)
                raise
        key = queue.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        triggers = self._triggers.pop(key, None)
        if triggers is not None:
            self._taken[key] = triggers
        measured = self._measured
        if measured is not None:
            now = measured.now()
            measured.started_at[key] = now
            waited = measured.waited = now - measured.added_at.pop(key, now)
            measured.queue_duration.observe(waited)
        return key

    def done(self, key: K) -> None:
        """``key`` has been processed. If it was added in the meantime, it is due again."""
        measured = self._measured
        if measured is not None:
            started = measured.started_at.pop(key, None)
            if started is not None:
                measured.work_duration.observe(measured.now() - started)
        self._processing.discard(key)
        self._taken.pop(key, None)
        if key in self._dirty:
            self._make_ready(key)
        elif not self._processing and self._idle is not None and not self._queue:
            self._idle.set_result(None)
            self._idle = None

    def add_after(self, key: K, delay: float) -> None:
        """Add ``key`` in ``delay`` seconds, immediately if that is not positive. Of two times for one key the earlier
        wins."""
        if self._shutting_down:
            return
        if self._measured is not None:
            self._measured.retries.value += 1.0
        if delay <= 0:
            self.add(key)
            return
        if DISPATCH.type:
            self._record_trigger(key)
        elif key not in self._taken and (triggers := current_triggers()) is not None:
            self._merge_triggers(key, triggers)  # but a sync with Requeue is triggered by the time
        when = self._loop.time() + delay
        waiting_until = self._waiting.get(key)
        if waiting_until is not None and waiting_until <= when:
            return
        self._waiting[key] = when
        self._sequence += 1
        heap = self._heap
        if len(heap) > 2 * len(self._waiting) + 50:
            # Stale entries are removed when they reach the top of the heap, possibly much later.
            heap[:] = [entry for entry in heap if self._waiting.get(entry[2]) == entry[0]]
            heapq.heapify(heap)
        heapq.heappush(heap, (when, self._sequence, key))
        if self._timer is None or when < self._timer_at:
            self._set_timer(when)

    def add_due(self, key: K) -> None:
        """Add ``key`` because its time has come, for timers outside of the queue."""
        if key not in self._triggers:
            self._triggers[key] = Triggers()
            self._triggers[key].add(TIMER)
        self._enqueue(key)

    def add_rate_limited(self, key: K) -> None:
        """Add ``key`` after the delay of the rate limiter."""
        if key not in self._triggers and (failures := self._taken.get(key)) is not None:
            self._triggers[key] = failures.retried()
        self.add_after(key, self._limiter.when(key))

    def forget(self, key: K) -> None:
        """Reset the rate limiter for ``key``, which succeeded or was given up. The queue is not changed."""
        self._limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        """How many failures the rate limiter counts for ``key``."""
        return self._limiter.num_requeues(key)

    def triggers(self, key: K) -> Triggers | None:
        """The events for which ``key``, which is being processed, was added. None if there are none: the controller
        added it without an event."""
        return self._taken.get(key)

    @property
    def waited(self) -> float:
        """Seconds for which the key that was taken last had been due, where that is measured: with metrics, or
        traced."""
        return 0.0 if self._measured is None else self._measured.waited

    def seconds_until_due(self, key: K) -> float | None:
        """When ``key`` is due: 0 if it is, None if it is not in the queue."""
        if key in self._dirty:
            return 0.0
        when = self._waiting.get(key)
        return None if when is None else max(0.0, when - self._loop.time())

    def is_processing(self, key: K) -> bool:
        """Whether ``key`` is being worked on."""
        return key in self._processing

    def is_taken(self, key: K) -> bool:
        """Whether ``key`` is being worked on, or is ready to be processed."""
        return key in self._processing or key in self._dirty

    def shut_down(self) -> None:
        """Take no new keys. Ready keys are still handed out, then ``get`` raises ``QueueClosed``. May be called
        twice."""
        self._shutting_down = True
        for due in self._held_back:
            self._queue.extend(due)
            due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._waiting.clear()
        for key in self._triggers.keys() - self._dirty:
            del self._triggers[key]
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
        if self._measured is not None:
            self._measured.unregister()

    async def drained(self) -> None:
        """After ``shut_down``: wait until every ready key has been taken and is done (upstream's
        ``ShutDownWithDrain``)."""
        assert self._shutting_down, "drained() waits for a queue that is shut down"
        while self._processing or self._queue:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def _record_trigger(self, key: K) -> None:
        triggers = self._triggers.get(key)
        if triggers is None:
            triggers = self._triggers[key] = Triggers()
        DISPATCH.note(triggers)

    def _merge_triggers(self, key: K, triggers: Triggers) -> None:
        merged = self._triggers.get(key)
        if merged is None:
            merged = self._triggers[key] = Triggers()
        merged.inherit(triggers)

    def _notify_one(self) -> None:
        getters = self._getters
        while getters:
            getter = getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        # Not in the context of the sync that sets the timer, which would otherwise stay in memory.
        self._timer = timer = self._loop.call_at(when, self._on_due, context=self._context)
        if self.at_rest is not None:
            self._env.mark_pass(timer, self._leap)

    def _leap(self) -> bool:
        """If ``at_rest`` allows it, mark the single due key as processed and schedule it again. Otherwise do
        nothing."""
        at_rest, heap = self.at_rest, self._heap
        if at_rest is None or len(heap) != 1 or not self._getters or self._dirty or self._processing:
            return False
        when, _sequence, key = heap[0]
        if self.tracing is not None or self._waiting.get(key) != when:
            return False
        measured = self._measured
        began = 0.0 if measured is None else measured.now()
        delay = at_rest(key)
        if delay is None or delay <= 0:
            return False
        if measured is not None:
            measured.adds.value += 1.0
            measured.retries.value += 1.0
            measured.waited = 0.0
            measured.queue_duration.observe(0.0)
            measured.work_duration.observe(measured.now() - began)
        self._triggers.pop(key, None)
        self._limiter.forget(key)
        when = self._waiting[key] = self._loop.time() + delay
        self._sequence += 1
        heap[0] = (when, self._sequence, key)
        self._timer = None  # it is the one that is due
        self._set_timer(when)
        return True

    def _on_due(self) -> None:
        """Add all keys whose time has come. Skip an entry that an earlier one for its key replaced."""
        if self.at_rest is not None and self._env.is_reading_alone() and self._leap():
            return
        self._timer = None
        heap, waiting = self._heap, self._waiting
        # uvloop fires up to a clock tick early; whatever is due within that tick must not cost another timer.
        due_by = max(self._loop.time(), self._timer_at)
        while heap and (heap[0][0] <= due_by or waiting.get(heap[0][2]) != heap[0][0]):
            when, _sequence, key = heapq.heappop(heap)
            if waiting.get(key) == when:
                del waiting[key]
                self.add_due(key)
        if heap:
            self._set_timer(heap[0][0])
