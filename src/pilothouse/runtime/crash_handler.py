"""Survives exceptions of code that is not the machinery's own: event handlers and index functions.

An unexpected exception there affects one event, is logged with its traceback and counted; an exception in a reconcile,
which ``controller`` handles, affects one key. Upstream's ``HandleCrash`` also logs and counts, but then the process
panics. These are the only broad ``except``s; ``CancelledError`` is not caught.
"""

import asyncio
from collections.abc import Callable
from typing import ParamSpec

from pilothouse.env import Log
from pilothouse.machinery.metrics import Registry

P = ParamSpec("P")

PANICS = "pilothouse_handler_errors_total"


class CrashHandler:
    """Calls functions and survives them. ``source`` names the caller in the log and in the metric's label."""

    __slots__ = ("_counter", "_log", "_source")

    def __init__(self, log: Log, source: str, metrics: Registry | None = None) -> None:
        self._log = log
        self._source = source
        self._counter = (
            metrics.counter(PANICS, "Unexpected exceptions in event handlers and index functions", ("name",)).labels(
                source
            )
            if metrics is not None
            else None
        )

    def call(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call an event handler."""
        try:
            function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # one event is lost, not the process
            self.report(function, error)

    def report(self, function: Callable[..., object], error: Exception) -> None:
        """Log and count an exception that was survived."""
        if self._counter is not None:
            self._counter.inc()
        name = getattr(function, "__qualname__", repr(function))
        self._log.exception("Unexpected exception in a handler", error, informer=self._source, handler=name)
        report_broken_invariant(error)


def report_broken_invariant(error: Exception) -> None:
    """Report a handled ``AssertionError`` to the event loop: the virtual loop stops the run with it, others log it."""
    if isinstance(error, AssertionError):
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "A broken invariant was survived", "exception": error})
