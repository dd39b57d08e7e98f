"""Runs expensive work of a request in a worker thread, so that other requests are not delayed.

The work on an object or a body grows with its size, by some ten milliseconds for every 32 kB. Larger ones are decoded,
defaulted and validated by a worker, if there is one (``serving.worker_thread``); a server in virtual time has none, and
does the work inline.
"""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from pilothouse.apiserver import errors
from pilothouse.cel.limits import (
    MAX_INLINE_COMPILE_SIZE,
    Compiled,
    Evaluated,
    Evaluator,
    EventLoopEvaluator,
    Source,
    Task,
    WouldBlock,
    blocking_evaluator,
)

P = ParamSpec("P")
T = TypeVar("T")

LONG_BYTES = 32 * 1024


class Worker(Protocol):
    """Runs functions in another thread."""

    @property
    def is_full(self) -> bool:
        """Whether its queue is full."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function; returns its result or raises its error."""


class LongWork:
    """Decides by size where work is done."""

    def __init__(self) -> None:
        self.get_worker: Callable[[], Worker] | None = None
        """Starts the worker; called when it is needed for the first time."""
        self._worker: Worker | None = None
        self.create_sandbox: Callable[[], Evaluator] | None = None
        """Creates the sandbox for expensive expressions; called when it is needed for the first time."""
        self._sandbox: Evaluator | None = None

    @property
    def sandbox(self) -> Evaluator | None:
        """The sandbox for expensive expressions; None in virtual time."""
        if self._sandbox is None and self.create_sandbox is not None:
            self._sandbox = self.create_sandbox()
        return self._sandbox

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function; returns its result or raises its error. It must not use shared state; ``size`` is the size
        of its input in bytes of JSON. It is called again, by the worker, if an expression turns out to be expensive.
        Raises 429 if the queue is full."""
        if self.get_worker is None:
            return function(*args, **kwargs)
        if size < LONG_BYTES:
            token = blocking_evaluator.set(EventLoopEvaluator())
            try:
                return function(*args, **kwargs)
            except WouldBlock:
                pass
            finally:
                blocking_evaluator.reset(token)
        if self._worker is None:
            self._worker = self.get_worker()
        if self._worker.is_full:
            raise errors.too_many_requests("too many large requests, please try again later")
        token = blocking_evaluator.set(_WorkerEvaluator(self))
        try:
            return await self._worker.run(function, *args, **kwargs)
        finally:
            blocking_evaluator.reset(token)


class _WorkerEvaluator:
    """The ``BlockingEvaluator`` of the worker thread, which may block."""

    def __init__(self, work: LongWork) -> None:
        self._work = work

    def compiles_inline(self, size: int) -> bool:
        """By the size of each expression: the event loop can run between two of them."""
        return size <= MAX_INLINE_COMPILE_SIZE

    def compile(self, source: Source) -> Compiled:
        return self._sandbox.compile(source)

    def evaluate(self, task: Task) -> Evaluated:
        return self._sandbox.evaluate(task)

    @property
    def _sandbox(self) -> Evaluator:
        assert self._work.sandbox is not None, "a server with a worker has a sandbox"
        return self._work.sandbox
