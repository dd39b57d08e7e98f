"""CronJobs on the embedded API server in virtual time, with faults; a task completes their Jobs."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.controllers.node_world import Doc, World
from tests.tables import cases

from pilothouse.api.batch import JOBS, Job
from pilothouse.client import merge_patch
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, lose_request, namespace_ends
from pilothouse.controllers.workloads.cronjob import DESCRIPTOR
from pilothouse.env import TaskGroup
from pilothouse.machinery.times import format_time
from pilothouse.runtime import InformerFactory

BATCH = "/apis/batch/v1/namespaces/default"
CRON = f"{BATCH}/cronjobs/tick"
UTC = datetime.UTC
START = datetime.datetime(2026, 1, 1, tzinfo=UTC)
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class Ender:
    """Completes Jobs a number of seconds after their creation, as the Job controller would; records them."""

    def __init__(self, world: World, group: TaskGroup) -> None:
        self._world, self._group = world, group
        self.seconds, self.failing = 5.0, False
        self.moments: list[str] = []
        """The scheduled time of every created Job."""
        self.running: dict[str, str] = {}
        self.most = 0
        informers = InformerFactory(world.admin, world.env)
        informers.informer(JOBS).add_handler(self._on_job, lambda _old, _new: None, self._delete_cron_job)
        informers.start(group)

    def _on_job(self, job: Job, _initial: bool) -> None:
        self.moments.append(job.metadata.annotations[SCHEDULED])
        self.running[job.metadata.uid] = job.metadata.name
        self.most = max(self.most, len(self.running))
        self._group.start(self._end(job), name=job.metadata.name)

    def _delete_cron_job(self, job: Job, _unknown: bool) -> None:
        self.running.pop(job.metadata.uid, None)

    async def _end(self, job: Job) -> None:
        start = format_time(self._world.env.now())
        await asyncio.sleep(self.seconds)
        if job.metadata.uid not in self.running:
            return
        now = format_time(self._world.env.now())
        status: Doc = {"startTime": start}
        ends = ("FailureTarget", "Failed") if self.failing else ("SuccessCriteriaMet", "Complete")
        common = {"status": "True", "lastTransitionTime": now, "lastProbeTime": now, "reason": "Test", "message": "m"}
        status["conditions"] = [{"type": type_, **common} for type_ in ends]
        if not self.failing:
            status |= {"completionTime": now, "succeeded": 1}
        patch = merge_patch({"status": status})
        try:
            await self._world.admin.patch(JOBS, job.metadata.name, patch, "default", subresource="status")
        except NotFound:
            return
        self.running.pop(job.metadata.uid, None)


@pytest.fixture
async def ender(world: World) -> AsyncIterator[Ender]:
    async with TaskGroup("ender") as group:
        job_ender = Ender(world, group)
        await world.start(DESCRIPTOR)
        yield job_ender
        group.cancel()


async def create(world: World, schedule: str = "* * * * *", name: str = "tick", **spec: Any) -> None:
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}
    body = {"metadata": {"name": name}, "spec": {"schedule": schedule, "jobTemplate": template, **spec}}
    await world.request("POST", f"{BATCH}/cronjobs", body)


async def jobs(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.must_get(f"{BATCH}/jobs"))["items"]]


async def status_of(world: World) -> Doc:
    obj: Doc = (await world.must_get(CRON)).get("status", {})
    return obj


def minutes(*numbers: int) -> list[str]:
    return [format_time(START + datetime.timedelta(minutes=number)) for number in numbers]


async def test_one_job_per_minute(world: World, ender: Ender) -> None:
    await create(world)
    await asyncio.sleep(62)
    first = f"tick-{int(START.timestamp()) // 60 + 1}"
    assert await jobs(world) == [first]
    status = await status_of(world)
    assert [reference["name"] for reference in status["active"]] == [first]
    assert status["lastScheduleTime"] == minutes(1)[0]
    await asyncio.sleep(10)
    status = await status_of(world)
    assert "active" not in status and status["lastSuccessfulTime"] == "2026-01-01T00:01:05Z"
    await asyncio.sleep(300)
    assert ender.moments == minutes(1, 2, 3, 4, 5, 6)
    assert len(await jobs(world)) == 3, "three stay by default"
    assert await world.events("SuccessfulCreate")
    assert await world.events("SawCompletedJob")
    assert len(await world.events("SuccessfulDelete")) == 3
    assert [line for line in world.requests() if line.startswith("get")] == [], "nothing is asked twice"


async def test_failed_jobs_history_limit_keeps_one(world: World, ender: Ender) -> None:
    ender.failing = True
    await create(world)
    await asyncio.sleep(250)
    assert ender.moments == minutes(1, 2, 3, 4)
    assert len(await jobs(world)) == 1
    assert "lastSuccessfulTime" not in await status_of(world)


async def test_forbid_starts_the_missed_job_after_the_active_one_finishes(world: World, ender: Ender) -> None:
    """Traces 08b."""
    ender.seconds = 80
    await create(world, concurrencyPolicy="Forbid")
    await asyncio.sleep(200)
    # 60.1 to 140.1: the run of 120 is delayed to 140, the run of 180 is delayed, too.
    assert ender.moments == minutes(1, 2)
    assert ender.most == 1
    assert await world.events("JobAlreadyActive")
    assert (await status_of(world))["lastScheduleTime"] == minutes(2)[0]


async def test_allow_runs_jobs_concurrently(world: World, ender: Ender) -> None:
    ender.seconds = 1000
    await create(world, concurrencyPolicy="Allow")
    await asyncio.sleep(200)
    assert ender.moments == minutes(1, 2, 3)
    assert len((await status_of(world))["active"]) == 3


async def test_replace_deletes_the_active_job_first(world: World, ender: Ender) -> None:
    ender.seconds = 1000
    await create(world, concurrencyPolicy="Replace")
    await asyncio.sleep(200)
    assert ender.moments == minutes(1, 2, 3)
    assert ender.most == 1
    assert len(await jobs(world)) == 1
    order = [line.partition(" tick")[0].strip() for line in world.requests() if line.split()[1] == "jobs"]
    assert order == [
        "create jobs",
        "get jobs",
        "delete jobs",
        "create jobs",
        "get jobs",
        "delete jobs",
        "create jobs",
    ]


async def test_resuming_starts_only_the_latest_missed_schedule(world: World, ender: Ender) -> None:
    """kubernetes#42649: however many moments were missed."""
    await create(world, suspend=True)
    await asyncio.sleep(200 * 60 + 30)
    assert ender.moments == []
    await world.merge(CRON, {"spec": {"suspend": False}})
    await asyncio.sleep(1)
    assert ender.moments == minutes(200)
    assert await world.events("TooManyMissedTimes")
    await asyncio.sleep(60)
    assert ender.moments == minutes(200, 201)


async def test_missed_schedule_past_the_starting_deadline_is_skipped(world: World, ender: Ender) -> None:
    await create(world, "0 * * * *", suspend=True, startingDeadlineSeconds=100)
    await asyncio.sleep(3600 + 300)
    await world.merge(CRON, {"spec": {"suspend": False}})
    await asyncio.sleep(10)
    assert ender.moments == []
    await asyncio.sleep(3600)
    assert ender.moments == minutes(120)


async def test_changed_schedule_applies_from_the_next_time(world: World, ender: Ender) -> None:
    await create(world, "0 0 1 1 *")
    await asyncio.sleep(90)
    await world.merge(CRON, {"spec": {"schedule": "*/2 * * * *"}})
    await asyncio.sleep(40)
    assert ender.moments == minutes(2)
    await world.merge(CRON, {"spec": {"schedule": "0 12 * * *", "timeZone": "Europe/Rome"}})
    await asyncio.sleep(24 * 3600)
    assert ender.moments == [*minutes(2), "2026-01-01T12:00:00+01:00"]


@cases(
    "before, after, moments",
    {
        "longer interval": ("@every 2m", "@every 6m", (2, 8, 14)),
        "shorter interval": ("@every 6m", "@every 2m", (6, 8, 10)),
    },
)
async def test_changed_every_schedule_counts_from_the_last_schedule_time(
    world: World, ender: Ender, before: str, after: str, moments: tuple[int, ...]
) -> None:
    """TestControllerV2UpdateCronJob, "spec.schedule with @every changed". The last one was a second ago."""
    await create(world, before)
    await asyncio.sleep(moments[0] * 60 + 1)
    await world.merge(CRON, {"spec": {"schedule": after}})
    await asyncio.sleep((moments[-1] - moments[0]) * 60 + 10)
    assert ender.moments == minutes(*moments)


async def test_existing_job_of_the_same_name_skips_one_schedule(world: World, ender: Ender) -> None:
    name = f"tick-{int(START.timestamp()) // 60 + 1}"
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    meta = {"name": name, "annotations": {SCHEDULED: "elsewhere"}}
    await world.request("POST", f"{BATCH}/jobs", {"metadata": meta, "spec": spec})
    await create(world)
    await asyncio.sleep(100)
    assert ender.moments == ["elsewhere"] and "active" not in await status_of(world)
    await asyncio.sleep(60)
    assert ender.moments == ["elsewhere", *minutes(2)]


async def test_deleted_job_is_removed_from_active(world: World, ender: Ender) -> None:
    ender.seconds = 1000
    await create(world, concurrencyPolicy="Forbid")
    await asyncio.sleep(65)
    (name,) = await jobs(world)
    await world.request("DELETE", f"{BATCH}/jobs/{name}", {"propagationPolicy": "Background"})
    await asyncio.sleep(5)
    assert "active" not in await status_of(world)
    assert await world.events("MissingJob") == [f"CronJob/tick Active job went missing: {name}"]
    await asyncio.sleep(55)
    assert ender.moments == minutes(1, 2)


async def test_unexpected_job_is_reported_and_kept(world: World, ender: Ender) -> None:
    await create(world, "0 0 1 1 *", concurrencyPolicy="Forbid")
    uid = (await world.must_get(CRON))["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": uid, "controller": True}
    meta = {"name": "mine", "annotations": {SCHEDULED: "by hand"}, "ownerReferences": [reference]}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    await world.request("POST", f"{BATCH}/jobs", {"metadata": meta, "spec": spec})
    await asyncio.sleep(2)
    text = "CronJob/tick Saw a job that the controller did not create or forgot: mine"
    assert set(await world.events("UnexpectedJob")) == {text}
    assert "active" not in await status_of(world)


async def test_job_creation_in_a_terminating_namespace_emits_no_event(world: World, ender: Ender) -> None:
    world.faults.add(Rule(namespace_ends(), verb="create", resource="jobs.batch"))
    await create(world)
    await asyncio.sleep(90)
    assert await world.events("FailedCreate") == []


async def test_rejected_job_creation_emits_an_event(world: World, ender: Ender) -> None:
    world.faults.add(Rule(fail(403), verb="create", resource="jobs.batch", times=1))
    await create(world)
    await asyncio.sleep(62)
    (text,) = await world.events("FailedCreate")
    assert text.startswith("CronJob/tick Error creating job: ")
    assert ender.moments == minutes(1), "and tried again at once"


async def test_job_deleted_at_once_is_not_recreated_with_a_stale_cache(world: World, ender: Ender) -> None:
    """Its schedule time is in a status that the cache does not have yet, and the Job is deleted."""
    ender.seconds = 0.5
    world.faults.add(Rule(delay(8.0, 8.0), verb="watch", resource="cronjobs.batch"))
    await create(world, successfulJobsHistoryLimit=0)
    await asyncio.sleep(600)
    assert len(ender.moments) == len(set(ender.moments)) >= 9


FAULTS: dict[str, tuple[Any, Doc]] = {
    "conflicts": (conflict(), {"verb": "update", "resource": "cronjobs.batch", "probability": 0.4}),
    "failing creates": (fail(500), {"verb": "create", "resource": "jobs.batch", "probability": 0.4}),
    "failing reads": (fail(500), {"verb": "get", "probability": 0.5}),
    "lost answers": (lose_answer(), {"verb": "write", "probability": 0.3}),
    "lost requests": (lose_request(), {"verb": "write", "probability": 0.3}),
    "slow watches": (delay(0.1, 4.0), {"verb": "watch"}),
}


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_one_job_per_schedule_under_faults(
    world: World, ender: Ender, fault: str, policy: str, seed: int
) -> None:
    ender.seconds = 60
    action, which = FAULTS[fault]
    world.faults.add(Rule(action, **which))
    await create(world, "*/5 * * * *", concurrencyPolicy=policy, successfulJobsHistoryLimit=2)
    await asyncio.sleep(61 * 60)
    assert ender.moments == minutes(*range(5, 61, 5))
    assert ender.most == 1
    world.faults.clear()
    await asyncio.sleep(240 + 61)
    status = await status_of(world)
    assert "active" not in status and status["lastScheduleTime"] == minutes(65)[0]
    assert len(await jobs(world)) == 2


def weekly(zone: str, wall: str, first: str, days: int) -> list[str]:
    """The moments of a daily schedule, by the calendar."""
    hour, minute = map(int, wall.split(":"))
    result = []
    for day in range(days):
        date = datetime.date.fromisoformat(first) + datetime.timedelta(days=day)
        local = datetime.datetime(date.year, date.month, date.day, hour, minute, tzinfo=ZoneInfo(zone))
        if local.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == local.replace(tzinfo=None):
            result.append(local.isoformat())
    return result


at = datetime.datetime.fromisoformat


@cases(
    "start, zone, sunday, half_past_two",
    {
        "Rome, set forward": (at("2026-03-25T12:00:00+00:00"), "Europe/Rome", "2026-03-29", []),
        "Rome, set back": (
            at("2026-10-21T12:00:00+00:00"),
            "Europe/Rome",
            "2026-10-25",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"],
        ),
        "New York, set forward": (at("2026-03-04T12:00:00+00:00"), "America/New_York", "2026-03-08", []),
        "Tokyo, without daylight saving time": (
            at("2026-06-10T12:00:00+00:00"),
            "Asia/Tokyo",
            "2026-06-14",
            ["2026-06-14T02:30:00+09:00"],
        ),
    },
)
async def test_schedules_across_daylight_saving_time(
    world: World, ender: Ender, start: datetime.datetime, zone: str, sunday: str, half_past_two: list[str]
) -> None:
    """kubernetes#121763, #86647: no burst, and none skipped by a short deadline; kubernetes#104012: no drift."""
    first = (start.astimezone(ZoneInfo(zone)) + datetime.timedelta(days=1)).date().isoformat()
    await create(world, "30 2 * * *", "night", timeZone=zone, startingDeadlineSeconds=10)
    await create(world, "0 12 * * *", "noon", timeZone=zone, concurrencyPolicy="Forbid")
    await create(world, "15 */6 * * *", "four", timeZone=zone, startingDeadlineSeconds=10)
    await create(world, "@every 7h", "every")
    await asyncio.sleep(7 * 86400)
    by_name: dict[str, list[str]] = {name: [] for name in ("night", "noon", "four", "every")}
    for body in world.bodies("create", "jobs"):
        by_name[body["metadata"]["name"].partition("-")[0]].append(body["metadata"]["annotations"][SCHEDULED])
    assert [text for text in by_name["night"] if text.startswith(sunday)] == half_past_two
    others = [text for text in weekly(zone, "02:30", first, 7) if not text.startswith(sunday)]
    assert [text for text in by_name["night"] if not text.startswith(sunday)] == others
    ends = start + datetime.timedelta(days=7)
    noons = weekly(zone, "12:00", start.astimezone(ZoneInfo(zone)).date().isoformat(), 9)
    instants = [datetime.datetime.fromisoformat(text) for text in noons]
    wanted = [text for text, at in zip(noons, instants, strict=True) if start < at <= ends]
    assert by_name["noon"] == wanted
    quarters = sorted(
        (text for hour in (0, 6, 12, 18) for text in weekly(zone, f"{hour}:15", first, 9)),
        key=datetime.datetime.fromisoformat,
    )
    early = [text for text in by_name["four"] if text[:10] < first]
    assert by_name["four"][len(early) :] == [text for text in quarters if datetime.datetime.fromisoformat(text) <= ends]
    instants = [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in by_name["every"]]
    assert instants == [start + datetime.timedelta(hours=7 * number) for number in range(1, 24)]
