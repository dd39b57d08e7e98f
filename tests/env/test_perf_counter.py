"""The clock for measuring durations."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from tests.tables import cases

from pilothouse.env import Env, loops
from pilothouse.env.environment import perf_counter_of
from pilothouse.env.movable import MovableClock, MovableLoop


async def within_a_turn() -> list[float]:
    """Repeated readings within one iteration of the loop."""
    env = Env()
    return [env.perf_counter() for _ in range(10_000)]


@cases(
    "run_real",
    {
        "uvloop, whose time is cached per iteration": loops.run,
        "asyncio's own loop": asyncio.run,
    },
)
def test_advances_during_work_on_a_real_loop(
    run_real: Callable[[Coroutine[Any, Any, list[float]]], list[float]],
) -> None:
    timestamps = run_real(within_a_turn())
    assert timestamps == sorted(timestamps)
    assert 0 < timestamps[-1] - timestamps[0] < 1
    assert min(after - before for before, after in itertools.pairwise(timestamps) if after > before) < 1e-4


async def test_work_takes_no_virtual_time(env: Env) -> None:
    before = env.perf_counter()
    for _ in range(1000):
        await asyncio.sleep(0)
    same_turn = env.perf_counter()
    await asyncio.sleep(3)
    assert (same_turn - before, env.perf_counter() - before) == (0.0, 3.0)


def test_follows_an_advanced_clock() -> None:
    clock = MovableClock()

    async def main() -> float:
        now = perf_counter_of(asyncio.get_running_loop())
        before = now()
        await clock.advance(100)
        return now() - before

    with asyncio.Runner(loop_factory=lambda: MovableLoop(clock)) as runner:
        assert 100 <= runner.run(main()) < 110
