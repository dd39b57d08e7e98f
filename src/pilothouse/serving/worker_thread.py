"""One thread for computations that would block the event loop.

Both threads share the GIL, so nothing is faster; but the loop runs every millisecond, and serves other requests
in the meantime.
"""

import asyncio
import contextvars
import gc
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_TURN_SECONDS = 0.001
"""The switch interval during computations; Python's default of 0.005 delays every step of the loop."""


class WorkerThread:
    """Runs computations one by one. The thread is started with the first."""

    def __init__(self, max_waiting: int = 8) -> None:
        self._max_waiting = max_waiting
        self._executor: ThreadPoolExecutor | None = None
        self._computations = 0

    @property
    def is_full(self) -> bool:
        """Whether the queue is full."""
        return self._computations > self._max_waiting

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function; returns its result or raises its error. It is not stopped if the caller is cancelled."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="pilothouse-worker")
        self._computations += 1
        work = partial(contextvars.copy_context().run, _settings, partial(function, *args, **kwargs))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._computations -= 1

    def stop(self) -> None:
        """Accept nothing more. The current computation continues to its end."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


class _ProcessSettings:
    """Process-wide settings during computations: set by the first, restored by the last.

    The switch interval and the garbage collector are global, and computations of several threads may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._computing = 0
        self._old_interval = 0.0
        self._collects = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._computing:
                self._old_interval, self._collects = sys.getswitchinterval(), gc.isenabled()
                sys.setswitchinterval(_TURN_SECONDS)
                # Computations create many objects and no cycles, and the collector would hold the GIL.
                gc.disable()
            self._computing += 1

    def __exit__(self, *_failure: object) -> None:
        with self._lock:
            self._computing -= 1
            if not self._computing:
                sys.setswitchinterval(self._old_interval)
                if self._collects:
                    gc.enable()


_turns = _ProcessSettings()


def _settings(function: Callable[[], T]) -> T:
    with _turns:
        return function()
