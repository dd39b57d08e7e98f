"""Warns, under ``run --dev``, when code of an operator blocks the event loop, for example with ``time.sleep``.

Until it returns nothing else runs: other syncs, watches, webhooks, the renewal of the Lease. No error shows that.
"""

import asyncio
import linecache
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from pilothouse.env import Log

LIMIT_SECONDS = 0.5
BEAT_SECONDS = 0.1
_DEBUGGERS = frozenset({"bdb.py", "pdb.py", "debugpy", "pydevd"})
"""A person who steps through the code blocks it, too."""
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


async def warn_when_blocked(folder: Path, log: Log) -> None:
    """Run until cancelled. Warns once for each line of the files in ``folder`` that blocks this loop, while it does."""
    clock = asyncio.get_running_loop().time
    detector = _Detector(folder, clock, log)
    threading.Thread(target=detector.watch, name="blocked loop", daemon=True).start()
    try:
        while True:
            detector.beat = clock()
            await asyncio.sleep(BEAT_SECONDS)
    finally:
        detector.ended.set()


class _Detector:
    """``watch`` runs in a thread of its own, because the loop's is the blocked one."""

    def __init__(self, folder: Path, clock: Callable[[], float], log: Log) -> None:
        self.beat = clock()
        """When the loop ran last."""
        self.ended = threading.Event()
        self._folder = folder
        self._clock = clock
        self._log = log
        self._loop_thread = threading.get_ident()
        self._reported: set[tuple[str, int]] = set()

    def watch(self) -> None:
        """Warn if two samples of the stack are at the same line: a process may also have had no processor time."""
        last: tuple[str, int] | None = None
        while not self.ended.wait(BEAT_SECONDS):
            frame = self._blocking_frame() if self._clock() - self.beat > LIMIT_SECONDS else None
            if frame is None:
                last = None
                continue
            place = (frame.f_code.co_filename, frame.f_lineno)
            if place == last and place not in self._reported:
                self._reported.add(place)
                self._warn(frame.f_code.co_name, *place)
            last = place

    def _blocking_frame(self) -> FrameType | None:
        """The innermost frame of the loop's thread that is of the operator's own code."""
        frame = sys._current_frames().get(self._loop_thread)
        while frame is not None:
            path = Path(frame.f_code.co_filename).resolve()
            if _DEBUGGERS.intersection(path.parts):
                return None
            # <frozen runpy>, at the bottom of the stack, would be a file of the working directory.
            has_file = not frame.f_code.co_filename.startswith("<")
            if has_file and path.is_relative_to(self._folder) and not _LIBRARIES.intersection(path.parts):
                return frame
            frame = frame.f_back
        return None

    def _warn(self, function: str, filename: str, line: int) -> None:
        self._log.warning(
            "The event loop is blocked: no other sync, watch or webhook runs meanwhile",
            at=f"{Path(filename).resolve().relative_to(self._folder)}:{line}",
            function=function,
            code=linecache.getline(filename, line).strip(),
            hint="await asyncio.sleep(…); for a library that blocks, await asyncio.to_thread(…)",
        )
