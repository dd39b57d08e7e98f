"""A signal that arrives more than once.

``timeout`` of coreutils sends SIGTERM to the process, and then to its group. A terminal sends Ctrl-C to all processes,
and programs that start others, such as npm, pass it on. A second signal, by which a user insists, comes later.
"""

import time

_REPEATED_SECONDS = 0.5


class FirstSignal:
    """Create it when the first signal arrives."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._received_at = time.monotonic()

    def is_repeated(self) -> bool:
        """Whether a signal that arrives now is the first one again, and not a second one."""
        return time.monotonic() - self._received_at < _REPEATED_SECONDS
