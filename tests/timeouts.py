"""The timeout of each test, held by one thread of the session: pytest-timeout starts and joins one for every test."""

import threading
import time
from typing import Any

import pytest
import pytest_timeout

_CHECK_SECONDS = 1.0


class _Watch:
    """Looks every second whether the running test's time is up."""

    def __init__(self) -> None:
        self._running: tuple[float, pytest.Item, Any] | None = None
        self._thread: threading.Thread | None = None

    def start(self, item: pytest.Item, settings: Any) -> None:
        self._running = time.monotonic() + settings.timeout, item, settings
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="timeout of tests", daemon=True)
            self._thread.start()

    def cancel(self) -> None:
        self._running = None

    def _watch(self) -> None:
        while True:
            time.sleep(_CHECK_SECONDS)
            running = self._running
            if running is not None and running[0] <= time.monotonic():
                # Shows the stacks of all threads and ends the process.
                pytest_timeout.timeout_timer(running[1], running[2])


_WATCH = _Watch()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Begin to count; leave other methods than threads to pytest-timeout."""
    if settings.method != "thread":
        return None
    _WATCH.start(item, settings)
    item.cancel_timeout = _WATCH.cancel  # type: ignore[attr-defined]  # what pytest-timeout calls in the end
    return True
