"""``repeat``: calls a function periodically, without a task."""

import asyncio
from collections.abc import Callable

from pilothouse.env.environment import Env


def _always() -> bool:
    return True


async def repeat(env: Env, seconds: float, act: Callable[[], object], *, at_rest: Callable[[], bool] = _always) -> None:
    """Call ``act`` in a timer at this interval in seconds, the first time after that interval; no task is woken. Ends
    by cancellation, or with an exception of ``act``.

    ``at_rest`` returns whether ``act`` would wake nobody (``Env.mark_pass``).
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle

    def due() -> None:
        if ended.done():
            return
        try:
            act()
        except Exception as error:  # noqa: BLE001  # it is raised where the calls are awaited
            ended.set_exception(error)
        else:
            wait()

    def leap() -> bool:
        if not at_rest():
            return False
        due()
        return not ended.done()

    def wait() -> None:
        nonlocal timer
        timer = loop.call_later(seconds, due)
        env.mark_pass(timer, leap)

    wait()
    try:
        await ended
    finally:
        timer.cancel()
