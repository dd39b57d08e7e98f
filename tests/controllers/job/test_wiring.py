"""Ownership of pods and events that enqueue a Job, on the embedded API server in virtual time.

Scenarios mirror ``TestGetPodsForJob``, ``TestAddPod…``, ``TestUpdatePod…``, ``TestDeletePod…`` and
``TestUpdateJobRequeue`` of ``pkg/controller/job/job_controller_test.go``, named in brackets. No kubelet runs: pods stay
pending.
"""

import asyncio
from typing import Any

import pytest
from tests.controllers.node_world import PODS, Doc, World, started

from pilothouse.client.interceptor import Rule, fail, namespace_ends
from pilothouse.controllers.workloads.job import DESCRIPTOR, TRACKING

JOBS = "/apis/batch/v1/namespaces/default/jobs"
APP = {"app": "work"}


world = started(DESCRIPTOR)


async def create(world: World, name: str = "work", labels: Doc = APP, **spec: Any) -> Doc:
    """A Job with a selector of its user's, so that several may select the same pods."""
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [_CONTAINER]}}
    body = {"manualSelector": True, "selector": {"matchLabels": labels}, "template": template}
    return await world.request("POST", JOBS, {"metadata": {"name": name}, "spec": {**body, **spec}})


_CONTAINER = {"name": "c", "image": "i"}


def reference_to(job: Doc) -> Doc:
    meta = job["metadata"]
    known = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return {**known, "controller": True, "blockOwnerDeletion": True}


async def create_pod(world: World, name: str, owner: Doc | None = None, labels: Doc = APP) -> None:
    meta: Doc = {"name": name, "labels": labels}
    if owner is not None:
        meta |= {"ownerReferences": [reference_to(owner)], "finalizers": [TRACKING]}
    spec = {"containers": [_CONTAINER], "restartPolicy": "Never"}
    await world.request("POST", PODS, {"metadata": meta, "spec": spec})


async def owners(world: World) -> dict[str, tuple[str, bool]]:
    """Of each pod the name of its Job, and whether it has the finalizer."""
    result = {}
    for pod in (await world.must_get(PODS))["items"]:
        meta = pod["metadata"]
        owner = next((reference["name"] for reference in meta.get("ownerReferences", [])), "")
        result[meta["name"]] = (owner, TRACKING in meta.get("finalizers", []))
    return result


async def wait_for_sync() -> None:
    await asyncio.sleep(3.0)


async def test_matching_orphan_is_adopted_with_the_tracking_finalizer(world: World) -> None:
    """(GetPodsForJob, "adopt", "only matching"; AddPodOrphan)"""
    other = await create(world, "other", {"of": "other"}, parallelism=1, completions=1)
    await create_pod(world, "theirs", other, {**APP, "of": "other"})
    await create_pod(world, "loose")
    await create_pod(world, "stranger", labels={"app": "y"})
    await create(world, parallelism=2, completions=2)
    await wait_for_sync()
    result = await owners(world)
    assert result["loose"] == ("work", True)
    assert result["theirs"] == ("other", True)
    assert result["stranger"] == ("", False)
    assert [name for name, (owner, _) in result.items() if owner == "work" and name != "loose"] != []
    assert sum(1 for owner, _ in result.values() if owner == "work") == 2


@pytest.mark.parametrize("late", [False, True], ids=["cache up to date", "cache behind"])
async def test_terminating_job_adopts_nothing(world: World, late: bool) -> None:
    """(GetPodsForJob, "no adopt when deleting", "no adopt when deleting race")"""
    await create(world, parallelism=1, completions=1)
    await wait_for_sync()
    hold = world.faults.hold(resource="jobs") if late else None
    if hold is not None:
        hold.__enter__()
    await world.merge(f"{JOBS}/work", {"metadata": {"finalizers": ["example.com/wait"]}})
    await world.request("DELETE", f"{JOBS}/work", {"propagationPolicy": "Orphan"})
    world.seen.clear()
    await create_pod(world, "loose")
    await wait_for_sync()
    assert ("get jobs work" in world.requests()) is late
    if hold is not None:
        hold.__exit__(None, None, None)
    await wait_for_sync()
    assert (await owners(world))["loose"] == ("", False)


async def test_released_pod_loses_the_tracking_finalizer(world: World) -> None:
    """(GetPodsForJob, "release"; UpdatePodOrphanWithNewLabels, once it fits again)"""
    await create(world, parallelism=1, completions=1)
    await wait_for_sync()
    (name,) = await owners(world)
    await world.merge(f"{PODS}/{name}", {"metadata": {"labels": {"app": "elsewhere"}}})
    await wait_for_sync()
    result = await owners(world)
    assert result.pop(name) == ("", False)
    assert list(result.values()) == [("work", True)], "another one has its place"
    await world.merge(f"{JOBS}/work", {"spec": {"parallelism": 2}})
    await world.merge(f"{PODS}/{name}", {"metadata": {"labels": APP}})
    await asyncio.sleep(0.1)
    assert "patch" in {sent.call.verb for sent in world.seen}
    await wait_for_sync()
    assert sum(1 for owner, _ in (await owners(world)).values() if owner == "work") == 1, "one completion is missing"


async def test_changed_controller_ref_enqueues_both_jobs(world: World) -> None:
    """(UpdatePodChangeControllerRef): the former Job creates another pod, the other one has one too many."""
    await create(world, "one", parallelism=1, completions=1)
    second = await create(world, "two", parallelism=1, completions=1)
    await wait_for_sync()
    owned_name = next(name for name, (owner, _) in (await owners(world)).items() if owner == "one")
    await world.merge(f"{PODS}/{owned_name}", {"metadata": {"ownerReferences": [reference_to(second)]}})
    await wait_for_sync()
    pods = await world.pods()
    result = {name: owner for name, (owner, _) in (await owners(world)).items() if name in pods}
    assert sorted(result.values()) == ["one", "two"]


async def test_pod_without_owner_is_readopted(world: World) -> None:
    """(UpdatePodRelease)"""
    await create(world, parallelism=1, completions=1)
    await wait_for_sync()
    (name,) = await owners(world)
    await world.merge(f"{PODS}/{name}", {"metadata": {"ownerReferences": None, "finalizers": None}})
    await wait_for_sync()
    assert (await owners(world))[name] == ("work", True)


async def test_deleted_orphan_enqueues_nothing_and_deleted_own_pod_is_replaced(world: World) -> None:
    """(DeletePod, DeletePodOrphan)"""
    await create(world, parallelism=1, completions=1)
    await create_pod(world, "stranger", labels={"app": "y"})
    await wait_for_sync()
    world.seen.clear()
    await world.delete(f"{PODS}/stranger", grace=0)
    await wait_for_sync()
    assert world.requests() == []
    (name,) = await owners(world)
    await world.delete(f"{PODS}/{name}", grace=0)
    await asyncio.sleep(15.0)
    (other,) = await owners(world)
    assert other != name


async def test_spec_update_is_synced_immediately_and_pod_updates_are_batched(world: World) -> None:
    """(UpdateJobRequeue; JobBackoff, "failure with pod updates batching")"""
    await create(world, parallelism=1, completions=3)
    await wait_for_sync()
    world.seen.clear()
    await world.merge(f"{JOBS}/work", {"spec": {"parallelism": 2}})
    await asyncio.sleep(0.1)
    assert "create pods " in world.requests()
    await wait_for_sync()
    world.seen.clear()
    (name, *_) = await world.pods()
    await world.merge(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
    await asyncio.sleep(0.9)
    assert world.requests() == []
    await asyncio.sleep(0.2)
    assert "update jobs/status work" in world.requests()


async def test_failed_sync_is_requeued_with_backoff(world: World) -> None:
    """(JobApiBackoffReset, SyncJobUpdateRequeue)"""
    refused = Rule(fail(500), verb="create", resource="pods", times=3)
    world.faults.add(refused)
    await create(world, parallelism=1, completions=1)
    await asyncio.sleep(0.5)
    assert len(world.bodies("create", "pods")) == 1
    await asyncio.sleep(1.0)  # after 1 s
    assert len(world.bodies("create", "pods")) == 2
    await asyncio.sleep(1.0)  # after 2 s more, not yet
    assert len(world.bodies("create", "pods")) == 2
    await asyncio.sleep(10.0)
    assert len(world.bodies("create", "pods")) == 4
    assert len(await world.pods()) == 1


async def test_terminating_namespace_stops_pod_creation_after_one_attempt(world: World) -> None:
    """No event, and no further attempt for five minutes."""
    refused = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
    await create(world, parallelism=5, completions=5)
    await asyncio.sleep(200)
    assert refused.hits == 1
    assert (await world.must_get("/api/v1/namespaces/default/events"))["items"] == []
