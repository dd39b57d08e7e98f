"""Runs expensive work of one request in a worker thread, so that others are not delayed.

Whatever is computed of an object or a body grows with its size, by some ten milliseconds for every 32 kB. Larger ones
are decoded, filled in and validated by a worker, where there is one (``serving.worker_thread``); a server in virtual
time has none, and computes everything where it stands.
"""

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

from pilothouse.apiserver import errors
from pilothouse.cel.limits import (
    COMPILED_AT_ONCE,
    Compiled,
    Evaluated,
    Evaluator,
    OnLoop,
    Source,
    Task,
    WouldBlock,
    elsewhere,
)

P = ParamSpec("P")
T = TypeVar("T")

LONG_BYTES = 32 * 1024


class Worker(Protocol):
    """Computes off the event loop."""

    @property
    def is_full(self) -> bool:
        """Whether it takes nothing more for now."""

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises."""


class LongWork:
    """Decides by size who computes."""

    def __init__(self) -> None:
        self.hire: Callable[[], Worker] | None = None
        """Starts the worker, when there is something to do for the first time."""
        self._worker: Worker | None = None
        self.hire_sandbox: Callable[[], Evaluator] | None = None
        """Makes what evaluates expressions that may take long, when there is one for the first time."""
        self._sandbox: Evaluator | None = None

    @property
    def sandbox(self) -> Evaluator | None:
        """What evaluates expressions that may take long; None in virtual time."""
        if self._sandbox is None and self.hire_sandbox is not None:
            self._sandbox = self.hire_sandbox()
        return self._sandbox

    async def run(self, size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises. It must only touch what belongs to its caller; ``size`` is how many
        bytes of JSON it is about. It is called once more, by the worker, when an expression turns out to take long.
        Raises 429 when too many wait."""
        if self.hire is None:
            return function(*args, **kwargs)
        if size < LONG_BYTES:
            token = elsewhere.set(OnLoop())
            try:
                return function(*args, **kwargs)
            except WouldBlock:
                pass
            finally:
                elsewhere.reset(token)
        if self._worker is None:
            self._worker = self.hire()
        if self._worker.is_full:
            raise errors.too_many_requests("too many large requests, please try again later")
        token = elsewhere.set(_InWorker(self))
        try:
            return await self._worker.run(function, *args, **kwargs)
        finally:
            elsewhere.reset(token)


class _InWorker:
    """``Elsewhere`` for the worker, who may wait."""

    def __init__(self, work: LongWork) -> None:
        self._work = work

    def compiles_here(self, size: int) -> bool:
        """Each by itself: the loop gets its turn between them."""
        return size <= COMPILED_AT_ONCE

    def compile(self, source: Source) -> Compiled:
        return self._sandbox.compile(source)

    def evaluate(self, task: Task) -> Evaluated:
        return self._sandbox.evaluate(task)

    @property
    def _sandbox(self) -> Evaluator:
        assert self._work.sandbox is not None, "where there is a worker there is one"
        return self._work.sandbox
