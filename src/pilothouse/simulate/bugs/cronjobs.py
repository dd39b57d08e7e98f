"""Known bugs of CronJobs."""

import asyncio
import datetime
from collections import Counter
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from pilothouse.api.batch import CronJob
from pilothouse.controllers.workloads.cronjob import controller, decide
from pilothouse.controllers.workloads.cronjob import schedule as schedule_module
from pilothouse.controllers.workloads.cronjob.schedule import (
    PADDING,
    TOO_MANY,
    MissedSchedules,
    NoScheduledTime,
    next_schedule_time_duration,
)
from pilothouse.env.virtual import VirtualClock
from pilothouse.machinery.cron import Schedule
from pilothouse.sim import Invariant, Simulation, SimulationOptions
from pilothouse.sim.invariants.cronjobs import CronJobs
from pilothouse.simulate.bugs.declaration import Bug, Patch, Pattern, Unguarded, check, only_invariant
from pilothouse.simulate.bugs.user import NAMESPACE, Doc, User

ALL = "/apis/batch/v1/namespaces/default/cronjobs"
CONTROLLER = "cronjob-controller"
OPTIONS = SimulationOptions(controllers=("cronjob", "job", "garbagecollector"))
BARE = SimulationOptions(nodes=0, controllers=("cronjob",))
"""Jobs stay as they are created: no controller runs them."""
HOUR, DAY = 3600.0, 86400.0


def invariants() -> Sequence[Invariant]:
    """The invariants of these scenarios."""
    return (CronJobs(),)


def cron_job(schedule: str, name: str = "tick", run: str = "5s", **spec: Any) -> Doc:
    """A CronJob whose pods run so long."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    notes = {"simulated.pilothouse.dev/run-time": run}
    template = {"spec": {"template": {"metadata": {"annotations": notes}, "spec": pod}}}
    return {"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}


def instants(simulation: Simulation, name: str = "tick") -> list[datetime.datetime]:
    """The scheduled times that led to a Job."""
    moments = only_invariant(simulation, CronJobs).moments.get(name, [])
    return [datetime.datetime.fromisoformat(text) for text in moments]


def set_clock(simulation: Simulation, to: str) -> None:
    """The scenario begins at that time."""
    clock = simulation.env.clock
    assert isinstance(clock, VirtualClock), "a simulation has a virtual clock"
    clock.jump((datetime.datetime.fromisoformat(to) - simulation.env.now()).total_seconds())


HOT_LOOP = Bug(
    "kubernetes#118706 kubernetes#121327",
    "An irregular schedule causes a hot loop",
    controller=CONTROLLER,
    patterns=(Pattern.TIME,),
    upstream="fixed",
    mechanism="The next sync was computed as if scheduled times were evenly spaced. The result was in the past, so "
    "the key was requeued immediately, again and again.",
    protection="The next scheduled time is computed from the last one that has passed, and is always in the future.",
)


def evenly_spaced() -> Sequence[Patch]:
    """As upstream before the fix: one interval after the first time since the last Job, which may be in the past."""
    syncs: Counter[datetime.datetime] = Counter()

    def until_next(cron_job: CronJob, schedule: Schedule, now: datetime.datetime) -> float | None:
        syncs[now] += 1
        assert syncs[now] < 1000, f"{syncs[now]} syncs of {cron_job.metadata.name} in one instant"
        since = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp or now
        first = schedule.next(since - datetime.timedelta(hours=4))
        second = schedule.next(first) if first is not None else None
        assert first is not None and second is not None, "the schedule has times"  # noqa: PT018
        return (since + (second - first) - now).total_seconds() + PADDING

    return (
        (decide, "next_schedule_time_duration", until_next),
        (controller, "next_schedule_time_duration", until_next),
    )


@HOT_LOOP.scenario(
    "three times on working days",
    options=BARE,
    invariants=invariants,
    unguarded=Unguarded("syncs of tick in one instant", evenly_spaced),
)
async def working_days(simulation: Simulation) -> None:
    """At 6:30, 10:30 and 14:30 from Monday to Friday: the intervals are 4, 4, 16 and 64 hours."""
    user = User(simulation.user)
    set_clock(simulation, "2026-01-05T00:00:00+00:00")  # a Monday
    await user.request("POST", ALL, cron_job("30 6-16/4 * * 1-5"))
    await asyncio.sleep(8 * DAY)
    wanted = [f"2026-01-{day:02} {at}" for day in (5, 6, 7, 8, 9, 12) for at in ("06:30", "10:30", "14:30")]
    scheduled = [f"{instant:%Y-%m-%d %H:%M}" for instant in instants(simulation)]
    check(scheduled == wanted, f"Jobs were started for {scheduled}")


@HOT_LOOP.scenario("a date that does not exist", options=BARE, invariants=invariants)
async def day_that_never_comes(simulation: Simulation) -> None:
    """The 31st of February."""
    user = User(simulation.user)
    await user.request("POST", ALL, cron_job("59 23 31 2 *"))
    await asyncio.sleep(3 * DAY)
    check(not instants(simulation), f"Jobs were started for {instants(simulation)}")


EVERY = Bug(
    "kubernetes#104012",
    "With @every the first scheduled time is before the CronJob was created, and restarts move the next ones",
    controller=CONTROLLER,
    patterns=(Pattern.TIME, Pattern.INTERMEDIATE),
    upstream="closed",
    mechanism="Times were computed from the sync, and so from the start of the process, not from the CronJob.",
    protection="Times are computed from lastScheduleTime, or from the creation of the CronJob if there is none.",
)
find_due = schedule_module.most_recent_schedule_time


def now_is_due(cron_job: CronJob, schedule: Schedule, now: datetime.datetime) -> MissedSchedules:
    """The scheduled time is now, and the next time is relative to now."""
    due = find_due(cron_job, schedule, now)
    return due if due.at is None else msgspec.structs.replace(due, at=now.replace(microsecond=0))


@EVERY.scenario(
    "five hours and many restarts",
    options=BARE,
    invariants=invariants,
    unguarded=Unguarded(
        "Jobs were started .* after multiples of five hours", ((decide, "most_recent_schedule_time", now_is_due),)
    ),
)
async def many_restarts(simulation: Simulation) -> None:
    """``@every 5h``, and the manager is down for five minutes every two hours."""
    user = User(simulation.user)
    await asyncio.sleep(17 * 60.0 + 3)
    created = await user.request("POST", ALL, cron_job("@every 5h"))
    began = datetime.datetime.fromisoformat(created["metadata"]["creationTimestamp"])
    for _ in range(24):
        await asyncio.sleep(2 * HOUR)
        simulation.kill(down=300.0)
    scheduled = instants(simulation)
    wrong = [(at - began).total_seconds() - 5 * HOUR * number for number, at in enumerate(scheduled, 1)]
    check(not any(wrong), f"Jobs were started for times {wrong} s after multiples of five hours")
    check(len(scheduled) == 9, f"{len(scheduled)} Jobs were started, not 9")


TOO_MANY_MISSED = Bug(
    "kubernetes#42649",
    "After more than a hundred missed times a CronJob never runs again",
    controller=CONTROLLER,
    patterns=(Pattern.TIME,),
    upstream="closed; v2 of the controller goes on",
    mechanism="If more than a hundred times were missed since the last Job, the sync returned an error, and so did "
    "each later sync.",
    protection="The number of missed times is estimated and reported in an event; a Job is created for the last one.",
)


def reject_many(cron_job: CronJob, schedule: Schedule, now: datetime.datetime) -> MissedSchedules:
    """As the first controller did."""
    due = find_due(cron_job, schedule, now)
    if due.missed > TOO_MANY:
        raise NoScheduledTime("too many missed start times (> 100)")
    return due


@TOO_MANY_MISSED.scenario(
    "two hundred minutes without a manager",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "0 Jobs were started after the manager was back", ((decide, "most_recent_schedule_time", reject_many),)
    ),
    cases={"Allow": {"policy": "Allow"}, "Forbid": {"policy": "Forbid"}},
)
async def no_manager(simulation: Simulation, policy: str) -> None:
    """A schedule of every minute, and no manager for more than three hours."""
    user = User(simulation.user)
    await user.request("POST", ALL, cron_job("* * * * *", concurrencyPolicy=policy))
    await asyncio.sleep(150.0)
    before = instants(simulation)
    check(len(before) == 2, f"{len(before)} Jobs were started within 150 s")
    simulation.kill(down=200 * 60.0)
    await asyncio.sleep(200 * 60.0 + 30)
    after = instants(simulation)[2:]
    check(len(after) == 1, f"{len(after)} Jobs were started after the manager was back")
    check(after[0] > before[-1] + datetime.timedelta(minutes=199), f"it was started for {after[0]}")
    events = await user.items(f"{NAMESPACE}/events")
    check(
        any(event["reason"] == "TooManyMissedTimes" for event in events),
        "there is no event of reason TooManyMissedTimes",
    )
    await asyncio.sleep(10 * 60.0)
    check(len(instants(simulation)) == 13, "it did not go on each minute")


CLOCK_CHANGE = Bug(
    "kubernetes#121763 kubernetes#86647",
    "When daylight saving time changes, Jobs are started all at once, or skipped",
    controller=CONTROLLER,
    patterns=(Pattern.TIME,),
    upstream="closed",
    mechanism="The next time was assumed to be one interval after the last. On a day of 23 hours the sync was an hour "
    "late: the Jobs that were due were started together, or skipped with a short startingDeadlineSeconds.",
    protection="Each scheduled time is computed from the schedule in its time zone, never from intervals.",
)


def a_day_later(cron_job: CronJob, schedule: Schedule, now: datetime.datetime) -> float | None:
    """A day after the last Job, whatever the clocks say."""
    last = cron_job.status.last_schedule_time
    if last is None:
        return next_schedule_time_duration(cron_job, schedule, now)
    return max(60.0, (last + datetime.timedelta(days=1) - now).total_seconds() + PADDING)


async def clocks_change(simulation: Simulation, start: str, sunday: str) -> None:
    """CronJobs at every third hour in Rome with a deadline of ten seconds, over four days."""
    user = User(simulation.user)
    zone = ZoneInfo("Europe/Rome")
    set_clock(simulation, start)
    hours = range(0, 24, 3)
    for hour in hours:
        body = cron_job(f"0 {hour} * * *", f"at-{hour}", timeZone="Europe/Rome", startingDeadlineSeconds=10)
        await user.request("POST", ALL, body)
    change = datetime.datetime.fromisoformat(f"{sunday}T01:00:00+00:00")
    await asyncio.sleep((change - simulation.env.now()).total_seconds() - 60)
    simulation.kill(down=30.0)
    await asyncio.sleep(120.0)
    simulation.kill(down=5.0)
    ends = datetime.datetime.fromisoformat(start) + datetime.timedelta(days=4)
    await asyncio.sleep((ends - simulation.env.now()).total_seconds())
    for hour in hours:
        scheduled = [instant.astimezone(zone) for instant in instants(simulation, f"at-{hour}")]
        check(len(scheduled) == 4, f"of at-{hour} {len(scheduled)} Jobs were started in four days")
        check([instant.hour for instant in scheduled] == [hour] * 4, f"at-{hour} was started for {scheduled}")
        check(len({instant.date() for instant in scheduled}) == 4, f"at-{hour} was started twice on a day: {scheduled}")
        check(sunday in {instant.date().isoformat() for instant in scheduled}, f"at-{hour} was left out on {sunday}")


CLOCK_CHANGE.scenario(
    "in spring",
    options=BARE,
    invariants=invariants,
    unguarded=Unguarded(
        r"of at-\d+ [123] Jobs were started in four days",
        (
            (decide, "next_schedule_time_duration", a_day_later),
            (controller, "next_schedule_time_duration", a_day_later),
        ),
    ),
    cases={"23 hours": {"start": "2026-03-27T12:00:00+00:00", "sunday": "2026-03-29"}},
)(clocks_change)
CLOCK_CHANGE.scenario(
    "in autumn",
    options=BARE,
    invariants=invariants,
    cases={"25 hours": {"start": "2026-10-23T12:00:00+00:00", "sunday": "2026-10-25"}},
)(clocks_change)

BUGS = (HOT_LOOP, EVERY, TOO_MANY_MISSED, CLOCK_CHANGE)
