"""The virtual loop: time jumps, deterministic order, deadlock detection."""

import asyncio
import datetime
import inspect
import io
import json

import pytest

from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.logging import configure
from pilothouse.env.periodic import repeat
from pilothouse.env.virtual import START, Stuck, VirtualClock, VirtualLoop, run


async def test_sleep_advances_the_virtual_clock(env: Env) -> None:
    await asyncio.sleep(86_400)
    assert (env.monotonic(), env.now()) == (86_400.0, START + datetime.timedelta(days=1))


async def test_equal_deadlines_fire_in_creation_order() -> None:
    observed: list[int] = []

    async def note(number: int) -> None:
        await asyncio.sleep(5)
        observed.append(number)

    await asyncio.gather(*(note(n) for n in range(50)))
    assert observed == list(range(50))


def test_deadlock_is_an_error_naming_the_tasks() -> None:
    async def main(_env: Env) -> None:
        await asyncio.get_running_loop().create_task(asyncio.Event().wait(), name="waits for nobody")

    with pytest.raises(Stuck, match="waits for nobody"):
        run(main)


def test_what_is_not_a_function_of_an_env_is_an_error() -> None:
    async def main(_env: object = None) -> None: ...

    def plain(_env: Env) -> None: ...

    coroutine = main()
    with pytest.raises(TypeError, match=r"^run takes an async function of an Env, got a coroutine: write run\(main\)$"):
        run(coroutine)  # type: ignore[arg-type]  # that is the point
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    with pytest.raises(TypeError, match=r"^run takes an async function of an Env, and \S*plain returned NoneType$"):
        run(plain)  # type: ignore[arg-type]


async def test_timeout_fires_at_its_deadline(env: Env) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await asyncio.sleep(10)
    assert env.monotonic() == 3.0


async def test_overdue_timers_run_in_order_after_a_stall(env: Env) -> None:
    ran: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)

    def note(name: str) -> None:
        ran.append((name, env.monotonic()))

    for name, delay in (("second", 2.0), ("first", 1.0), ("third", 12.0)):
        loop.call_later(delay, note, name)
    loop.stall(10.0)
    stalled = env.monotonic()
    await asyncio.sleep(5.0)
    assert (stalled, ran) == (10.0, [("first", 10.0), ("second", 10.0), ("third", 12.0)])


async def test_wall_clock_jump_does_not_change_loop_time(env: Env) -> None:
    assert isinstance(env.clock, VirtualClock)
    before = env.now()
    env.clock.jump(-3600)
    assert (env.monotonic(), (env.now() - before).total_seconds()) == (0.0, -3600.0)


def test_unretrieved_exception_stops_the_run() -> None:
    async def main(_env: Env) -> None:
        def boom() -> None:
            raise ValueError("in a callback")

        asyncio.get_running_loop().call_later(1, boom)
        await asyncio.sleep(10)

    with pytest.raises(ValueError, match="in a callback"):
        run(main)


async def test_threads_are_rejected() -> None:
    with pytest.raises(RuntimeError, match=r"no threads on the virtual loop, for asyncio\.to_thread .* by coroutines"):
        await asyncio.to_thread(print)


def test_remaining_tasks_are_cancelled_and_clean_up() -> None:
    observed: list[str] = []

    async def main(_env: Env) -> str:
        async def forgotten() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(1)
                observed.append("cleaned up")

        task = asyncio.get_running_loop().create_task(forgotten())
        await asyncio.sleep(1)
        return task.get_name()

    run(main)
    assert observed == ["cleaned up"]


def test_seed_determines_uids_and_independent_streams() -> None:
    async def uids(env: Env) -> list[str]:
        return [env.uid() for _ in range(3)]

    async def uids_with_jitter(env: Env) -> list[str]:
        env.stream("jitter").random()
        return [env.uid() for _ in range(3)]

    assert run(uids, seed=7) == run(uids_with_jitter, seed=7)
    assert run(uids, seed=7) != run(uids, seed=8)


async def test_cancelled_timers_are_removed() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    for _ in range(10_000):
        loop.call_later(1000, print).cancel()
    assert len(loop._timers) < 2_100


async def test_cancelled_handles_do_not_run() -> None:
    loop = asyncio.get_running_loop()
    ran: list[str] = []
    for number in range(2):
        soon, later = loop.call_soon(ran.append, f"soon {number}"), loop.call_later(1, ran.append, f"later {number}")
        assert later.when() == 1.0
        if number:
            soon.cancel()
            later.cancel()
        assert soon.cancelled() is later.cancelled() is bool(number)
    due = loop.call_later(1, ran.append, "due")
    loop.call_at(1, due.cancel)
    loop.call_later(1, lambda: loop.call_soon(ran.append, "the end"))
    await asyncio.sleep(2)
    assert ran == ["soon 0", "later 0", "due", "the end"]


def test_exception_in_a_callback_stops_the_run() -> None:
    async def main(_env: Env) -> None:
        asyncio.get_running_loop().call_later(1, int, "x")
        await asyncio.sleep(2)

    with pytest.raises(ValueError, match="invalid literal"):
        run(main)


def test_log_lines_have_virtual_time() -> None:
    stream = io.StringIO()
    configure(stream=stream)

    async def main(env: Env) -> None:
        log = Log("replicaset")
        log.info("Began")
        await asyncio.sleep(90061.5)
        log.info("Finished syncing")
        configure(stream=stream, json_lines=True)
        log.info("Again")

    try:
        run(main)
        began, finished, again = stream.getvalue().splitlines()
    finally:
        configure()
    # The same in every time zone: times in events are UTC.
    assert began.startswith("I0101 00:00:00.000000 ")
    assert finished.startswith("I0102 01:01:01.500000 ")
    assert json.loads(again)["ts"] == datetime.datetime(2026, 1, 2, 1, 1, 1, 500000, datetime.UTC).timestamp() * 1000


async def test_idle_pass_does_not_prevent_a_leap(env: Env) -> None:
    loop = asyncio.get_running_loop()
    ran: list[object] = []
    at_rest = True

    def leap() -> bool:
        if at_rest:
            ran.append("leap")
        return at_rest

    def set_pass(at: float) -> None:
        env.mark_pass(loop.call_at(at, ran.append, "woken"), leap)

    for at in (1.0, 2.0):
        loop.call_at(at, lambda: ran.append(env.is_alone()))
        set_pass(at)
    await asyncio.sleep(1.5)
    assert ran == ["leap", True], "it is made before what the caller writes, and once"
    at_rest = False
    await asyncio.sleep(1.0)
    assert ran == ["leap", True, False, "woken"]


async def test_renewals_of_one_instant_run_before_their_consequences(env: Env) -> None:
    loop = asyncio.get_running_loop()
    ran: list[object] = []
    others_renew = True

    def renew(number: int) -> None:
        ran.append((number, env.is_alone()))
        loop.call_soon(ran.append, f"follows {number}")
        env.mark_what_follows()

    for number in (1, 2):
        env.mark_renewal(loop.call_at(1.0, renew, number), lambda: others_renew)
    await asyncio.sleep(1.5)
    assert ran == [(1, True), (2, True), "follows 1", "follows 2"]

    ran.clear()
    others_renew = False
    for number in (1, 2):
        env.mark_renewal(loop.call_at(2.0, renew, number), lambda: others_renew)
    await asyncio.sleep(1.0)
    assert ran[0] == (1, False), "the other one is going to do more than that"


async def test_pass_before_a_renewal_runs_alone(env: Env) -> None:
    loop = asyncio.get_running_loop()
    ran: list[bool] = []
    loop.call_at(1.0, lambda: ran.extend((env.is_reading_alone(), env.is_alone())))
    env.mark_renewal(loop.call_at(1.0, lambda: None), lambda: False)
    loop.call_at(2.0, lambda: ran.append(env.is_reading_alone()))
    loop.call_at(2.0, lambda: None)
    await asyncio.sleep(3.0)
    assert ran == [True, False, False]


def test_nothing_runs_alone_without_leaps() -> None:
    async def main(env: Env) -> tuple[bool, bool]:
        return env.is_alone(), env.is_reading_alone()

    assert run(main) == (True, True)
    assert run(main, leaps=False) == (False, False)


async def test_repeat_runs_in_the_timer_and_ends_with_an_exception(env: Env) -> None:
    at: list[float] = []

    def act() -> None:
        at.append(env.monotonic())
        if len(at) == 3:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        await repeat(env, 30.0, act)
    assert at == [30.0, 60.0, 90.0]
    await asyncio.sleep(60.0)
    assert len(at) == 3


@pytest.mark.parametrize("in_group", [True, False])
def test_ctrl_c_ends_the_run_after_its_tasks_have_cleaned_up(in_group: bool) -> None:
    """It leaves through every task that passes it on, and each is waited for."""
    cleaned: list[str] = []

    async def waits(name: str) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            cleaned.append(name)

    async def interrupted() -> None:
        await asyncio.sleep(1)
        raise KeyboardInterrupt

    async def main(_env: Env) -> None:
        other = asyncio.ensure_future(waits("outside"))
        if in_group:
            async with TaskGroup("group") as group:
                group.start(waits("inside"), name="waits")
                group.start(interrupted(), name="interrupted")
        await asyncio.gather(other, interrupted())

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert sorted(cleaned) == (["inside", "outside"] if in_group else ["outside"])
