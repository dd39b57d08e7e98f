"""The virtual loop: time jumps, order is chosen, being stuck is an error."""

import asyncio
import datetime

import pytest

from pilothouse.env import Env
from pilothouse.env.virtual import START, Stuck, VirtualClock, run


def test_sleep_takes_no_time_and_moves_the_clock() -> None:
    async def main(env: Env) -> tuple[float, datetime.datetime]:
        await asyncio.sleep(86_400)
        return env.monotonic(), env.now()

    assert run(main) == (86_400.0, START + datetime.timedelta(days=1))


def test_equal_deadlines_keep_the_order_in_which_they_were_set() -> None:
    async def main(_env: Env) -> list[int]:
        seen: list[int] = []

        async def note(number: int) -> None:
            await asyncio.sleep(5)
            seen.append(number)

        await asyncio.gather(*(note(n) for n in range(50)))
        return seen

    assert run(main) == list(range(50))


def test_a_program_that_can_never_go_on_is_an_error_that_names_its_tasks() -> None:
    async def main(_env: Env) -> None:
        await asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="waits for nobody")

    with pytest.raises(Stuck, match="waits for nobody"):
        run(main)


def test_a_timeout_fires_at_its_instant() -> None:
    async def main(env: Env) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.sleep(10)
        return env.monotonic()

    assert run(main) == 3.0


def test_the_wall_clock_jumps_without_loop_time_noticing() -> None:
    async def main(env: Env) -> tuple[float, float]:
        assert isinstance(env.clock, VirtualClock)
        before = env.now()
        env.clock.jump(-3600)
        return env.monotonic(), (env.now() - before).total_seconds()

    assert run(main) == (0.0, -3600.0)


def test_an_exception_nobody_looked_at_stops_the_run() -> None:
    async def main(_env: Env) -> None:
        def boom() -> None:
            raise ValueError("in a callback")

        asyncio.get_running_loop().call_later(1, boom)
        await asyncio.sleep(10)

    with pytest.raises(ValueError, match="in a callback"):
        run(main)


def test_threads_are_refused() -> None:
    async def main(_env: Env) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main)


def test_tasks_left_behind_are_cancelled_and_may_clean_up() -> None:
    seen: list[str] = []

    async def main(_env: Env) -> str:
        async def forgotten() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(1)
                seen.append("cleaned up")

        task = asyncio.get_running_loop().create_task(forgotten())
        await asyncio.sleep(1)
        return task.get_name()

    run(main)
    assert seen == ["cleaned up"]


def test_the_same_seed_gives_the_same_uids_and_streams_do_not_disturb_each_other() -> None:
    async def uids(env: Env) -> list[str]:
        return [env.uid() for _ in range(3)]

    async def uids_with_jitter(env: Env) -> list[str]:
        env.stream("jitter").random()
        return [env.uid() for _ in range(3)]

    assert run(uids, seed=7) == run(uids_with_jitter, seed=7)
    assert run(uids, seed=7) != run(uids, seed=8)


def test_many_cancelled_timers_do_not_pile_up() -> None:
    async def main(_env: Env) -> int:
        loop = asyncio.get_running_loop()
        for _ in range(10_000):
            loop.call_later(1000, print).cancel()
        return len(loop._timers)  # type: ignore[attr-defined]

    assert run(main) < 2_100
