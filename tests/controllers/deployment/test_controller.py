"""The controller on the embedded API server, in virtual time: ownership of ReplicaSets, and events that enqueue.

Scenarios mirror v1.36 ``pkg/controller/deployment/deployment_controller_test.go``, named in brackets. No controller of
ReplicaSets runs: the test writes what one would.
"""

import asyncio
from typing import Any

import pytest
from tests.controllers.node_world import PODS, Doc, World, started

from pilothouse.controllers.workloads.deployment import DESCRIPTOR

ALL = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
APP = {"app": "web"}


world = started(DESCRIPTOR)


def template(image: str = "a") -> Doc:
    return {"metadata": {"labels": APP}, "spec": {"containers": [{"name": "main", "image": image}]}}


async def create(world: World, name: str = "web", **spec: Any) -> Doc:
    body = {"replicas": 1, "selector": {"matchLabels": APP}, "template": template(), **spec}
    return await world.request("POST", ALL, {"metadata": {"name": name}, "spec": body})


async def create_replica_set(world: World, name: str, owner: Doc | None = None, image: str = "a") -> Doc:
    """A ReplicaSet that a user created."""
    meta: Doc = {"name": name, "labels": APP}
    if owner is not None:
        meta["ownerReferences"] = [reference_to(owner)]
    spec = {"replicas": 1, "selector": {"matchLabels": APP}, "template": template(image)}
    return await world.request("POST", SETS, {"metadata": meta, "spec": spec})


def reference_to(owner: Doc) -> Doc:
    meta = owner["metadata"]
    known = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"]}
    return {**known, "controller": True, "blockOwnerDeletion": True}


async def sets(world: World) -> dict[str, str]:
    """By name of each ReplicaSet that of its owner."""
    replica_set = (await world.must_get(SETS))["items"]
    return {
        item["metadata"]["name"]: next((ref["name"] for ref in item["metadata"].get("ownerReferences", [])), "")
        for item in replica_set
    }


async def set_image(world: World, name: str, image: str) -> None:
    containers = [{"name": "main", "image": image}]
    await world.merge(f"{ALL}/{name}", {"spec": {"template": {"spec": {"containers": containers}}}})


async def wait_for_sync() -> None:
    await asyncio.sleep(2.0)


async def test_deployment_creates_its_replica_set(world: World) -> None:
    """(SyncDeploymentCreatesReplicaSet)"""
    made = await create(world)
    await wait_for_sync()
    ((name, owner),) = (await sets(world)).items()
    assert owner == "web"
    created, *others = world.requests(reads=False)
    assert created == "create replicasets "
    assert set(others) == {"update deployments/status web"}
    replica_set = await world.must_get(f"{SETS}/{name}")
    assert replica_set["metadata"]["ownerReferences"] == [reference_to(made)]
    assert (await world.must_get(f"{ALL}/web"))["status"]["observedGeneration"] == 1


async def test_terminating_deployment_only_syncs_its_status(world: World) -> None:
    """(SyncDeploymentDontDoAnythingDuringDeletion)"""
    await create(world)
    await wait_for_sync()
    await world.merge(f"{ALL}/web", {"metadata": {"finalizers": ["example.com/wait"]}})
    await world.request("DELETE", f"{ALL}/web", {"propagationPolicy": "Orphan"})
    await wait_for_sync()
    world.seen.clear()
    await set_image(world, "web", "b")
    await wait_for_sync()
    assert set(world.requests()) == {"update deployments/status web"}
    assert len(await sets(world)) == 1
    obj = await world.must_get(f"{ALL}/web")
    assert obj["status"]["observedGeneration"] == obj["metadata"]["generation"]


async def test_deployment_deleted_on_the_server_adopts_nothing(world: World) -> None:
    """(SyncDeploymentDeletionRace): the owner is read live before an adoption."""
    await create(world, paused=True)
    await wait_for_sync()
    with world.faults.hold(resource="deployments"):
        await world.merge(f"{ALL}/web", {"metadata": {"finalizers": ["example.com/wait"]}})
        await world.request("DELETE", f"{ALL}/web", {"propagationPolicy": "Orphan"})
        world.seen.clear()
        await create_replica_set(world, "loose")
        await wait_for_sync()
        assert "get deployments web" in world.requests()
        assert world.bodies("patch", "replicasets") == []
    await wait_for_sync()
    assert (await sets(world))["loose"] == ""


async def test_deployments_with_overlapping_selectors_keep_their_own_replica_sets(world: World) -> None:
    """(GetReplicaSetsForDeployment; AddReplicaSet, UpdateReplicaSet)"""
    await create(world, "one")
    await create(world, "two")
    await wait_for_sync()
    before = await sets(world)
    assert sorted(before.values()) == ["one", "two"]
    await set_image(world, "one", "b")
    await wait_for_sync()
    added = {name: owner for name, owner in (await sets(world)).items() if name not in before}
    assert list(added.values()) == ["one"]
    world.seen.clear()
    owned_name = next(name for name, owner in before.items() if owner == "two")
    status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1}
    await world.merge(f"{SETS}/{owned_name}/status", {"status": status})
    await wait_for_sync()
    assert set(world.requests()) == {"update deployments/status two"}


async def test_matching_orphans_are_adopted_and_others_released(world: World) -> None:
    """(GetReplicaSetsForDeploymentAdoptRelease; AddReplicaSetOrphan, UpdateReplicaSetOrphanWithNewLabels)"""
    await create(world)
    await wait_for_sync()
    (own,) = await sets(world)
    await create_replica_set(world, "loose", image="old")
    await world.request("POST", SETS, {"metadata": {"name": "other", "labels": {"app": "x"}}, "spec": _of_another()})
    await wait_for_sync()
    assert await sets(world) == {own: "web", "loose": "web", "other": ""}
    await world.merge(f"{SETS}/loose", {"metadata": {"labels": {"app": "elsewhere"}}})
    await wait_for_sync()
    assert (await sets(world))["loose"] == ""
    await world.merge(f"{SETS}/loose", {"metadata": {"labels": APP}})
    await wait_for_sync()
    assert (await sets(world))["loose"] == "web"


def _of_another() -> Doc:
    labels = {"app": "x"}
    return {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "a"}]}},
    }


async def test_changed_controller_ref_enqueues_both_deployments(world: World) -> None:
    """(UpdateReplicaSetChangeControllerRef): the former owner creates another one, the new one has one too many."""
    await create(world, "one", template=template("a"))
    second = await create(world, "two", template=template("b"))
    await wait_for_sync()
    before = await sets(world)
    owned_name = next(name for name, owner in before.items() if owner == "one")
    world.seen.clear()
    await world.merge(f"{SETS}/{owned_name}", {"metadata": {"ownerReferences": [reference_to(second)]}})
    await wait_for_sync()
    after = await sets(world)
    assert after[owned_name] == "two"
    assert sorted(after.values()) == ["one", "two", "two"]
    assert "update deployments/status one" in world.requests()
    assert "update deployments/status two" in world.requests()


async def test_replica_set_without_owner_is_readopted(world: World) -> None:
    """(UpdateReplicaSetRelease)"""
    await create(world)
    await wait_for_sync()
    (name,) = await sets(world)
    await world.merge(f"{SETS}/{name}", {"metadata": {"ownerReferences": None}})
    await wait_for_sync()
    assert await sets(world) == {name: "web"}


async def test_deleted_replica_set_is_recreated(world: World) -> None:
    """(DeleteReplicaSet)"""
    await create(world)
    await wait_for_sync()
    (name,) = await sets(world)
    uid = (await world.must_get(f"{SETS}/{name}"))["metadata"]["uid"]
    await world.request("DELETE", f"{SETS}/{name}", {"propagationPolicy": "Background"})
    await wait_for_sync()
    assert (await world.must_get(f"{SETS}/{name}"))["metadata"]["uid"] != uid


async def test_deletion_of_an_orphan_replica_set_enqueues_nothing(world: World) -> None:
    """(DeleteReplicaSetOrphan)"""
    await create(world)
    await world.request("POST", SETS, {"metadata": {"name": "other", "labels": {"app": "x"}}, "spec": _of_another()})
    await wait_for_sync()
    world.seen.clear()
    await world.request("DELETE", f"{SETS}/other", {"propagationPolicy": "Background"})
    await wait_for_sync()
    assert world.requests() == []


async def test_oldest_replica_set_with_the_template_is_the_new_one(world: World) -> None:
    """``util/deployment_util_test.go``: TestFindNewReplicaSet, TestFindOldReplicaSets."""
    for name in ("z-older", "a-younger"):
        await create_replica_set(world, name)
        await asyncio.sleep(1.5)
    await create_replica_set(world, "old", image="b")
    await create(world, replicas=1)
    await wait_for_sync()
    assert await sets(world) == {"z-older": "web", "a-younger": "web", "old": "web"}
    result = [await world.must_get(f"{SETS}/{name}") for name in ("z-older", "a-younger", "old")]
    revision = "deployment.kubernetes.io/revision"
    assert [item["metadata"].get("annotations", {}).get(revision) for item in result] == ["1", None, None]
    assert result[0]["spec"]["replicas"] == 1


async def test_requested_rollback_is_performed_once(world: World) -> None:
    """(ReentrantRollback): the annotation is removed with the template update."""
    await create(world)
    await wait_for_sync()
    await set_image(world, "web", "b")
    await wait_for_sync()
    annotations = {"deprecated.deployment.rollback.to": "1"}
    await world.merge(f"{ALL}/web", {"metadata": {"annotations": annotations}})
    await wait_for_sync()
    obj = await world.must_get(f"{ALL}/web")
    assert obj["spec"]["template"]["spec"]["containers"][0]["image"] == "a"
    assert obj["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "3"}
    assert len(await sets(world)) == 2
    assert len(await world.events("DeploymentRollback")) == 1
    world.seen.clear()
    await asyncio.sleep(60)
    assert world.requests() == []


@pytest.mark.parametrize("second", [False, True], ids=["owned ReplicaSet", "orphaned ReplicaSet"])
async def test_recreate_waits_for_the_last_old_pod(world: World, second: bool) -> None:
    """(PodDeletionEnqueuesRecreateDeployment, PodDeletionDoesntEnqueueRecreateDeployment, …PartialReplicaSetOwnership…;
    GetPodMapForReplicaSets: pods without the ReplicaSet for owner do not count)"""
    await create(world, strategy={"type": "Recreate"})
    await wait_for_sync()
    (old,) = await sets(world)
    replica_set = await world.must_get(f"{SETS}/{old}")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": old, "uid": replica_set["metadata"]["uid"]}
    for name in ("a", "b"):
        await world.pod(name, labels=APP, ownerReferences=[{**owner, "controller": True}])
    await world.pod("stranger", labels=APP)
    if second:
        await world.request(
            "POST", SETS, {"metadata": {"name": "other", "labels": {"app": "x"}}, "spec": _of_another()}
        )
    await set_image(world, "web", "b")
    await wait_for_sync()
    emptied = await world.must_get(f"{SETS}/{old}")
    assert emptied["spec"]["replicas"] == 0
    status = {"replicas": 0, "observedGeneration": emptied["metadata"]["generation"]}
    await world.merge(f"{SETS}/{old}/status", {"status": status})
    await wait_for_sync()
    world.seen.clear()
    await world.delete(f"{PODS}/a", grace=0)
    await wait_for_sync()
    assert world.requests() == [], "one is left: nobody looks"
    await world.delete(f"{PODS}/b", grace=0)
    await wait_for_sync()
    assert "create replicasets " in world.requests()
