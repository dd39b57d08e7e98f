"""A real loop whose clock can be advanced."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from pilothouse.env import Log
from pilothouse.env.logging import configure
from pilothouse.env.movable import MovableClock, MovableLoop


def run(main: Coroutine[Any, Any, None], clock: MovableClock) -> None:
    with asyncio.Runner(loop_factory=lambda: MovableLoop(clock)) as runner:
        runner.run(main)


def test_timers_fire_in_order_while_the_clock_is_advanced() -> None:
    clock = MovableClock()
    observed: list[tuple[str, int]] = []

    async def every(name: str, period: float) -> None:
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(period)
            passed = asyncio.get_running_loop().time() - began
            observed.append((name, 5 * round(passed / 5)))  # a busy machine adds real time

    async def main() -> None:
        tasks = [asyncio.create_task(every("a", 10)), asyncio.create_task(every("b", 25))]
        await asyncio.sleep(0)
        before, real = clock.now(), time.monotonic()
        await clock.advance(60)
        assert round((clock.now() - before).total_seconds()) == 60
        assert time.monotonic() - real < 5
        for task in tasks:
            task.cancel()

    run(main(), clock)
    due = [(name, at) for name, at in observed if at < 60]  # the timer of 60 only fires if real time has passed, too
    assert due == [("a", 10), ("a", 20), ("b", 25), ("a", 30), ("a", 40), ("b", 50), ("a", 50)] or due == [
        ("a", 10), ("a", 20), ("b", 25), ("a", 30), ("a", 40), ("a", 50), ("b", 50)
    ]  # fmt: skip


def test_real_time_continues_afterwards() -> None:
    clock = MovableClock()

    async def main() -> None:
        await clock.advance(3600)
        real = time.monotonic()
        await asyncio.sleep(0.05)
        assert time.monotonic() - real >= 0.04

    run(main(), clock)
    assert 3599 < clock.ahead <= 3600


def test_other_threads_are_served_while_advancing() -> None:
    clock = MovableClock()
    received: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(received.append, "hello")).start()
        while not received:
            await clock.advance(1)

    run(main(), clock)
    assert received == ["hello"]


def test_io_events_are_handled_before_timers() -> None:
    clock = MovableClock()
    order: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1, order.append, "timer")
        loop.call_soon_threadsafe(order.append, "thread")
        await clock.advance(2)

    run(main(), clock)
    assert order == ["thread", "timer"]


def test_cancelled_advance_stops() -> None:
    clock = MovableClock()

    async def main() -> None:
        moving = asyncio.create_task(clock.advance(100))
        asyncio.get_running_loop().call_later(10, moving.cancel)
        with pytest.raises(asyncio.CancelledError):
            await moving

    run(main(), clock)
    assert 9 < clock.ahead < 11


def test_invalid_advances_are_errors() -> None:
    clock = MovableClock()

    async def main() -> None:
        with pytest.raises(ValueError, match="can't be moved back"):
            await clock.advance(-1)
        with pytest.raises(RuntimeError, match="only the loop"):
            await MovableClock().advance(1)
        moving = asyncio.create_task(clock.advance(5))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already"):
            await clock.advance(1)
        await moving

    run(main(), clock)


def test_log_lines_use_the_advanced_clock() -> None:
    clock = MovableClock()
    stream = io.StringIO()
    configure(stream=stream, json_lines=True)

    async def main() -> None:
        Log("replicaset").info("Before")
        await clock.advance(3600)
        Log("replicaset").info("After")

    try:
        run(main(), clock)
        before, after = (json.loads(line)["ts"] for line in stream.getvalue().splitlines())
    finally:
        configure()
    assert 3600_000 <= after - before < 3700_000
