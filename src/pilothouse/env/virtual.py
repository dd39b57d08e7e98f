"""The virtual loop: no sockets, no threads, no waiting. Time is a number that jumps to the next timer.

``run(main)`` runs a program to its end. When nothing is ready, loop time jumps to the earliest timer; without a timer
the program could never continue, and ``Stuck`` is raised inside ``run`` with the names of the waiting tasks. Callbacks
run in the order in which they became due; those with the same deadline in the order in which they were set. The wall
clock is loop time plus an offset that a simulation may change (``VirtualClock.jump``).
"""

import asyncio
import contextvars
import datetime
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from pilothouse.env.clock import LoopClock
from pilothouse.env.environment import Env
from pilothouse.env.memory import collecting_rarely, end_startup
from pilothouse.env.random_streams import RandomStreams

T = TypeVar("T")

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
"""The default start of virtual wall clocks."""


_NO_THREADS = (
    "there are no threads on the virtual loop, for asyncio.to_thread or executors: tests replace what blocks by "
    "coroutines"
)


class Stuck(RuntimeError):
    """Nothing is ready and no timer is set: the program waits for something that cannot happen."""


class _Handle(msgspec.Struct, eq=False):
    """``asyncio.Handle``, as far as programs use it: there are several for each request, and asyncio's takes four times
    as long to create."""

    callback: Callable[..., object] | None
    """None after cancellation."""
    args: tuple[Any, ...]
    context: contextvars.Context
    follows: bool
    """``VirtualLoop.mark_what_follows``."""

    def cancel(self) -> None:
        self.callback, self.args = None, ()

    def cancelled(self) -> bool:
        return self.callback is None

    def get_context(self) -> contextvars.Context:
        return self.context


class _Timer(_Handle, eq=False):
    """``asyncio.TimerHandle``."""

    at: float
    loop: "VirtualLoop"
    waits: bool = True
    """Whether its time has not come yet."""
    leap: Callable[[], bool] | None = None
    """``VirtualLoop.mark_pass``."""
    renews: Callable[[], bool] | None = None
    """``VirtualLoop.mark_renewal``."""

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        if self.waits and self.callback is not None:
            self.loop._count_cancelled()
        self.callback, self.args = None, ()


class VirtualLoop(asyncio.AbstractEventLoop):
    """An event loop without I/O. It only supports coroutines, futures, tasks and timers."""

    def __init__(self) -> None:
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timer_count = 0
        self._time = 0.0
        self._running = False
        self._closed = False
        self._stopping = False
        self._awaited: asyncio.Future[Any] | None = None
        """What ``run_until_complete`` runs."""
        self._cancelled_timers = 0
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._task_factory: Any = None
        self._failure: BaseException | None = None
        self.tasks: dict[asyncio.Task[Any], None] = {}
        """Tasks that are not done, oldest first."""
        self.clock: VirtualClock | None = None
        """The wall clock of the run, for code that only has the loop."""
        self.leaps = True
        """Whether renewals and passes may be made in their timers (``is_alone``). Turned off to test that this changes
        nothing."""

    # Time

    def time(self) -> float:
        return self._time

    def is_alone(self) -> bool:
        """Whether nothing but the caller is ready to run: ``Env.is_alone``.

        Timers that are due at the same time may be renewals, which will also be made in their timers: in the same
        order, and before the effects of those already made, which woken tasks would only see after all of them. They
        may also be passes with nothing to do: these are made now, before the caller writes, because they read before a
        woken task would have written.
        """
        return self.leaps and (not self._ready or self._is_alone(writes=True))

    def is_reading_alone(self) -> bool:
        """``Env.is_reading_alone``: renewals that are due at the same time are made after a woken task would have
        read."""
        return self.leaps and (not self._ready or self._is_alone(writes=False))

    def _is_alone(self, *, writes: bool) -> bool:
        for handle in tuple(self._ready):
            if handle.callback is None or (writes and handle.follows):
                continue
            if not isinstance(handle, _Timer):
                return False
            if (renews := handle.renews) is not None:
                if writes and not renews():
                    return False
            elif (leap := handle.leap) is None or not handle.context.run(leap):
                return False
            else:
                handle.callback, handle.args = None, ()
        return True

    def mark_pass(self, timer: asyncio.TimerHandle, leap: Callable[[], bool]) -> None:
        """``Env.mark_pass``."""
        assert isinstance(timer, _Timer), "of this loop"
        timer.leap = leap

    def mark_renewal(self, timer: asyncio.TimerHandle, renews: Callable[[], bool]) -> None:
        """``Env.mark_renewal``."""
        assert isinstance(timer, _Timer), "of this loop"
        timer.renews = renews

    def mark_what_follows(self) -> None:
        """``Env.mark_what_follows``."""
        for handle in self._ready:
            if not isinstance(handle, _Timer):
                handle.follows = True

    # Scheduling

    def call_soon(  # type: ignore[override]  # typeshed ties args to the callback with a TypeVarTuple
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, contextvars.copy_context() if context is None else context, False)
        self._ready.append(handle)
        return handle  # type: ignore[return-value]  # it does what one does

    def call_later(  # type: ignore[override]  # typeshed ties args to the callback with a TypeVarTuple
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        at = self._time + delay if delay > 0 else self._time
        return self._set_timer(at, callback, args, context)

    def call_at(  # type: ignore[override]  # typeshed ties args to the callback with a TypeVarTuple
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self._set_timer(max(when, self._time), callback, args, context)

    def _set_timer(
        self, at: float, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> asyncio.TimerHandle:
        timer = _Timer(callback, args, contextvars.copy_context() if context is None else context, False, at, self)
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, timer))
        return timer  # type: ignore[return-value]  # it does what one does

    def _count_cancelled(self) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > 1000 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def call_soon_threadsafe(  # type: ignore[override]  # typeshed ties args to the callback with a TypeVarTuple
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        raise RuntimeError(_NO_THREADS)

    def run_in_executor(  # type: ignore[override]  # as above
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        raise RuntimeError(_NO_THREADS)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_options: Any,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks[task] = None
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    # Running

    def run_forever(self) -> None:
        self._run()

    def run_until_complete(self, future: Any) -> Any:
        main = future if isinstance(future, asyncio.Future) else self.create_task(future, name="main")
        main.add_done_callback(self._stop_for)
        self._awaited = main
        try:
            self._run()
        finally:
            self._awaited = None
            main.remove_done_callback(self._stop_for)
        if not main.done():
            raise RuntimeError("the virtual loop was stopped before its program ended")
        return main.result()

    def _stop_for(self, done: asyncio.Future[Any]) -> None:
        if done is self._awaited:  # not one of an earlier call that was left by an exception
            self.stop()

    def stop(self) -> None:
        self._stopping = True

    def _run(self) -> None:
        if self._running:
            raise RuntimeError("this virtual loop is running already")
        self._running = True
        self._stopping = False
        asyncio._set_running_loop(self)
        ready, popleft = self._ready, self._ready.popleft
        try:
            while not self._stopping:
                while ready:
                    handle = popleft()
                    callback = handle.callback
                    if callback is not None:
                        try:
                            handle.context.run(callback, *handle.args)
                        except (SystemExit, KeyboardInterrupt):
                            raise
                        except BaseException as error:  # noqa: BLE001  # what asyncio's handles do
                            self._report(handle, error)
                        if self._failure is not None:
                            failure, self._failure = self._failure, None
                            raise failure
                    if self._stopping:
                        return
                self._jump()
        finally:
            self._running = False
            asyncio._set_running_loop(None)

    def _jump(self) -> None:
        """Jump to the next timer and make everything due at that time ready, in the order in which it was set."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            waiting = ", ".join(task.get_name() for task in self.tasks)
            raise Stuck(f"nothing can run at {self._time:.3f} s and no timer is set; waiting: {waiting}")
        self._time = timers[0][0]
        self._run_due()

    def _run_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._time:
            _when, _count, timer = heapq.heappop(timers)
            timer.waits = False
            if timer.callback is None:
                self._cancelled_timers -= 1
            else:
                self._ready.append(timer)

    def _report(self, handle: _Handle, error: BaseException) -> None:
        self.call_exception_handler(
            {"message": f"Exception in callback {handle.callback!r}", "exception": error, "handle": handle}
        )

    def stall(self, seconds: float) -> None:
        """Let time pass while nothing runs, as if a real loop was blocked. What is due by then runs once the caller
        yields, in order."""
        self._time += seconds
        self._run_due()

    # State

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        raise RuntimeError("the virtual loop has no debug mode")

    async def shutdown_asyncgens(self) -> None:
        return None

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return None

    # Errors

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def set_exception_handler(self, handler: Any) -> None:
        self._exception_handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        # In a simulation an exception that was never retrieved is a bug of the program: end the run with it.
        error = context.get("exception")
        self._failure = error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)


class VirtualClock(LoopClock):
    """Wall time on the virtual loop: the start, plus loop time, plus the jumps so far."""

    __slots__ = ("_at", "_loop", "_now", "_seconds", "_start", "jumps")

    zone = datetime.UTC  # the same on every machine

    def __init__(self, loop: VirtualLoop, start: datetime.datetime = START) -> None:
        self._loop = loop
        self._start = self._now = start
        self._at = 0.0
        self._seconds: float | None = None
        """The loop time of ``_now``, once it was computed."""
        self.jumps: list[tuple[float, float]] = []
        """All jumps so far, oldest first: loop time, and seconds forward."""

    def now(self) -> datetime.datetime:
        # Many calls have the same virtual time.
        at = self._loop._time
        if at != self._at:
            self._at = at
            self._now = self._start + datetime.timedelta(seconds=at)
            self._seconds = None
        return self._now

    def timestamp(self) -> float:
        now = self._now if self._loop._time == self._at else self.now()
        seconds = self._seconds
        if seconds is None:
            seconds = self._seconds = now.timestamp()
        return seconds

    def jump(self, seconds: float) -> None:
        """Move the wall clock forward, or back, without changing loop time."""
        self.jumps.append((self._loop.time(), seconds))
        self._start += datetime.timedelta(seconds=seconds)
        self._now = self._start + datetime.timedelta(seconds=self._at)
        self._seconds = None


def run(
    main: Callable[[Env], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    start: datetime.datetime = START,
    leaps: bool = True,
) -> T:
    """Run ``main(env)`` to its end in virtual time and return its result. ``leaps`` as in ``VirtualLoop``.

    Remaining tasks are cancelled, newest last, and can clean up. Raises ``TypeError`` if ``main`` is not an async
    function: ``asyncio.run`` takes a coroutine, and this function does not.
    """
    if asyncio.iscoroutine(main):
        main.close()  # otherwise Python warns that it was never awaited
        raise TypeError("run takes an async function of an Env, got a coroutine: write run(main)")
    loop = VirtualLoop()  # type: ignore[abstract]  # what needs sockets or processes is absent on purpose
    loop.leaps = leaps
    clock = loop.clock = VirtualClock(loop, start)
    env = Env(
        clock=clock,
        random_streams=RandomStreams(seed),
        loop_time=loop.time,
        is_alone=loop.is_alone,
        is_reading_alone=loop.is_reading_alone,
        mark_pass=loop.mark_pass,
        mark_renewal=loop.mark_renewal,
        mark_what_follows=loop.mark_what_follows,
    )
    end_startup()  # such runs may be long, and there are many
    try:
        with collecting_rarely():
            started = main(env)
            if not asyncio.iscoroutine(started):
                name = getattr(main, "__qualname__", repr(main))
                raise TypeError(f"run takes an async function of an Env, and {name} returned {type(started).__name__}")
            return _run_and_drain(loop, started)
    finally:
        loop.close()


def _run_and_drain(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    ending: BaseException | None = None
    try:
        return loop.run_until_complete(main)  # type: ignore[no-any-return]
    except (KeyboardInterrupt, SystemExit) as error:
        ending = error
        raise
    finally:
        _drain(loop, ending)


def _drain(loop: VirtualLoop, ending: BaseException | None) -> None:
    """Cancel the remaining tasks, and wait for them. Each task that passes ``ending`` on raises it out of the loop once
    more; another Ctrl-C is another exception."""
    left = list(loop.tasks)
    for task in left:
        task.cancel()
    while left := [task for task in left if not task.done()]:
        try:
            loop.run_until_complete(_wait_cancelled(left))
        except (KeyboardInterrupt, SystemExit) as again:
            if again is not ending:
                raise


async def _wait_cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
