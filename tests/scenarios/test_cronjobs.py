"""CronJobs under faults and over weeks: a moment brings one Job, whoever is restarted, whatever clocks are set to."""

import asyncio
import datetime
import random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace
from tests.scenarios.users import NAMESPACE, Doc, User
from tests.tables import cases

from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import Crash, FaultPlan, JumpClock
from pilothouse.sim.invariants.cronjobs import CronJobs

ALL = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
OPTIONS = SimulationOptions(controllers=("cronjob", "job", "garbagecollector"))
BARE = SimulationOptions(nodes=0, controllers=("cronjob",))
"""Jobs stay as they are made: nobody runs them."""
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


def instants(simulation: Simulation, name: str = "tick") -> list[datetime.datetime]:
    """The moments that brought a Job."""
    return [datetime.datetime.fromisoformat(text) for text in invariant_of(simulation).moments.get(name, [])]


def set_clock(simulation: Simulation, to: str) -> None:
    """The scenario begins then."""
    clock: Any = simulation.env.clock
    clock.jump((datetime.datetime.fromisoformat(to) - simulation.env.now()).total_seconds())


def plan_of(chance: random.Random) -> FaultPlan:
    """No clock jumps: moments are of the clock. A process that starts with old lists is left to the named scenarios."""
    plan = draw(chance, 600.0, count=10, resources=("cronjobs", "jobs"), restarts=True)
    return FaultPlan(
        tuple(
            replace(each, stale=False) if isinstance(each, Crash) else each
            for each in plan.faults
            if not isinstance(each, JumpClock)
        )
    )


FORBID = pytest.param("Forbid", marks=pytest.mark.simulation(invariants=lambda: (CronJobs(forbid=True),)))


@pytest.mark.simulation(options=OPTIONS)
@pytest.mark.parametrize("policy", ["Allow", FORBID, "Replace"])
async def test_no_moment_brings_two_jobs(simulation: Simulation, seed: int, policy: str) -> None:
    """Ten minutes of faults, a Job each minute; later on each minute brings its Job again."""
    user = User(simulation.user)
    spec: Doc = {"concurrencyPolicy": policy, "successfulJobsHistoryLimit": 2}
    await user.ask("POST", ALL, cron_job("* * * * *", run="20s", **spec))
    await simulation.follow(plan_of(simulation.env.stream("plan")))
    simulation.heal()
    await asyncio.sleep(180.0)
    before = len(instants(simulation))
    await asyncio.sleep(5 * 60.0)
    assert len(instants(simulation)) == before + 5
    await user.merge(f"{ALL}/tick", {"spec": {"suspend": True}})
    await simulation.settle()
    assert len(await user.items(JOBS)) == 2


# Named bugs


@cases(
    "schedule, moments, days",
    {
        "three times on working days": ("30 6-16/4 * * 1-5", ["06:30", "10:30", "14:30"], (5, 6, 7, 8, 9, 12)),
        "on a day that never comes": ("59 23 31 2 *", [], ()),
    },
)
async def test_118706_an_irregular_schedule_is_waited_for(
    simulation: Simulation, schedule: str, moments: list[str], days: tuple[int, ...]
) -> None:
    """kubernetes#118706: the next look was worked out as if moments were evenly spaced, lay in the past, and came at
    once, again and again. In virtual time that would never end."""
    user = User(simulation.user)
    set_clock(simulation, "2026-01-05T00:00:00+00:00")  # a Monday
    await user.ask("POST", ALL, cron_job(schedule))
    # Over a weekend, to the end of the next Monday.
    await asyncio.sleep((8 if days else 3) * DAY)
    wanted = [f"2026-01-{day:02} {moment}" for day in days for moment in moments]
    assert [f"{each:%Y-%m-%d %H:%M}" for each in instants(simulation)] == wanted


async def test_104012_every_so_often_counts_from_the_beginning_and_does_not_drift(simulation: Simulation) -> None:
    """kubernetes#104012: with ``@every`` the first moment lay before the CronJob, and restarts moved those to come."""
    user = User(simulation.user)
    await asyncio.sleep(17 * 60.0 + 3)
    made = await user.ask("POST", ALL, cron_job("@every 5h"))
    began = datetime.datetime.fromisoformat(made["metadata"]["creationTimestamp"])
    for _ in range(24):
        await asyncio.sleep(2 * HOUR)
        simulation.kill(down=300.0)
    found = instants(simulation)
    assert found == [began + datetime.timedelta(hours=5 * number) for number in range(1, len(found) + 1)]
    assert len(found) == 9


@pytest.mark.simulation(options=OPTIONS)
@pytest.mark.parametrize("policy", ["Allow", FORBID])
async def test_42649_however_many_moments_were_missed_it_goes_on(simulation: Simulation, policy: str) -> None:
    """kubernetes#42649: after more than a hundred missed moments it never ran again. The last one is made up for."""
    user = User(simulation.user)
    await user.ask("POST", ALL, cron_job("* * * * *", concurrencyPolicy=policy))
    await asyncio.sleep(150.0)
    before = instants(simulation)
    assert len(before) == 2
    simulation.kill(down=200 * 60.0)
    await asyncio.sleep(200 * 60.0 + 30)
    after = instants(simulation)[2:]
    assert len(after) == 1
    assert after[0] > before[-1] + datetime.timedelta(minutes=199)
    events = await user.items(f"{NAMESPACE}/events")
    assert any(each["reason"] == "TooManyMissedTimes" for each in events)
    await asyncio.sleep(10 * 60.0)
    assert len(instants(simulation)) == 13


@pytest.mark.parametrize(
    ("start", "sunday"), [("2026-03-27T12:00:00+00:00", "2026-03-29"), ("2026-10-23T12:00:00+00:00", "2026-10-25")]
)
async def test_121763_no_burst_when_clocks_are_set_and_none_left_out(
    simulation: Simulation, start: str, sunday: str
) -> None:
    """kubernetes#121763, #86647: all Jobs were started at once when the clocks were set, or those with a short deadline
    were left out. Also when the manager is restarted in that very hour."""
    user = User(simulation.user)
    zone = ZoneInfo("Europe/Rome")
    set_clock(simulation, start)
    hours = range(0, 24, 3)
    for hour in hours:
        body = cron_job(f"0 {hour} * * *", f"at-{hour}", timeZone="Europe/Rome", startingDeadlineSeconds=10)
        await user.ask("POST", ALL, body)
    change = datetime.datetime.fromisoformat(f"{sunday}T01:00:00+00:00")
    await asyncio.sleep((change - simulation.env.now()).total_seconds() - 60)
    simulation.kill(down=30.0)
    await asyncio.sleep(120.0)
    simulation.kill(down=5.0)
    ends = datetime.datetime.fromisoformat(start) + datetime.timedelta(days=4)
    await asyncio.sleep((ends - simulation.env.now()).total_seconds())
    for hour in hours:
        found = instants(simulation, f"at-{hour}")
        assert [each.astimezone(zone).hour for each in found] == [hour] * 4
        assert len({each.astimezone(zone).date() for each in found}) == 4
        assert sunday in {each.astimezone(zone).date().isoformat() for each in found}
