"""Alarms that share timers of the loop."""

import asyncio

from pilothouse.apiserver.alarms import Alarms
from pilothouse.env import Env
from pilothouse.env.virtual import VirtualLoop


class AlarmListener:
    """Records when it was woken."""

    def __init__(self, name: str, woken: list[tuple[float, str]]) -> None:
        self.name = name
        self._woken = woken

    def on_alarm(self, now: float) -> None:
        assert now == asyncio.get_running_loop().time()
        self._woken.append((now, self.name))


def timers() -> int:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return sum(1 for _at, _number, timer in loop._timers if not timer.cancelled())


async def test_alarms_of_one_instant_share_a_timer_in_order(env: Env) -> None:
    woken: list[tuple[float, str]] = []
    alarms, before = Alarms(), timers()
    for name, at in (("a", 2.0), ("b", 1.0), ("c", 2.0), ("d", 2.0)):
        alarms.set(at, AlarmListener(name, woken))
    assert timers() - before == 2
    await asyncio.sleep(3)
    assert woken == [(1.0, "b"), (2.0, "a"), (2.0, "c"), (2.0, "d")]


async def test_cancelled_alarm_does_not_fire_and_leaves_no_timer(env: Env) -> None:
    woken: list[tuple[float, str]] = []
    alarms, before = Alarms(), timers()
    first, second = AlarmListener("a", woken), AlarmListener("b", woken)
    alarms.set(1.0, first)
    alarms.set(1.0, second)
    alarms.cancel(1.0, first)
    alarms.cancel(1.0, first)
    await asyncio.sleep(2)
    alarms.cancel(1.0, second)
    assert woken == [(1.0, "b")]
    alarms.set(4.0, first)
    alarms.cancel(4.0, first)
    assert timers() == before
