"""Virtual time, its speed: 100 idle nodes with heartbeats and leader election; a week without nodes and election.

In this process, on the virtual loop. Seconds are CPU time: nothing waits, so on an idle machine CPU time is wall
time.
"""

import asyncio
import time

from bench.report import Figure, figure
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

ROUNDS = 5
WEEK = 7 * 86400.0
_SETTLE_SECONDS = 60.0


def pass_time(seconds: float, *, nodes: int, election: bool) -> float:
    """Processor seconds that these virtual seconds take."""

    async def main(env: Env) -> float:
        manager = Options(leader_election=LeaderElection(enabled=election))
        plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=nodes, manager=manager))
        async with TaskGroup("bench") as group:
            group.start(plane.run())
            await plane.wait_ready()
            await asyncio.sleep(_SETTLE_SECONDS)
            began = time.process_time()
            await asyncio.sleep(seconds)
            took = time.process_time() - began
            group.cancel()
        return took

    return virtual.run(main)


def figures() -> list[Figure]:
    """Both rows."""
    busy = [600 / pass_time(600, nodes=100, election=True) for _ in range(ROUNDS)]
    week = [pass_time(WEEK, nodes=0, election=False) for _ in range(ROUNDS)]
    return [
        figure(
            "virtual time: 100 nodes and election, idle", "s per s", busy, budget=300, aim=1000, more_is_better=True
        ),
        figure("virtual time: a week without nodes and election", "s", week, budget=10, aim=2),
    ]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
