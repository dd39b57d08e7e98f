"""Virtual time, its speed: idle nodes with heartbeats and leader election; a week without them; 50 CronJobs.

In this process, on the virtual loop. Seconds are CPU time: nothing waits, so on an idle machine CPU time is wall
time.
"""

import asyncio
import time
from typing import Any

from bench.report import Figure, figure
from pilothouse.api.batch import CRON_JOBS
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

ROUNDS = 5
HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
_CRON_JOBS = 50
_CRON_NODES = 3
_SETTLE_SECONDS = 60.0


def cron_job(name: str) -> dict[str, Any]:
    """One that runs a container for a few seconds, every five minutes."""
    container = {"name": "main", "image": "app:v1", "command": ["sleep", "5"]}
    pod = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    spec = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": pod}}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def pass_time(seconds: float, *, nodes: int, election: bool, cron_jobs: int = 0) -> float:
    """Processor seconds that these virtual seconds take."""

    async def main(env: Env) -> float:
        manager = Options(leader_election=LeaderElection(enabled=election))
        plane = Plane(env, MemoryStore(env), PlaneOptions(nodes=nodes, manager=manager))
        async with TaskGroup("bench") as group:
            group.start(plane.run())
            await plane.wait_ready()
            client = plane.client()
            for number in range(cron_jobs):
                await client.create(CRON_JOBS.raw, cron_job(f"job-{number}"), "default")
            await asyncio.sleep(_SETTLE_SECONDS)
            began = time.process_time()
            await asyncio.sleep(seconds)
            took = time.process_time() - began
            group.cancel()
        return took

    return virtual.run(main)


def figures() -> list[Figure]:
    """One row each."""
    busy = [600 / pass_time(600, nodes=100, election=True) for _ in range(ROUNDS)]
    week = [pass_time(WEEK, nodes=0, election=False) for _ in range(ROUNDS)]
    one_node = [pass_time(DAY, nodes=1, election=True) for _ in range(ROUNDS)]
    jobs = [pass_time(HOUR, nodes=_CRON_NODES, election=False, cron_jobs=_CRON_JOBS) for _ in range(ROUNDS)]
    return [
        figure(
            "virtual time: 100 nodes and election, idle", "s per s", busy, budget=300, aim=2000, more_is_better=True
        ),
        figure("virtual time: a day with one node and election", "s", one_node, budget=5, aim=2),
        figure("virtual time: a week without nodes and election", "s", week, budget=10, aim=2),
        figure(f"virtual time: an hour of {_CRON_JOBS} CronJobs every five minutes", "s", jobs),
    ]


if __name__ == "__main__":
    from bench.report import table

    print(table(figures()))
