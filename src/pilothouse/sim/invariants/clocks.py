"""Recent values of a wall clock: a decision based on an earlier value may be written after a jump."""

import asyncio
import datetime

from pilothouse.env import Env
from pilothouse.env.virtual import VirtualClock


def recent(env: Env, within: float) -> list[datetime.datetime]:
    """The times that may have been read within the last seconds: the current one, the earliest, and one for each jump.

    Example: the clock was set back by a day ten seconds ago. A time that was read a minute ago is then tomorrow.
    """
    clock = env.clock
    assert isinstance(clock, VirtualClock), "a simulation has a virtual clock"
    since = asyncio.get_running_loop().time() - within
    times = [clock.now()]
    for jumped_at, seconds in reversed(clock.jumps):
        if jumped_at < since:
            break
        times.append(times[-1] - datetime.timedelta(seconds=seconds))
    return [*times, times[-1] - datetime.timedelta(seconds=within)]


def latest(env: Env, within: float) -> datetime.datetime:
    """The latest of these."""
    return max(recent(env, within))
