"""What a wall clock has said lately: who decides by it may write after it has jumped."""

import asyncio
import datetime

from pilothouse.env import Env
from pilothouse.env.virtual import VirtualClock


def latest(env: Env, within: float) -> datetime.datetime:
    """The latest time that anybody can have read in these last seconds.

    Say the clock was set back by a day ten seconds ago: for whoever read it a minute ago it is tomorrow.
    """
    clock = env.clock
    assert isinstance(clock, VirtualClock), "a simulation has a virtual clock"
    since = asyncio.get_running_loop().time() - within
    ahead = furthest = 0.0
    for at, seconds in reversed(clock.jumps):
        if at < since:
            break
        ahead -= seconds
        furthest = max(furthest, ahead)
    return clock.now() + datetime.timedelta(seconds=furthest)
