"""Decisions of a CronJob sync: schedules, Jobs to start and delete, status.

Rows mirror v1.36 ``pkg/controller/cronjob/cronjob_controllerv2_test.go`` and ``utils_test.go``.
"""

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import cases

from pilothouse.api.batch import (
    CronJob,
    CronJobSpec,
    CronJobStatus,
    Job,
    JobCondition,
    JobStatus,
    JobTemplate,
    JobTemplateMeta,
)
from pilothouse.api.core import ObjectReference
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.cronjob.blueprint import SCHEDULED, get_job_from_template
from pilothouse.controllers.workloads.cronjob.decide import decide, job_name, jobs_to_clean_up
from pilothouse.controllers.workloads.cronjob.schedule import (
    NoScheduledTime,
    most_recent_schedule_time,
    next_schedule_time_duration,
    schedule_of,
)
from pilothouse.controllers.workloads.cronjob.status import (
    active_jobs_not_in_cache,
    active_jobs_not_in_status,
    add_to_active_list,
    delete_from_active_list,
    update_active_list,
)

TEN = datetime.datetime(2016, 5, 19, 10, tzinfo=datetime.UTC)
"""The top of the hour: a Thursday."""
MINUTE, HOUR, DAY = 60, 3600, 86400
Seconds = float


def at(seconds: Seconds) -> datetime.datetime:
    return TEN + datetime.timedelta(seconds=seconds)


def cron(
    schedule: str = "0 * * * ?",
    *,
    created: Seconds = 0,
    last: Seconds | None = None,
    active: tuple[str, ...] = (),
    deleted: bool = False,
    **spec: Any,
) -> CronJob:
    meta = ObjectMeta(
        name="mycronjob",
        namespace="snazzycats",
        uid="1a2b3c",
        creation_timestamp=at(created),
        deletion_timestamp=TEN if deleted else None,
    )
    status = CronJobStatus(
        active=tuple(ObjectReference(kind="Job", namespace="snazzycats", name=name, uid=name) for name in active),
        last_schedule_time=None if last is None else at(last),
    )
    return CronJob(metadata=meta, spec=CronJobSpec(schedule=schedule, **spec), status=status)


@cases(
    "cron_job, now, heed, since, due, many",
    {
        "before the first moment": (cron(), 30, False, 0, None, 0),
        "just after the first time": (cron(), 61 * MINUTE, False, 0, HOUR, 0),
        "five were missed": (cron(created=10), 301 * MINUTE, False, 10, 5 * HOUR, 5),
        "uneven distances": (
            cron("30 6-16/4 * * 1-5", last=30 * MINUTE),
            DAY + 31 * MINUTE,
            False,
            30 * MINUTE,
            DAY + 30 * MINUTE,
            2,
        ),
        "uneven distances, the estimate leads past the last": (
            cron("30 10,11,12 * * 1-5", last=30 * MINUTE),
            30 * HOUR + 30 * MINUTE,
            False,
            30 * MINUTE,
            None,
            30,
        ),
        "over a weekend": (
            cron("30 6-16/4 * * 1-5", last=30 * MINUTE),
            96 * HOUR + 31 * MINUTE,
            False,
            30 * MINUTE,
            96 * HOUR + 30 * MINUTE,
            6,
        ),
        "uneven distances, a short one first": (
            cron("30 6-16/4 * * 1-5"),
            DAY + 31 * MINUTE,
            False,
            0,
            DAY + 30 * MINUTE,
            7,
        ),
        "distances are counted from the last one, for a week": (
            cron("@every 1h", created=-59 * MINUTE, last=MINUTE, starting_deadline_seconds=10),
            7 * DAY,
            False,
            MINUTE,
            6 * DAY + 23 * HOUR + MINUTE,
            167,
        ),
        "just started": (cron("0 * * * *", last=0), 30, False, 0, None, 0),
        "started a minute ago": (cron("*/5 * * * *", last=1800), 31 * MINUTE, False, 1800, None, 0),
        "within starting deadline": (
            cron("*/5 * * * *", last=1800, starting_deadline_seconds=60),
            31 * MINUTE,
            False,
            1800,
            None,
            0,
        ),
        "starting deadline limits the earliest time": (
            cron("*/5 * * * *", last=1800, starting_deadline_seconds=60),
            32 * MINUTE,
            True,
            31 * MINUTE,
            None,
            0,
        ),
    },
)
def test_most_recent_schedule_time(
    cron_job: CronJob, now: Seconds, heed: bool, since: Seconds, due: Seconds | None, many: int
) -> None:
    """TestMostRecentScheduleTime."""
    result = most_recent_schedule_time(
        cron_job, schedule_of(cron_job, datetime.UTC), at(now), include_starting_deadline_seconds=heed
    )
    assert (result.since, result.at) == (at(since), None if due is None else at(due))
    assert result.missed == many


def test_schedules_that_never_occur() -> None:
    """TestMostRecentScheduleTime, "rogue cronjob"; TestNextScheduleTime, case 8."""
    rogue = cron("59 23 31 2 *", created=10)
    with pytest.raises(NoScheduledTime, match="time difference between two schedules is less than 1 second"):
        most_recent_schedule_time(rogue, schedule_of(rogue, datetime.UTC), at(HOUR))
    assert next_schedule_time_duration(rogue, schedule_of(rogue, datetime.UTC), at(HOUR)) is None


@cases(
    "cron_job, now, due",
    {
        "never started, not yet time": (cron(created=-600), -420, None),
        "never started, time reached": (cron(created=-600), 2, 0),
        "started, not yet time": (cron(created=-600, last=0), 120, None),
        "started, it is time": (cron(created=-600, last=0), HOUR + 300, HOUR),
        "two missed: the last": (cron(created=-2 * HOUR, last=-HOUR), HOUR + 300, HOUR),
        "ten days were missed": (cron(created=-2 * HOUR, last=-HOUR), HOUR + 10 * DAY, HOUR + 10 * DAY),
        "ten days were missed, the deadline is short": (
            cron(created=-2 * HOUR, last=-HOUR, starting_deadline_seconds=2 * HOUR),
            HOUR + 10 * DAY,
            HOUR + 10 * DAY,
        ),
    },
)
def test_next_schedule_time(cron_job: CronJob, now: Seconds, due: Seconds | None) -> None:
    """TestNextScheduleTime."""
    result = most_recent_schedule_time(cron_job, schedule_of(cron_job, datetime.UTC), at(now)).at
    assert result == (None if due is None else at(due))


@cases(
    "cron_job, now, expected",
    {
        "the same day": (cron("30 6-16/4 * * 1-5", last=30 * MINUTE), DAY + 31 * MINUTE, 3 * HOUR + 59 * MINUTE),
        "over a weekend": (cron("30 10,11,12 * * 1-5", last=30 * MINUTE), 30 * HOUR + 30 * MINUTE, 66 * HOUR),
        "weekly, two were missed": (
            cron("0 12 * * 4", last=2 * HOUR),
            19 * DAY + HOUR + 30 * MINUTE,
            48 * HOUR + 30 * MINUTE,
        ),
        "never started": (cron("0 12 * * 5"), 6 * HOUR, 20 * HOUR),
    },
)
def test_next_schedule_time_duration(cron_job: CronJob, now: Seconds, expected: Seconds) -> None:
    """TestNextScheduleTimeDuration."""
    assert next_schedule_time_duration(cron_job, schedule_of(cron_job, datetime.UTC), at(now)) == pytest.approx(
        expected + 0.1
    )


SCHEDULES = (
    "0 * * * *",
    "30 6-16/4 * * 1-5",
    "*/7 3 * * *",
    "@every 1h1m",
    "0 0 1 */3 *",
    "15 2 * * 0",
    "59 23 31 12 *",
)
ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


@settings(max_examples=150, deadline=None)
@given(
    schedule=st.sampled_from(SCHEDULES),
    zone=st.sampled_from(ZONES),
    last=st.integers(-400 * DAY, 0),
    now=st.floats(0.001, 400 * DAY),
)
def test_requeue_delay_is_never_in_the_past(schedule: str, zone: str, last: int, now: float) -> None:
    """kubernetes#118706: an irregular schedule caused a requeue in the past, and so an endless loop."""
    cron_job = cron(schedule, created=last, last=last, time_zone=zone)
    parsed, instant = schedule_of(cron_job, datetime.UTC), at(now)
    wait = next_schedule_time_duration(cron_job, parsed, instant)
    assert wait is not None and wait > 0
    due = most_recent_schedule_time(cron_job, parsed, instant)
    if due.at is not None:
        assert due.at <= instant
        following = parsed.next(due.at)
        assert following is not None and following > instant, "the last one that has come"


PRIOR = 59 * -MINUTE  # just after the hour before
BEFORE, AFTER = -MINUTE, MINUTE  # just before and just after the hour
WEEK = 7 * DAY
NEW_YORK: dict[str, Any] = {"time_zone": "America/New_York"}
SHORT: dict[str, Any] = {"starting_deadline_seconds": 10}
MEDIUM: dict[str, Any] = {"starting_deadline_seconds": 2 * HOUR}
LONG: dict[str, Any] = {"starting_deadline_seconds": 1_000_000}
RAN: dict[str, Any] = {"created": -61 * MINUTE, "last": PRIOR}
RUNS: dict[str, Any] = {**RAN, "active": ("old",)}


THIS_HOUR = f"mycronjob-{int(TEN.timestamp()) // 60}"


def policy(name: str) -> dict[str, Any]:
    return {"concurrency_policy": name}


ALLOW, FORBID, REPLACE = policy("Allow"), policy("Forbid"), policy("Replace")
MANY = "Warning TooManyMissedTimes"


@pytest.mark.parametrize(
    ("cron_job", "now", "start", "wait", "events"),
    [
        *(
            pytest.param(cron("obvious error schedule", created=BEFORE, **policy), BEFORE, None, None,
                         ["Warning UnparseableSchedule"], id=f"no schedule, {policy['concurrency_policy']}")
            for policy in (ALLOW, FORBID, REPLACE)
        ),
        pytest.param(
            cron(created=BEFORE, time_zone="bad timezone"), BEFORE, None, None, ["Warning UnknownTimeZone"],
            id="unknown time zone",
        ),
        *(
            pytest.param(cron(created=BEFORE, **policy), BEFORE, None, 60.1, [], id=f"not time, {policy}")
            for policy in (ALLOW, FORBID, REPLACE, NEW_YORK)
        ),
        *(
            pytest.param(cron(created=BEFORE, **policy), AFTER, 0, HOUR - 59.9, [], id=f"time, {policy}")
            for policy in (ALLOW, FORBID, REPLACE, NEW_YORK, LONG)
        ),
        pytest.param(
            cron("TZ=UTC 0 * * * ?", created=BEFORE, **NEW_YORK),
            AFTER,
            0,
            HOUR - 59.9,
            ["Warning UnsupportedSchedule"],
            id="TZ in the schedule",
        ),
        pytest.param(cron(created=BEFORE, suspend=True), AFTER, None, None, [], id="suspended"),
        pytest.param(cron(created=BEFORE, deleted=True), AFTER, None, None, [], id="being deleted"),
        pytest.param(cron(created=BEFORE, **SHORT), AFTER, None, HOUR - 59.9, [], id="past its deadline"),
        *(
            pytest.param(cron(**RAN, **policy), BEFORE, None, 60.1, [], id=f"ran, not time, {policy}")
            for policy in (ALLOW, FORBID, REPLACE)
        ),
        *(
            pytest.param(cron(**RAN, **policy), AFTER, 0, HOUR - 59.9, [], id=f"ran, time, {policy}")
            for policy in (ALLOW, FORBID, REPLACE, LONG)
        ),
        pytest.param(cron(**RAN, suspend=True), AFTER, None, None, [], id="ran, suspended"),
        pytest.param(cron(**RAN, **SHORT), AFTER, None, HOUR - 59.9, [], id="ran, past its deadline"),
        *(
            pytest.param(cron(**RUNS, **policy), BEFORE, None, 60.1, [], id=f"runs, not time, {policy}")
            for policy in (ALLOW, FORBID, REPLACE)
        ),
        pytest.param(cron(**RUNS, **ALLOW), AFTER, 0, HOUR - 59.9, [], id="runs, time, Allow"),
        pytest.param(
            cron(**RUNS, **FORBID), AFTER, None, HOUR - 59.9, ["Normal JobAlreadyActive"], id="runs, time, Forbid"
        ),
        pytest.param(cron(**RUNS, **REPLACE), AFTER, 0, HOUR - 59.9, [], id="runs, time, Replace"),
        pytest.param(cron(**RUNS, suspend=True), AFTER, None, None, [], id="runs, suspended"),
        pytest.param(cron(**RUNS, **SHORT), AFTER, None, HOUR - 59.9, [], id="runs, past its deadline"),
        pytest.param(cron(**RUNS, **LONG), AFTER, 0, HOUR - 59.9, [], id="still active, within its deadline"),
        *(
            pytest.param(cron(**RAN, **policy, **limit), WEEK, WEEK, HOUR + 0.1, [MANY], id=f"late, {policy}, {limit}")
            for policy in (ALLOW, REPLACE, FORBID)
            for limit in (LONG, {})
        ),
        *(
            pytest.param(cron(**RAN, **policy, **limit), WEEK, WEEK, HOUR + 0.1, [], id=f"late, {policy}, {limit}")
            for policy in (ALLOW, REPLACE, FORBID)
            for limit in (MEDIUM, SHORT)
        ),
        pytest.param(
            cron(created=PRIOR, last=0), 60.1, None, HOUR - 60, [], id="lastScheduleTime precedes the cache"
        ),
        pytest.param(
            cron(created=-61 * MINUTE, last=PRIOR, active=(THIS_HOUR,)),
            60.1,
            None,
            HOUR - 60,
            [],
            id="Job is already active",
        ),
        pytest.param(cron("@every 1h", created=BEFORE), 0, None, HOUR - 59.9, [], id="every hour, not time"),
        pytest.param(cron("@every 1h", created=-61 * MINUTE), BEFORE, BEFORE, HOUR + 0.1, [], id="every hour, time"),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, **SHORT), BEFORE + 11, None, HOUR - 10.9, [],
            id="every hour, past its deadline",
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, **LONG), BEFORE + 9, BEFORE, HOUR - 8.9, [],
            id="every hour, within its deadline",
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, last=BEFORE), 0, None, HOUR - 59.9, [], id="every hour, ran"
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, last=BEFORE), HOUR, HOUR - 60, HOUR - 59.9, [],
            id="every hour, ran, time",
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, last=BEFORE, **SHORT), HOUR - 49, None, HOUR - 10.9, [],
            id="every hour, ran, past its deadline",
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, last=BEFORE, active=("old",)), 0, None, HOUR - 59.9, [],
            id="every hour, runs, not time",
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, last=-61 * MINUTE, active=("old",)), AFTER, BEFORE,
            HOUR - 119.9, [], id="every hour, runs, time",
        ),
        pytest.param(
            cron("@every 1h", created=-61 * MINUTE, last=BEFORE, active=("old",), **LONG), HOUR - 51, HOUR - 60,
            HOUR - 8.9, [], id="every hour, runs, within its deadline",
        ),
        pytest.param(
            cron("@every 1h", created=PRIOR, last=AFTER), WEEK, WEEK - HOUR + 60, 60.1, [MANY],
            id="every hour, a week late",
        ),
        pytest.param(
            cron("@every 1h", created=PRIOR, last=AFTER, **SHORT), WEEK + 71, None, HOUR - 10.9, [],
            id="every hour, a week late, past its deadline",
        ),
        pytest.param(
            cron("59 23 31 2 *", created=10), HOUR, None, None, ["Warning InvalidSchedule"], id="days that do not exist"
        ),
    ],
)  # fmt: skip
def test_sync_cron_job(
    cron_job: CronJob, now: Seconds, start: Seconds | None, wait: Seconds | None, events: list[str]
) -> None:
    """TestControllerV2SyncCronJob."""
    decision = decide(cron_job, cron_job.status, at(now))
    assert decision.start == (None if start is None else at(start))
    assert decision.wait == (None if wait is None else pytest.approx(wait))
    assert [f"{event.type} {event.reason}" for event in decision.events] == events
    runs = cron_job.spec.concurrency_policy == "Replace" and bool(cron_job.status.active)
    assert decision.replace is (runs and start is not None)


@cases(
    "cron_job, now, message",
    {
        "zone": (
            cron(time_zone="Nowhere/Land"), 0, 'invalid timeZone: "Nowhere/Land": unknown time zone Nowhere/Land'),
        "schedule": (
            cron("x"), 0, 'unparseable schedule: "x" : expected exactly 5 fields, found 1: [x]'),
        "days": (
            cron("59 23 31 2 *"), HOUR,
            "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than 1 second"),
        "a zone in the schedule": (
            cron("TZ=UTC 0 * * * *"), 0,
            'CRON_TZ or TZ used in schedule "TZ=UTC 0 * * * *" is not officially supported, see https://kubernetes.io'
            "/docs/concepts/workloads/controllers/cron-jobs/ for more details"),
        "too many missed start times": (
            cron(created=-DAY * 5), 0,
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"),
    },
)  # fmt: skip
def test_events_of_a_sync(cron_job: CronJob, now: Seconds, message: str) -> None:
    assert [event.message for event in decide(cron_job, cron_job.status, at(now)).events] == [message]


def test_local_time_zone_is_the_default() -> None:
    cron_job = cron("0 12 * * *")
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    assert decide(cron_job, cron_job.status, at(18 * HOUR), tokyo).start == at(17 * HOUR)
    assert decide(cron_job, cron_job.status, at(18 * HOUR)).start == at(2 * HOUR)


def job(name: str, end: str = "", *, began: Seconds | None = None, ended: Seconds | None = None) -> Job:
    conditions = (JobCondition(type=end, status="True"),) if end else ()
    status = JobStatus(
        conditions=conditions,
        start_time=None if began is None else at(began),
        completion_time=None if ended is None else at(ended),
    )
    return Job(metadata=ObjectMeta(name=name, namespace="snazzycats", uid=name), status=status)


HISTORY = [
    job("a", "Complete", began=1),
    job("b", "Failed", began=2),
    job("c", "Complete", began=3),
    job("d", "Failed", began=4),
    job("e", "Complete", began=5),
    job("f", began=0),
]


@cases(
    "succeeded, failed, jobs, expected",
    {
        "no history limits": (None, None, HISTORY, []),
        "limits of 1": (1, 1, HISTORY, ["a", "c", "b"]),
        "limits of 0 keep active Jobs": (0, 0, HISTORY, ["a", "c", "e", "b", "d"]),
        "only those that succeeded": (2, None, HISTORY, ["a"]),
        "only those that failed": (None, 1, HISTORY, ["b"]),
        "number of Jobs equals the limits": (3, 2, HISTORY, []),
        "no Jobs": (1, 1, [], []),
        "no startTime: by name": (1, 1, [job("b", "Complete"), job("a", "Complete")], ["a"]),
        "Jobs without startTime are kept longest": (1, 1, [job("a", "Complete"), job("b", "Complete", began=1)], ["b"]),
        "equal startTime: by name": (1, 1, [job("b", "Complete", began=1), job("a", "Complete", began=1)], ["a"]),
        "the oldest": (1, 1, [job("a", "Complete", began=9), job("b", "Complete", began=1)], ["b"]),
    },
)
def test_cleanup_finished_jobs(succeeded: int | None, failed: int | None, jobs: list[Job], expected: list[str]) -> None:
    """TestControllerV2CleanupFinishedJobs, TestByJobStartTime."""
    cron_job = cron(successful_jobs_history_limit=succeeded, failed_jobs_history_limit=failed)
    assert [item.metadata.name for item in jobs_to_clean_up(cron_job, jobs)] == expected


def test_status_of_active_and_successful_jobs() -> None:
    """TestControllerV2SyncCronJob, its checks of lastSuccessfulTime and active."""
    before = cron(active=("a", "b", "c")).status
    jobs = [job("a", "Complete", ended=5), job("b", "Failed"), job("c"), job("d", "Complete", ended=3), job("e")]
    after, events = update_active_list(before, jobs)
    assert [reference.uid for reference in after.active] == ["c"]
    assert after.last_successful_time == at(5)
    assert [event.message for event in events] == [
        "Saw completed job: a, condition: Complete",
        "Saw completed job: b, condition: Failed",
    ]
    assert update_active_list(after, jobs) == (after, [])
    assert [statu.metadata.name for statu in active_jobs_not_in_status(after, jobs)] == ["e"]
    assert active_jobs_not_in_cache(after, jobs) == []
    assert [item.uid for item in active_jobs_not_in_cache(before, [])] == ["a", "b", "c"]
    assert delete_from_active_list(before, ()) is before


def test_started_job_is_added_to_the_status() -> None:
    metadata = ObjectMeta(name="n", namespace="snazzycats", uid="u", resource_version="7")
    status = add_to_active_list(cron(active=("a",)).status, metadata, TEN)
    assert (status.active[1].kind, status.active[1].api_version) == ("Job", "batch/v1")
    assert (status.active[1].name, status.active[1].resource_version) == ("n", "7")
    assert status.last_schedule_time == TEN


@cases(
    "zone, annotations, expected",
    {
        "UTC": ("UTC", {"x": "y"}, "2016-05-19T10:00:00Z"),
        "no time zone": (None, {"x": "y"}, "2016-05-19T10:00:00Z"),
        "another zone": ("Europe/Rome", {"x": "y", "z": "x"}, "2016-05-19T12:00:00+02:00"),
        "a zone that is like UTC": ("Africa/Abidjan", {}, "2016-05-19T10:00:00Z"),
    },
)
def test_job_from_template(zone: str | None, annotations: dict[str, str], expected: str) -> None:
    """TestGetJobFromTemplate2."""
    template = JobTemplate(
        metadata=JobTemplateMeta(labels={"a": "b"}, annotations=annotations),
        spec=msgspec.Raw(b'{"completions":1,"newField":[1.50]}'),
    )
    body = get_job_from_template(cron(time_zone=zone, job_template=template), TEN)
    job = msgspec.json.decode(body)
    assert job["metadata"]["name"] == job_name(cron(), TEN) == f"mycronjob-{int(TEN.timestamp()) // 60}"
    assert job["metadata"]["labels"] == {"a": "b"}
    assert job["metadata"]["annotations"] == {**annotations, SCHEDULED: expected}
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("batch/v1", "CronJob", "mycronjob")
    assert owner["controller"] and owner["blockOwnerDeletion"]
    assert b'"newField":[1.50]' in body, "what the template says is passed on as it is"
