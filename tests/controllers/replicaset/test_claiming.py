"""Adopting and releasing. Rows of the table in v1.36 ``pkg/controller/controller_ref_manager.go``, on a real server."""

from tests.controllers.api_world import PODS, Doc
from tests.controllers.replicaset.world import SETS, WEB, World

from pilothouse.client.interceptor import Rule, fail


def owner_reference(owner: Doc, **changes: object) -> Doc:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
        **changes,
    }


async def test_orphans_are_adopted_after_one_live_get_of_the_owner(world: World) -> None:
    """Upstream's trace 02: one GET for both, patches with the uid, then the missing pods are created."""
    first, second = await world.create_pod("orphan-a"), await world.create_pod("orphan-b")
    await world.create_pod("stranger", labels={"app": "other"})
    await world.wait_for_sync()
    owner = await world.create_set(3)
    await world.wait_for_sync()
    verbs = [(request.call.verb, request.call.resource, request.call.name) for request in world.requests]
    assert verbs[:3] == [
        ("get", "replicasets", "web"),
        ("patch", "pods", "orphan-a"),
        ("patch", "pods", "orphan-b"),
    ]
    assert world.bodies("patch", "pods") == [
        {"metadata": {"ownerReferences": [owner_reference(owner)], "uid": pod["metadata"]["uid"]}}
        for pod in (first, second)
    ]
    assert {item.request.headers["content-type"] for item in world.sent("patch", "pods")} == {
        "application/strategic-merge-patch+json"
    }
    assert len(world.sent("create", "pods")) == 1
    assert len(await world.owned()) == 3
    assert len(world.sent("get", "replicasets")) == 1


async def test_late_orphan_is_adopted_and_the_surplus_deleted(world: World) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    await world.create_pod("late")
    await world.wait_for_sync()
    assert len(await world.owned()) == 1
    assert len(world.sent("delete", "pods")) == 1


async def test_non_matching_pod_is_released_and_replaced(world: World) -> None:
    owner = await world.create_set(2)
    await world.wait_for_sync()
    [name, other] = await world.owned()
    pod = await world.merge(f"{PODS}/{name}", {"metadata": {"labels": {"app": "debug"}}})
    await world.wait_for_sync()
    assert world.bodies("patch", "pods") == [
        {
            "metadata": {
                "uid": pod["metadata"]["uid"],
                "ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}],
            }
        }
    ]
    assert not world.sent("get", "replicasets"), "giving up needs no look at the live owner"
    assert "ownerReferences" not in (await world.request("GET", f"{PODS}/{name}"))["metadata"]
    assert other in await world.owned()
    assert len(await world.owned()) == 2
    await world.merge(f"{PODS}/{name}", {"metadata": {"labels": {"app": "web"}}})
    await world.wait_for_sync()
    assert len(await world.owned()) == 2, "adopted again, and one of the three is gone"
    assert len(world.sent("delete", "pods")) == 1


async def test_pod_of_another_controller_is_ignored(world: World) -> None:
    """Upstream, TestDoNotPatchPodWithOtherControlRef."""
    other = {"metadata": {"name": "other", "uid": "12345678-0000-0000-0000-000000000000"}}
    await world.create_pod("theirs", ownerReferences=[owner_reference(other)])
    await world.create_set(2)
    await world.wait_for_sync()
    assert not world.sent("patch", "pods")
    assert len(await world.owned()) == 2


async def test_terminated_and_terminating_orphans_are_not_adopted(world: World) -> None:
    await world.create_pod("done")
    await world.report("done", phase="Succeeded", ready=False)
    await world.create_pod("going")
    await world.request("DELETE", f"{PODS}/going")
    await world.wait_for_sync()
    await world.create_set(1)
    await world.wait_for_sync()
    assert not world.sent("patch", "pods")
    assert len(await world.owned()) == 1


async def test_terminating_owner_only_updates_its_status(world: World) -> None:
    """Upstream, TestDoNotAdoptOrCreateIfBeingDeleted."""
    await world.create_set(2, finalizers=["example.com/hold"])
    await world.wait_for_sync()
    await world.request("DELETE", WEB)
    await world.wait_for_sync()
    [name, other] = await world.owned()
    await world.create_pod("orphan")
    await world.merge(f"{PODS}/{name}", {"metadata": {"labels": {"app": "debug"}}})
    await world.remove(other)
    await world.wait_for_sync()
    assert not world.sent("patch", "pods")
    assert len(world.sent("create", "pods")) == 2
    status = await world.status()
    assert (status["replicas"], status["observedGeneration"]) == (0, 2)


async def test_owner_is_read_live_before_an_adoption(world: World) -> None:
    """Upstream, TestDoNotAdoptOrCreateIfBeingDeletedRace."""
    await world.create_set(1, finalizers=["example.com/hold"])
    await world.wait_for_sync()
    with world.faults.hold(resource="replicasets"):
        await world.request("DELETE", WEB)
        await world.create_pod("orphan")
        await world.wait_for_sync()
        assert world.sent("get", "replicasets")
        assert not world.sent("patch", "pods")
        assert not world.sent("delete", "pods"), "the sync ends there"


async def test_recreated_owner_does_not_inherit_expectations(world: World) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    with world.faults.hold(resource="replicasets"):
        await world.request("DELETE", WEB, {"propagationPolicy": "Orphan"})
        await world.merge(WEB, {"metadata": {"finalizers": None}})
        await world.create_set(1, labels={"app": "new"})
        await world.create_pod("orphan")
        await world.wait_for_sync()
        assert not world.sent("patch", "pods")
    await world.wait_for_sync()
    assert not world.sent("patch", "pods"), "the new one selects other pods"
    assert (await world.status())["replicas"] == 1


async def test_orphan_is_adopted_by_one_of_two_owners(world: World) -> None:
    await world.create_set(0)
    await world.create_set(0, "twin")
    await world.wait_for_sync()
    await world.scale(1)
    await world.scale(1, f"{SETS}/twin")
    await world.create_pod("orphan")
    await world.wait_for_sync(30)
    assert len(await world.owned("web")) == 1
    assert len(await world.owned("twin")) == 1
    items = (await world.request("GET", PODS))["items"]
    assert all(len(item["metadata"]["ownerReferences"]) == 1 for item in items)


async def test_failed_adoption_fails_the_sync_and_is_retried(world: World) -> None:
    """Upstream, TestPatchPodFails."""
    rule = world.faults.add(Rule(fail(500, "InternalError", "no"), verb="patch", resource="pods", times=4))
    await world.create_pod("a")
    await world.create_pod("b")
    await world.wait_for_sync()
    await world.create_set(2)
    await world.wait_for_sync(0.001)
    assert not world.sent("create", "pods")
    await world.wait_for_sync()
    assert rule.hits == 4
    assert await world.owned() == ["a", "b"]


async def test_non_matching_pod_is_released_without_a_replacement(world: World) -> None:
    await world.create_set(2)
    await world.wait_for_sync()
    name, other = await world.owned()
    with world.faults.hold(resource="pods"), world.faults.hold(resource="replicasets"):
        await world.merge(f"{PODS}/{name}", {"metadata": {"labels": {"app": "debug"}}})
        await world.scale(1)
    await world.wait_for_sync()
    assert await world.owned() == [other]
    assert not world.sent("delete", "pods")


async def test_pod_with_a_changed_controller_ref_is_replaced(world: World) -> None:
    await world.create_set(1)
    await world.wait_for_sync()
    [name] = await world.owned()
    other = {"metadata": {"name": "other", "uid": "12345678-0000-0000-0000-000000000000"}}
    await world.merge(f"{PODS}/{name}", {"metadata": {"ownerReferences": [owner_reference(other)]}})
    await world.wait_for_sync()
    assert len(await world.owned()) == 1
    assert name not in await world.owned()


async def test_pod_losing_an_owner_of_another_kind_is_adopted(world: World) -> None:
    job = {"metadata": {"name": "job", "uid": "12345678-0000-0000-0000-000000000000"}}
    await world.create_pod("loose", ownerReferences=[owner_reference(job, apiVersion="batch/v1", kind="Job")])
    await world.create_set(0)
    await world.wait_for_sync()
    await world.merge(f"{PODS}/loose", {"metadata": {"ownerReferences": None}})
    await world.wait_for_sync()
    assert [item.call.name for item in world.sent("patch", "pods")] == ["loose"]
