"""The real event loop: uvloop if it is available, else asyncio's."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end on the real loop."""
    try:
        new_loop = uvloop.new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
