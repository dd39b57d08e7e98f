"""SIGINT and SIGTERM of a command without an event loop: it ends with the results so far."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from pilothouse.env.signals import FirstSignal


class Interruption:
    """The first signal raises ``KeyboardInterrupt`` in the command and prints immediately what follows, a second one
    ends the process."""

    def __init__(self) -> None:
        self._first: FirstSignal | None = None
        self._raises = True

    @property
    def number(self) -> int:
        """The first signal; 0 without one."""
        return self._first.number if self._first else 0

    @property
    def name(self) -> str:
        """``SIGTERM``; empty without a signal."""
        return signal.Signals(self.number).name if self.number else ""

    @property
    def code(self) -> int:
        """The exit code after a signal."""
        return 128 + self.number

    def finish(self) -> None:
        """The results are being written, which takes little time: a first signal no longer raises."""
        self._raises = False

    def receive(self, number: int, _frame: object) -> None:
        """The handler of the signals."""
        if self._first is not None:
            if not self._first.is_repeated():
                os._exit(128 + number)
            return
        self._first = FirstSignal(number)
        with contextlib.suppress(OSError):  # not print: its lock may be held by what is interrupted
            os.write(2, f"\n{self.name}: the results so far are written; a second signal ends at once\n".encode())
        if self._raises:
            raise KeyboardInterrupt


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Handle the signals within the block, if it runs in the main thread. A SIGINT that is ignored remains ignored."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    old_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in old_handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, interruption.receive)
    try:
        yield interruption
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
