"""The guard around code that is not the machinery's own: event handlers and index functions (``controller`` has the one
around a reconcile), and the exceptions with which a reconcile says how it wants to be retried.

An unexpected exception in one of them costs one event or one key, is logged with its traceback and counted; upstream's
process would crash there. Together these are the only broad ``except``s; ``CancelledError`` passes, it is no
``Exception``.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

from pilothouse.env import Log
from pilothouse.runtime.metrics import Registry

P = ParamSpec("P")

PANICS = "pilothouse_handler_errors_total"


class TerminalError(Exception):
    """A reconcile that would fail the same way again. It is logged and counted, and not retried until something
    changes."""


class RetryLater(Exception):  # a request, like Requeue, more than an error
    """A reconcile that could not be done yet, for a reason that is expected. It is retried with backoff and not
    logged as an error."""


class CannotRun(Exception):
    """A controller must not work on what it found when it was started: the program ends, and says this text."""


class LostLease(RuntimeError):
    """A write was stopped because this process may no longer be the leader (``election.Fence``)."""


class Guard:
    """Calls functions and survives them. ``where`` names the caller in the log and in the metric's label."""

    __slots__ = ("_counter", "_log", "_where")

    def __init__(self, log: Log, where: str, metrics: Registry | None = None) -> None:
        self._log = log
        self._where = where
        self._counter = (
            metrics.counter(PANICS, "Unexpected exceptions in event handlers and index functions", ("name",)).labels_of(
                where
            )
            if metrics is not None
            else None
        )

    def call(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call an event handler."""
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # the guard of STYLE: one event is lost, not the process
            self.report(function, error)

    def report(self, function: Callable[..., object], error: Exception) -> None:
        """Log and count an exception that was survived."""
        if self._counter is not None:
            self._counter.inc()
        name = getattr(function, "__qualname__", repr(function))
        self._log.exception("Unexpected exception in a handler", error, informer=self._where, handler=name)
        tell_broken_invariant(error)


def tell_broken_invariant(error: Exception) -> None:
    """Hand an ``AssertionError`` that was survived to the loop: the virtual one stops the run with it, others log."""
    if isinstance(error, AssertionError):
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "A broken invariant was survived", "exception": error})
