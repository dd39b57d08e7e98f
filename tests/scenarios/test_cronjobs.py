"""CronJobs under faults and over weeks: one Job per scheduled time, with restarts and clock changes."""

import asyncio
import datetime
import random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.scenarios.users import Doc, User

from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import Crash, FaultPlan, JumpClock
from pilothouse.sim.invariants.cronjobs import CronJobs

ALL = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
OPTIONS = SimulationOptions(controllers=("cronjob", "job", "garbagecollector"))
BARE = SimulationOptions(nodes=0, controllers=("cronjob",))
"""Jobs are not run."""
pytestmark = pytest.mark.simulation(options=BARE, seed=1, invariants=lambda: (CronJobs(),))
HOUR, DAY = 3600.0, 86400.0
UTC = datetime.UTC


def cron_job(schedule: str, name: str = "tick", run: str = "5s", **spec: Any) -> Doc:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    notes = {"simulated.pilothouse.dev/run-time": run}
    template = {"spec": {"template": {"metadata": {"annotations": notes}, "spec": pod}}}
    return {"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}


def invariant_of(simulation: Simulation) -> CronJobs:
    (invariant,) = simulation.invariants
    assert isinstance(invariant, CronJobs)
    return invariant


def scheduled_times(simulation: Simulation, name: str = "tick") -> list[datetime.datetime]:
    """The times at which Jobs were created."""
    return [datetime.datetime.fromisoformat(text) for text in invariant_of(simulation).moments.get(name, [])]


def set_clock(simulation: Simulation, to: str) -> None:
    """Set the clock to the beginning of the scenario."""
    clock: Any = simulation.env.clock
    clock.jump((datetime.datetime.fromisoformat(to) - simulation.env.now()).total_seconds())


def plan_of(rng: random.Random) -> FaultPlan:
    """Faults without clock jumps, since schedules follow the clock. Restarts with stale lists are tested separately."""
    plan = draw(rng, 600.0, count=10, resources=("cronjobs", "jobs"), restarts=True)
    return FaultPlan(
        tuple(
            replace(fault, stale=False) if isinstance(fault, Crash) else fault
            for fault in plan.faults
            if not isinstance(fault, JumpClock)
        )
    )


FORBID = pytest.param("Forbid", marks=pytest.mark.simulation(invariants=lambda: (CronJobs(forbid=True),)))


@pytest.mark.simulation(options=OPTIONS)
@pytest.mark.parametrize("policy", ["Allow", FORBID, "Replace"])
async def test_one_job_per_scheduled_time(simulation: Simulation, seed: int, policy: str) -> None:
    """Ten minutes of faults, a Job each minute; later on each minute brings its Job again."""
    user = User(simulation.user)
    spec: Doc = {"concurrencyPolicy": policy, "successfulJobsHistoryLimit": 2}
    await user.request("POST", ALL, cron_job("* * * * *", run="20s", **spec))
    await simulation.follow(plan_of(simulation.env.stream("plan")))
    simulation.end_faults()
    await asyncio.sleep(180.0)
    before = len(scheduled_times(simulation))
    await asyncio.sleep(5 * 60.0)
    assert len(scheduled_times(simulation)) == before + 5
    await user.merge(f"{ALL}/tick", {"spec": {"suspend": True}})
    await simulation.run_until_idle()
    assert len(await user.items(JOBS)) == 2
