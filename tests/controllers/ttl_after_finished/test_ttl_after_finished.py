"""Finished Jobs are deleted after their TTL.

Rows mirror ``pkg/controller/ttlafterfinished/ttlafterfinished_controller_test.go`` of v1.36.
"""

import asyncio
import datetime
from typing import Any

import pytest
from tests.controllers.node_world import World, started
from tests.tables import cases

from pilothouse.api.batch import Job, JobCondition, JobSpec, JobStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.cleanup.ttl_after_finished import DESCRIPTOR
from pilothouse.controllers.cleanup.ttl_after_finished.decide import NoFinishTime, expires_at, needs_cleanup
from pilothouse.machinery.times import format_time

JOBS = "/apis/batch/v1/namespaces/default/jobs"
T0 = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def job(
    ttl: int | None,
    *conditions: tuple[str, str, datetime.datetime | None],
    deleted: bool = False,
) -> Job:
    listed = tuple(JobCondition(type=type_, status=status, last_transition_time=at) for type_, status, at in conditions)
    return Job(
        metadata=ObjectMeta(namespace="default", name="a", deletion_timestamp=T0 if deleted else None),
        spec=JobSpec(ttl_seconds_after_finished=ttl),
        status=JobStatus(conditions=listed),
    )


@cases(
    "finished, seconds",
    {
        "has not finished": (job(10), None),
        "has no time to live": (job(None, ("Complete", "True", T0)), None),
        "is being deleted": (job(10, ("Complete", "True", T0), deleted=True), None),
        "a condition that is not True is no end": (job(10, ("Complete", "False", T0)), None),
        "an interim condition is no end": (job(10, ("SuccessCriteriaMet", "True", T0)), None),
        "complete, no time at all": (job(0, ("Complete", "True", T0)), 0),
        "complete": (job(10, ("Complete", "True", T0)), 10),
        "failed": (job(10, ("Failed", "True", T0)), 10),
        "terminal condition instead of the interim one": (
            job(
                10,
                ("FailureTarget", "True", T0 - datetime.timedelta(seconds=5)),
                ("Failed", "True", T0),
            ),
            10,
        ),
    },
)
def test_time_left(finished: Job, seconds: int | None) -> None:
    """TestTimeLeft."""
    assert expires_at(finished) == (None if seconds is None else T0 + datetime.timedelta(seconds=seconds))
    assert needs_cleanup(finished) is (seconds is not None)


def test_finished_job_without_a_finish_time_is_an_error() -> None:
    """TestTimeLeft, "Error case: Job unfinished time"."""
    with pytest.raises(NoFinishTime, match="default/a"):
        expires_at(job(10, ("Complete", "True", None)))


world = started(DESCRIPTOR)


async def create(world: World, name: str, ttl: int | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    }
    if ttl is not None:
        spec["ttlSecondsAfterFinished"] = ttl
    return await world.request("POST", JOBS, {"metadata": {"name": name}, "spec": spec})


async def finish(world: World, name: str) -> None:
    now = format_time(world.env.now())
    met = {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now}
    status = {"startTime": now, "completionTime": now, "conditions": [met, {**met, "type": "Complete"}]}
    await world.merge(f"{JOBS}/{name}/status", {"status": status})


async def test_expired_job_is_deleted_with_a_get_and_a_delete(world: World) -> None:
    """Traces 06d."""
    created = await create(world, "a", 30)
    await create(world, "stays", None)
    await asyncio.sleep(100)
    assert world.requests() == []
    await finish(world, "a")
    await finish(world, "stays")
    await asyncio.sleep(28)
    assert world.requests() == []
    await asyncio.sleep(4)
    assert world.requests() == ["get jobs a", "delete jobs a"]
    (options,) = world.bodies("delete", "jobs")
    assert options["propagationPolicy"] == "Foreground"
    assert options["preconditions"] == {"uid": created["metadata"]["uid"]}
    assert (await world.must_get(f"{JOBS}/a"))["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" not in (await world.must_get(f"{JOBS}/stays"))["metadata"]


async def test_increased_ttl_is_respected(world: World) -> None:
    await create(world, "a", 30)
    await finish(world, "a")
    await asyncio.sleep(20)
    await world.merge(f"{JOBS}/a", {"spec": {"ttlSecondsAfterFinished": 100}})
    await asyncio.sleep(70)
    assert "delete jobs a" not in world.requests()
    await asyncio.sleep(20)
    assert "delete jobs a" in world.requests()


async def test_decreased_ttl_is_respected(world: World) -> None:
    await create(world, "a", 3600)
    await finish(world, "a")
    await asyncio.sleep(20)
    await world.merge(f"{JOBS}/a", {"spec": {"ttlSecondsAfterFinished": 10}})
    await asyncio.sleep(1)
    assert "delete jobs a" in world.requests()


async def test_failed_deletion_is_retried(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="delete", resource="jobs", nth=1))
    await create(world, "a", 1)
    await finish(world, "a")
    await asyncio.sleep(10)
    assert world.requests().count("delete jobs a") == 2
