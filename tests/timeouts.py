"""Test timeouts with one thread for the session: pytest-timeout starts and joins one for every test."""

import threading
import time
from typing import Any

import pytest
import pytest_timeout

_CHECK_SECONDS = 1.0


class _TimeoutThread:
    """Checks every second whether the running test exceeds its timeout."""

    def __init__(self) -> None:
        self._running: tuple[float, pytest.Item, Any] | None = None
        self._thread: threading.Thread | None = None

    def start(self, item: pytest.Item, settings: Any) -> None:
        self._running = time.monotonic() + settings.timeout, item, settings
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="test timeouts", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        self._running = None

    def _run(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            running = self._running
            if running is not None and running[0] <= time.monotonic():
                # Prints the stacks of all threads and exits the process.
                pytest_timeout.timeout_timer(running[1], running[2])


_THREAD = _TimeoutThread()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Start the timeout; methods other than threads are left to pytest-timeout."""
    if settings.method != "thread":
        return None
    _THREAD.start(item, settings)
    item.cancel_timeout = _THREAD.cancel  # type: ignore[attr-defined]  # called by pytest-timeout after the test
    return True
