"""Jobs on the embedded API server in virtual time, with a kubelet that finishes pods, and with faults.

Counts are compared with the kubelet's record of succeeded pods. Invariants are checked after every second of a
scenario.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of
from tests.tables import cases

from pilothouse.client.interceptor import Rule, conflict, delay, fail, lose_answer, lose_request
from pilothouse.controllers.workloads.job import DESCRIPTOR, TRACKING, JobOptions
from pilothouse.env import Env, TaskGroup

JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORK = f"{JOBS}/work"
INDEX = "batch.kubernetes.io/job-completion-index"


class Kubelet:
    """Starts pods, terminates them after ``seconds`` with the exit code ``code``, removes deleted ones."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.code: Callable[[Doc], int] = lambda _pod: 0
        self.seconds = 1.0
        self._ends: dict[str, float] = {}
        self.succeeded: dict[str, None] = {}
        self.failed: dict[str, None] = {}
        self.indexes: dict[str, None] = {}

    async def run(self) -> None:
        revision = -1
        pods: list[Doc] = []
        while True:
            # Listed again only after a write: hundreds of finished pods are a long list, and there are many syncs.
            if self.world.store.revision != revision:
                revision = self.world.store.revision
                pods = (await self.world.must_get(PODS))["items"]
            for pod in pods:
                await self._sync_job(pod)
            await asyncio.sleep(0.2)

    async def _sync_job(self, pod: Doc) -> None:
        meta, phase = pod["metadata"], pod["status"].get("phase", "Pending")
        path, uid = f"{PODS}/{meta['name']}", meta["uid"]
        now = self.world.env.monotonic()
        if "deletionTimestamp" in meta:
            if meta.get("deletionGracePeriodSeconds", 0):
                await self.world.delete(path, grace=0)
            return
        if phase == "Pending":
            self._ends[uid] = now + self.seconds
            await self.world.merge(f"{path}/status", {"status": {"phase": "Running"}})
        elif phase == "Running" and now >= self._ends.get(uid, 0.0):
            code = self.code(pod)
            state = {"terminated": {"exitCode": code}}
            container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
            status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
            await self.world.merge(f"{path}/status", {"status": status})
            (self.failed if code else self.succeeded)[uid] = None
            if not code and INDEX in meta.get("annotations", {}):
                self.indexes[meta["annotations"][INDEX]] = None


@contextlib.asynccontextmanager
async def working(env: Env, options: JobOptions | None = None) -> AsyncIterator[Kubelet]:
    async with node_world.world(env) as world, TaskGroup("kubelet") as group:
        await world.start(DESCRIPTOR, options)
        kubelet = Kubelet(world)
        group.start(kubelet.run(), name="kubelet")
        yield kubelet
        group.cancel()


kubelet = fixture_of(working)


@pytest.fixture
async def world(kubelet: Kubelet) -> World:
    return kubelet.world


async def create(world: World, **spec: Any) -> None:
    template: Doc = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await world.request("POST", JOBS, {"metadata": {"name": "work"}, "spec": {"template": template, **spec}})


async def status_of(world: World) -> Doc:
    obj: Doc = (await world.must_get(WORK)).get("status", {})
    return obj


async def ended(world: World, kubelet: Kubelet, seconds: int = 300) -> Doc:
    """The status of the finished Job; no counter may exceed the actual number or decrease."""
    before: Doc = {}
    for _second in range(seconds):
        await asyncio.sleep(1)
        status = await status_of(world)
        if status.get("completedIndexes") is None:
            assert status.get("succeeded", 0) <= len(kubelet.succeeded)
        for name in ("succeeded", "failed"):
            assert status.get(name, 0) >= before.get(name, 0)
        before = status
        if {"Complete", "Failed"} & {c["type"] for c in status.get("conditions") or [] if c["status"] == "True"}:
            await asyncio.sleep(5)
            assert (await status_of(world)) == status, "what has ended stays as it is"
            assert not status.get("active") and not status.get("terminating")
            assert status["uncountedTerminatedPods"] == {}
            await no_finalizers(world)
            return status
    raise AssertionError(f"has not ended: {before}")


async def no_finalizers(world: World) -> None:
    for pod in (await world.must_get(PODS))["items"]:
        assert TRACKING not in pod["metadata"].get("finalizers", []), pod["metadata"]["name"]


def types(status: Doc) -> list[str]:
    return [f"{c['type']} {c['reason']}" for c in status["conditions"]]


async def test_four_completions_with_parallelism_two(world: World, kubelet: Kubelet) -> None:
    await create(world, completions=4, parallelism=2)
    status = await ended(world, kubelet)
    assert status["succeeded"] == 4 == len(kubelet.succeeded)
    assert types(status) == ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
    assert len(world.bodies("create", "pods")) == 4
    assert len(await world.events("Completed")) == 1


async def test_indexed_job_completes_each_index_once(world: World, kubelet: Kubelet) -> None:
    await create(world, completions=7, parallelism=3, completionMode="Indexed")
    status = await ended(world, kubelet)
    assert (status["succeeded"], status["completedIndexes"]) == (7, "0-6")
    bodies = world.bodies("create", "pods")
    assert sorted(body["metadata"]["annotations"][INDEX] for body in bodies) == list("0123456")
    assert {body["spec"]["hostname"] for body in bodies} == {f"work-{index}" for index in range(7)}
    assert bodies[0]["metadata"]["generateName"] == "work-0-"
    assert bodies[0]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


async def test_backoff_limit_exceeded_with_growing_delays(world: World, kubelet: Kubelet) -> None:
    """Traces 06b."""
    kubelet.code = lambda _pod: 1
    await create(world, backoffLimit=2)
    began = world.env.monotonic()
    status = await ended(world, kubelet)
    assert status["failed"] == 3 == len(kubelet.failed)
    assert types(status) == ["FailureTarget BackoffLimitExceeded", "Failed BackoffLimitExceeded"]
    assert "completionTime" not in status
    assert 30 < world.env.monotonic() - began < 50
    assert await world.events("BackoffLimitExceeded") == ["Job/work Job has reached the specified backoff limit"]


async def test_backoff_limit_per_index(world: World, kubelet: Kubelet) -> None:
    kubelet.code = lambda pod: int(pod["metadata"]["annotations"][INDEX] == "1")
    await create(world, completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1)
    status = await ended(world, kubelet)
    assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("0,2", "1", 2)
    assert types(status)[-1] == "Failed FailedIndexes"
    counts = [body["metadata"]["annotations"] for body in world.bodies("create", "pods")]
    of_one = [c["batch.kubernetes.io/job-index-failure-count"] for c in counts if c[INDEX] == "1"]
    assert of_one == ["0", "1"]


async def test_max_failed_indexes_exceeded(world: World, kubelet: Kubelet) -> None:
    kubelet.code = lambda _pod: 1
    limits = {"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}
    await create(world, completions=6, parallelism=2, completionMode="Indexed", **limits)
    status = await ended(world, kubelet)
    assert types(status)[-1] == "Failed MaxFailedIndexesExceeded"
    assert status["failed"] == 2


async def test_pod_failure_policy_ignore_and_fail_job(world: World, kubelet: Kubelet) -> None:
    codes = iter((7, 7, 42))
    kubelet.code = lambda _pod: next(codes)
    rules = [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    await create(world, backoffLimit=0, podFailurePolicy={"rules": rules})
    status = await ended(world, kubelet)
    assert status["failed"] == 1, "what was ignored does not count"
    (message,) = {c["message"] for c in status["conditions"]}
    assert "failed with exit code 42 matching FailJob rule at index 1" in message
    assert types(status) == ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]


async def test_success_policy_completes_the_job_without_counting_running_pods_as_failed(
    world: World, kubelet: Kubelet
) -> None:
    kubelet.seconds = 1000
    policy = {"rules": [{"succeededIndexes": "1"}]}
    await create(world, completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    await asyncio.sleep(2)
    for pod in (await world.must_get(PODS))["items"]:
        if pod["metadata"]["annotations"][INDEX] == "1":
            await world.merge(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": "Succeeded"}})
    status = await ended(world, kubelet)
    assert types(status) == ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"]
    assert (status["completedIndexes"], status["succeeded"]) == ("1", 1)


async def test_suspending_deletes_pods_without_counting_failures(world: World, kubelet: Kubelet) -> None:
    """Traces 06e."""
    kubelet.seconds = 1000
    await create(world, suspend=True, parallelism=2, completions=2)
    await asyncio.sleep(5)
    status = await status_of(world)
    assert types(status) == ["Suspended JobSuspended"] and "startTime" not in status
    await world.merge(WORK, {"spec": {"suspend": False}})
    await asyncio.sleep(5)
    status = await status_of(world)
    assert types(status) == ["Suspended JobResumed"] and status["active"] == 2 and "startTime" in status
    await world.merge(WORK, {"spec": {"suspend": True}})
    await asyncio.sleep(5)
    status = await status_of(world)
    assert types(status) == ["Suspended JobSuspended"] and "startTime" not in status
    assert (status.get("failed", 0), status.get("active", 0), status["terminating"]) == (0, 0, 0)
    assert (await world.must_get(PODS))["items"] == []
    order = [line.partition(" work")[0] for line in world.requests() if "pods" in line]
    assert order[-4:] == ["patch pods", "patch pods", "delete pods", "delete pods"]


@cases(
    "deadline, expected",
    {
        "resumed in time: startTime is reset": (300, ["Suspended JobResumed"]),
        "suspended beyond the deadline": (
            30,
            ["Suspended JobSuspended", "FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"],
        ),
    },
)
async def test_suspended_job_keeps_its_start_time_without_mutable_scheduling_directives(
    env: Env, deadline: int, expected: list[str]
) -> None:
    """``MutableSchedulingDirectivesForSuspendedJobs=false`` (``syncJob`` checks the deadline before it resumes)."""
    async with working(env, JobOptions(clear_start_time=False)) as kubelet:
        kubelet.seconds, world = 1000, kubelet.world
        await create(world, parallelism=2, completions=2, activeDeadlineSeconds=deadline)
        await asyncio.sleep(5)
        began = (await status_of(world))["startTime"]
        await world.merge(WORK, {"spec": {"suspend": True}})
        await asyncio.sleep(60)
        status = await status_of(world)
        assert types(status) == ["Suspended JobSuspended"] and status["startTime"] == began
        await world.merge(WORK, {"spec": {"suspend": False}})
        await asyncio.sleep(5)
        status = await status_of(world)
        assert types(status) == expected
        assert (status["startTime"] > began) == (expected == ["Suspended JobResumed"])


async def test_suspended_condition_waits_for_all_pods_to_be_deleted(world: World, kubelet: Kubelet) -> None:
    """Also with more pods than one sync creates or deletes otherwise (v1.36 ``manageJob``)."""
    kubelet.seconds = 1000
    await create(world, parallelism=501, completions=501)
    await asyncio.sleep(60)
    assert (await status_of(world))["active"] == 501
    world.seen.clear()
    await world.merge(WORK, {"spec": {"suspend": True}})
    await asyncio.sleep(60)
    statuses = [body["status"] for body in world.bodies("update", "jobs/status")]
    assert next(item for item in statuses if types(item) == ["Suspended JobSuspended"]).get("active", 0) == 0
    assert len([line for line in world.requests() if line.startswith("delete pods ")]) == 501


async def test_active_deadline_fails_the_job(world: World, kubelet: Kubelet) -> None:
    kubelet.seconds = 1000
    await create(world, parallelism=2, activeDeadlineSeconds=20)
    status = await ended(world, kubelet)
    assert types(status) == ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]
    assert status["failed"] == 2


async def test_job_managed_by_another_controller_is_skipped(world: World, kubelet: Kubelet) -> None:
    await create(world, managedBy="example.com/other")
    await asyncio.sleep(20)
    assert world.requests() == []


async def test_tracking_finalizer_is_removed_when_the_job_is_deleted(world: World, kubelet: Kubelet) -> None:
    """kubernetes#108645: also from a pod that was already terminating."""
    kubelet.seconds = 1000
    await create(world, parallelism=3, completions=3)
    await asyncio.sleep(3)
    first = (await world.pods())[0]
    await world.delete(f"{PODS}/{first}")
    await world.request("DELETE", WORK, {"propagationPolicy": "Orphan"})
    await world.merge(WORK, {"metadata": {"finalizers": None}})
    await asyncio.sleep(10)
    assert await world.get(WORK) is None
    await no_finalizers(world)


async def test_pod_keeps_its_tracking_finalizer_if_the_job_is_not_yet_cached(world: World, kubelet: Kubelet) -> None:
    """As after a takeover, when pods are listed after Jobs."""
    kubelet.seconds = 1000
    world.faults.add(Rule(delay(30.0, 30.0), verb="watch", resource="jobs.batch"))
    await create(world, managedBy="example.com/other")
    uid = (await world.must_get(WORK))["metadata"]["uid"]
    for name, owner in (("its", uid), ("gone", "another-uid")):
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": owner, "controller": True}
        meta = {"name": name, "finalizers": [TRACKING], "ownerReferences": [reference]}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await world.request("POST", PODS, {"metadata": meta, "spec": spec})
    await asyncio.sleep(10)
    assert [line for line in world.requests() if not line.startswith("get jobs")] == ["patch pods gone"]
    assert (await world.must_get(f"{PODS}/its"))["metadata"]["finalizers"] == [TRACKING]


FAULTS: dict[str, tuple[Any, Doc]] = {
    "conflicts": (conflict(), {"verb": "update", "resource": "jobs.batch", "probability": 0.3}),
    "failing patches": (fail(500), {"verb": "patch", "resource": "pods", "probability": 0.4}),
    "failing creates": (fail(500), {"verb": "create", "resource": "pods", "probability": 0.3}),
    "lost answers": (lose_answer(), {"verb": "write", "probability": 0.2}),
    "lost requests": (lose_request(), {"verb": "write", "probability": 0.2}),
    "slow watches": (delay(0.1, 4.0), {"verb": "watch"}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("indexed", [False, True], ids=["counted", "indexed"])
async def test_completions_are_exact_under_faults(
    world: World, kubelet: Kubelet, fault: str, indexed: bool, seed: int
) -> None:
    turn = iter(range(10_000))
    kubelet.code = lambda _pod: int(next(turn) % 4 == seed % 4)
    action, which = FAULTS[fault]
    world.faults.add(Rule(action, **which))
    more = {"completionMode": "Indexed"} if indexed else {}
    await create(world, completions=6, parallelism=3, backoffLimit=100, **more)
    status = await ended(world, kubelet, 900)
    assert types(status)[-1] == "Complete CompletionsReached"
    assert status["succeeded"] == 6
    if indexed:
        assert sorted(kubelet.indexes) == list("012345")
    else:
        assert len(kubelet.succeeded) == 6, "neither over- nor under-counted"
    assert status.get("failed", 0) == len(kubelet.failed)
