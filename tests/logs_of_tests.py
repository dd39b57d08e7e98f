"""Restores log handlers after each test: a program's ``main`` that runs in a test leaves a handler with a closed
stream, and every later log line would print an error about it."""

import logging
from collections.abc import Generator
from typing import Any

import pytest

from pilothouse.env.logging import set_verbosity


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """Restore handlers and verbosity."""
    logger = logging.getLogger("pilothouse")
    handlers, propagate = logger.handlers[:], logger.propagate
    try:
        return (yield)
    finally:
        if logger.handlers != handlers:
            logger.handlers[:], logger.propagate = handlers, propagate
            set_verbosity(0)
