"""Prints the progress of a search, or of a long command, to standard error: one updated line on a terminal, otherwise a
line every half minute."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from pilothouse.env.clock import stopwatch_seconds
from pilothouse.simulate.result import Result
from pilothouse.simulate.scenario.scalars import shown_seconds
from pilothouse.testing.shrinking import FailedRun

_TERMINAL_SECONDS = 0.5
_FILE_SECONDS = 30.0
_FIRST_SECONDS = 3.0
"""A command that ends earlier prints no progress."""
_ERASE = "\r\x1b[K"


@contextlib.contextmanager
def phases(stream: TextIO) -> Iterator[Callable[[str, Callable[[], float]], None]]:
    """Print the progress of the block after some seconds. The block calls the result with the name of each phase and a
    function that returns the current virtual time.

    A thread prints, because the block does not yield in real time.
    """
    phase: tuple[str, Callable[[], float]] = ("", lambda: 0.0)
    ended, started_at = threading.Event(), stopwatch_seconds()

    def begin(phase_name: str, virtual_seconds: Callable[[], float]) -> None:
        nonlocal phase
        phase = phase_name, virtual_seconds

    def show() -> None:
        is_terminal, wait = stream.isatty(), _FIRST_SECONDS
        while not ended.wait(wait):
            wait = _TERMINAL_SECONDS if is_terminal else _FILE_SECONDS
            phase_name, virtual_seconds = phase
            if phase_name:
                line = f"{phase_name}: {_times(virtual_seconds(), stopwatch_seconds() - started_at)}"
                stream.write(f"{_ERASE}{line[:118]}" if is_terminal else f"{line}\n")
                stream.flush()
        if is_terminal and stopwatch_seconds() - started_at >= _FIRST_SECONDS:
            stream.write(_ERASE)
            stream.flush()

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield begin
    finally:
        ended.set()
        thread.join()


def _times(virtual: float, elapsed: float) -> str:
    rate = f"{virtual / elapsed:,.0f}x real time" if elapsed > 0 else "?"
    return f"{shown_seconds(round(virtual))} of virtual time in {shown_seconds(round(elapsed))} ({rate})"


class Progress:
    """Prints progress to a stream."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream = stream
        self._total = total
        self._is_terminal = stream.isatty()
        self._started_at = self._last = stopwatch_seconds()
        self._runs = self._failed = 0
        self._virtual = 0.0
        self._shrinking: FailedRun[int, Result] | None = None
        self._shown = False

    def finished(self, result: Result) -> None:
        """A run has finished."""
        self._runs += 1
        self._failed += result.failure is not None
        self._virtual += result.seconds
        self._show([])

    def shrinking(self, failed: "FailedRun[int, Result]") -> None:
        """A failed run is being shrunk."""
        self._shrinking = failed
        self._show([])

    def tick(self, running: Sequence[float]) -> None:
        """Update the output; ``running`` has the virtual time of each current run."""
        self._show(running)

    def _show(self, running: Sequence[float]) -> None:
        now = stopwatch_seconds()
        if now - self._last < (_TERMINAL_SECONDS if self._is_terminal else _FILE_SECONDS):
            return
        self._last = now
        line = self.line(now - self._started_at, running)
        self._stream.write(f"{_ERASE}{line[:118]}" if self._is_terminal else f"{line}\n")
        self._stream.flush()
        self._shown = True

    def line(self, elapsed: float, running: Sequence[float]) -> str:
        """The line after ``elapsed`` real seconds."""
        if self._shrinking is not None:
            failed = self._shrinking
            at = f", the run is at {shown_seconds(round(running[0]))}" if running else ""
            smallest = f"{len(failed.parts)} of {len(failed.all_parts)} actions and faults"
            return f"seed {failed.result.seed} is being shrunk: {smallest} after {failed.runs} runs{at}"
        virtual = self._virtual + sum(running)
        times = _times(virtual, elapsed)
        if self._total == 1:
            return times
        failed_runs = f", {self._failed:,} failed" if self._failed else ""
        left = ""
        if self._runs and self._runs < self._total:
            left = f", about {shown_seconds(round(elapsed / self._runs * (self._total - self._runs)))} left"
        return f"{self._runs:,} of {self._total:,} runs{failed_runs}, {times}{left}"

    def close(self) -> None:
        """Remove the line."""
        if self._shown and self._is_terminal:
            self._stream.write(_ERASE)
            self._stream.flush()
