"""The log is after each test what it was before: a program's ``main`` that runs in a test leaves it on a stream that is
closed by then, and whatever still runs in this process would complain of that with every line."""

import logging
from collections.abc import Generator
from typing import Any

import pytest

from pilothouse.env.logging import set_verbosity


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Put back the handlers that were there."""
    logger = logging.getLogger("pilothouse")
    handlers, propagate = logger.handlers[:], logger.propagate
    try:
        return (yield)
    finally:
        if logger.handlers != handlers:
            logger.handlers[:], logger.propagate = handlers, propagate
            set_verbosity(0)
