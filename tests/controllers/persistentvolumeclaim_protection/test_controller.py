"""The controller on the embedded API server, in virtual time: events that enqueue, requests, faults.

Cases of ``TestPVCProtectionController``, ``pkg/controller/volume/pvcprotection/pvc_protection_controller_test.go``
(read in stored public copies of before and after v1.31's batches, not of v1.36 itself), have its words in their ids
or first lines.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of, wait_for_sync
from tests.tables import cases

from pilothouse.client.interceptor import Break, Rule, conflict, fail, gone, lose_answer
from pilothouse.controllers.volumes.persistentvolumeclaim_protection import DESCRIPTOR
from pilothouse.controllers.volumes.persistentvolumeclaim_protection.controller import FINALIZER
from pilothouse.env import Env

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
ELSEWHERE = "/api/v1/namespaces/elsewhere/persistentvolumeclaims"
NO_GRACE = 0
LIST, REMOVE = "list pods", "update persistentvolumeclaims pvc1"

Step = Callable[[World], Awaitable[None]]


async def claim(world: World, name: str = "pvc1", **metadata: Any) -> Doc:
    """A claim; admission gives it the finalizer."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return await world.request("POST", CLAIMS, {"metadata": {"name": name, **metadata}, "spec": spec})


async def user(world: World, *claims: str, node: str = "node1", phase: str = "Pending", name: str = "pod1") -> Doc:
    """A pod that uses these claims, and an emptyDir."""
    volumes: list[Doc] = [{"name": item, "persistentVolumeClaim": {"claimName": item}} for item in claims]
    spec: Doc = {
        "containers": [{"name": "main", "image": "pause"}],
        "volumes": [*volumes, {"name": "empty", "emptyDir": {}}],
    }
    if node:
        spec["nodeName"] = node
    created = await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    await world.merge(f"{PODS}/{name}/status", {"status": {"phase": phase}})
    return created


def namespaced_requests(world: World) -> list[str]:
    """The controller's requests in the namespace."""
    calls = [sent.call for sent in world.seen if sent.call.namespace]
    return [f"{call.verb} {call.resource} {call.name}".strip() for call in calls]


@contextlib.asynccontextmanager
async def protecting(env: Env, *, before: Step | None = None) -> AsyncIterator[World]:
    """A world in which the controller runs."""
    async with node_world.world(env) as world:
        if before is not None:
            await before(world)
        await world.start(DESCRIPTOR)
        yield world


world = fixture_of(protecting)


async def unprotected_claim(world: World) -> None:
    await claim(world)
    await world.merge(f"{CLAIMS}/pvc1", {"metadata": {"finalizers": None}})


async def deleted_claim(world: World) -> None:
    await claim(world)
    await world.delete(f"{CLAIMS}/pvc1")


async def claim_and_pod(world: World, *claims: str, **pod: Any) -> None:
    await user(world, *claims, **pod)
    await deleted_claim(world)


@cases(
    "before, expected",
    {
        "PVC without finalizer -> finalizer is added": (unprotected_claim, [REMOVE]),
        "PVC with finalizer -> no action": (claim, []),
        "deleted PVC with finalizer -> finalizer is removed": (deleted_claim, [LIST, REMOVE]),
        "deleted PVC with finalizer + pod with the PVC exists -> finalizer is not removed": (
            lambda world: claim_and_pod(world, "pvc1"),
            [],
        ),
        "deleted PVC with finalizer + pod with unrelated PVC and EmptyDir exists -> finalizer is removed": (
            lambda world: claim_and_pod(world, "unrelated"),
            [LIST, REMOVE],
        ),
        "deleted PVC with finalizer + pod with the PVC finished but is not deleted -> finalizer is not removed": (
            lambda world: claim_and_pod(world, "pvc1", phase="Failed"),
            [],
        ),
        "updated running Pod -> no action": (lambda world: claim_and_pod(world, "pvc1", phase="Running"), []),
        "updated finished Pod -> finalizer is not removed": (
            lambda world: claim_and_pod(world, "pvc1", phase="Succeeded"),
            [],
        ),
        "updated unscheduled Pod -> finalizer is removed": (
            lambda world: claim_and_pod(world, "pvc1", node=""),
            [LIST, REMOVE],
        ),
    },
)
async def test_claims_existing_at_startup(env: Env, before: Step, expected: list[str]) -> None:
    async with protecting(env, before=before) as world:
        was = await world.must_get(f"{CLAIMS}/pvc1")
        await wait_for_sync()
        assert namespaced_requests(world) == expected
        obj = await world.get(f"{CLAIMS}/pvc1")
        if "deletionTimestamp" in was["metadata"] and expected:
            assert obj is None
        else:
            assert obj is not None
            assert obj["metadata"]["finalizers"] == [FINALIZER]
            assert obj["spec"] == was["spec"]
        await wait_for_sync(3600)
        assert namespaced_requests(world) == expected, "and that is all"


@pytest.mark.parametrize(
    "fault", [fail(403, "Forbidden"), fail(500), conflict(), lose_answer()], ids=["403", "500", "409", "lost"]
)
@cases(
    "before, once",
    {
        "saving PVC finalizer fails -> controller retries": (unprotected_claim, [REMOVE]),
        "finalizer removal fails -> controller retries": (deleted_claim, [LIST, REMOVE]),
    },
)
async def test_failed_update_is_retried(env: Env, before: Step, once: list[str], fault: Any) -> None:
    """Twice; the third succeeds. If only the response was lost the cache may be current before the second attempt."""

    async def failing(world: World) -> None:
        await before(world)
        world.faults.add(Rule(fault, verb="update", resource="persistentvolumeclaims", times=2))

    async with protecting(env, before=failing) as world:
        await wait_for_sync(30)
        if isinstance(fault, Break):
            assert namespaced_requests(world)[: len(once)] == once
        else:
            assert namespaced_requests(world) == once * 3
        obj = await world.get(f"{CLAIMS}/pvc1")
        assert obj is None if LIST in once else obj is not None and obj["metadata"]["finalizers"] == [FINALIZER]


async def test_failed_pod_list_keeps_the_finalizer(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="list", resource="pods", namespace="default", times=3))
    await deleted_claim(world)
    await wait_for_sync(0.02)
    assert REMOVE not in namespaced_requests(world)
    await wait_for_sync(30)
    assert namespaced_requests(world) == [LIST] * 4 + [REMOVE]


async def test_claim_in_use_is_deleted_with_its_pod(world: World) -> None:
    """deleted running Pod -> finalizer is removed; and pod update from unscheduled to scheduled -> it is not."""
    await claim(world)
    await user(world, "pvc1", node="")
    await world.request(
        "POST", f"{PODS}/pod1/binding", {"target": {"kind": "Node", "name": "node1"}, "metadata": {"name": "pod1"}}
    )
    await world.delete(f"{CLAIMS}/pvc1")
    await wait_for_sync()
    assert namespaced_requests(world) == []
    await world.merge(f"{PODS}/pod1/status", {"status": {"phase": "Running"}})
    await wait_for_sync()
    await world.merge(f"{PODS}/pod1/status", {"status": {"phase": "Succeeded"}})
    await wait_for_sync()
    assert namespaced_requests(world) == [], "it has ended, and that is not enough"
    await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
    await wait_for_sync()
    assert namespaced_requests(world) == [LIST, REMOVE]
    assert await world.get(f"{CLAIMS}/pvc1") is None


async def test_finalizer_is_removed_with_the_last_of_two_pods(world: World) -> None:
    await claim(world)
    for name in ("pod1", "pod2"):
        await user(world, "pvc1", name=name)
    await world.delete(f"{CLAIMS}/pvc1")
    await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
    await wait_for_sync()
    assert namespaced_requests(world) == []
    await world.delete(f"{PODS}/pod2", grace=NO_GRACE)
    await wait_for_sync()
    assert await world.get(f"{CLAIMS}/pvc1") is None


@cases(
    "deleted, again, expected",
    {
        "old pod used deleted PVC -> finalizer is removed": (True, (), [LIST, REMOVE]),
        "old pod used non-deleted PVC -> finalizer is not removed": (False, (), []),
        "both pods reference deleted PVC -> finalizer is not removed": (True, ("pvc1",), []),
    },
)
async def test_pod_delete_and_create_with_same_namespaced_name_seen_as_an_update(
    world: World, deleted: bool, again: tuple[str, ...], expected: list[str]
) -> None:
    await claim(world)
    await user(world, "pvc1")
    if deleted:
        await world.delete(f"{CLAIMS}/pvc1")
    await wait_for_sync()
    with world.faults.hold(resource="pods"):
        await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
        await user(world, *again)
        await wait_for_sync()
        assert namespaced_requests(world) == []
        world.faults.end_watches(resource="pods", with_=gone())
        await wait_for_sync(5)
    await wait_for_sync(5)
    assert namespaced_requests(world) == expected
    assert (await world.get(f"{CLAIMS}/pvc1") is None) == bool(expected)


async def test_pod_deletion_missed_by_the_watch_removes_the_finalizer(world: World) -> None:
    """The watch broke, and the new list has no pod: a tombstone."""
    await claim(world)
    await user(world, "pvc1")
    await world.delete(f"{CLAIMS}/pvc1")
    await wait_for_sync()
    with world.faults.hold(resource="pods"):
        await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
        world.faults.end_watches(resource="pods", with_=gone())
        await wait_for_sync(5)
    await wait_for_sync(5)
    assert await world.get(f"{CLAIMS}/pvc1") is None


async def test_pod_missing_in_the_cache_keeps_the_finalizer(world: World) -> None:
    """deleted PVC with finalizer + pod with the PVC exists but is not in the Informer's cache yet -> it is not removed.

    If the pod is created and deleted between two lists, no event is delivered: upstream would keep the claim.
    """
    await claim(world)
    with world.faults.hold(resource="pods"):
        await user(world, "pvc1")
        await world.delete(f"{CLAIMS}/pvc1")
        await wait_for_sync()
        assert set(namespaced_requests(world)) == {LIST}
        await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
        world.faults.end_watches(resource="pods", with_=gone())
        await wait_for_sync(5)
        assert await world.get(f"{CLAIMS}/pvc1") is None


async def test_late_pod_in_the_cache_is_awaited_without_requests(world: World) -> None:
    await claim(world)
    with world.faults.hold(resource="pods"):
        await user(world, "pvc1")
        await world.delete(f"{CLAIMS}/pvc1")
        await wait_for_sync()
    await wait_for_sync()
    world.seen.clear()
    await wait_for_sync(7200)
    assert namespaced_requests(world) == []
    await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
    await wait_for_sync()
    assert await world.get(f"{CLAIMS}/pvc1") is None


async def test_one_pod_list_per_namespace(env: Env) -> None:
    """``processPVCsByNamespace``: mix of deleted PVCs with some used by a pod and some unused -> finalizer is removed
    only for unused PVCs."""

    async def before(world: World) -> None:
        for number in range(50):
            await claim(world, f"c{number:02}")
            await world.delete(f"{CLAIMS}/c{number:02}")
        await user(world, "c07", "c08")

    async with protecting(env, before=before) as world:
        await wait_for_sync()
        remaining = [item["metadata"]["name"] for item in (await world.must_get(CLAIMS))["items"]]
        assert remaining == ["c07", "c08"]
        assert namespaced_requests(world).count(LIST) == 1
        assert len(namespaced_requests(world)) == 49
        world.seen.clear()
        await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
        await wait_for_sync()
        assert sorted(namespaced_requests(world)) == [
            LIST,
            "update persistentvolumeclaims c07",
            "update persistentvolumeclaims c08",
        ]


async def test_failed_pod_list_for_one_claim_requeues_it_only(env: Env) -> None:
    """delete multiple PVCs of the same namespace; pod list fails for one PVC -> add failing PVC back to queue."""

    async def before(world: World) -> None:
        for name in ("pvc1", "pvc2"):
            await claim(world, name)
            await world.delete(f"{CLAIMS}/{name}")
        world.faults.add(Rule(fail(500), verb="list", resource="pods", namespace="default", times=1))

    async with protecting(env, before=before) as world:
        await wait_for_sync(0.004)
        assert namespaced_requests(world) == [LIST, LIST, "update persistentvolumeclaims pvc2"], (
            "the first is tried again later"
        )
        await wait_for_sync()
        assert (await world.must_get(CLAIMS))["items"] == []


async def test_namespaces_have_separate_pod_lists(env: Env) -> None:
    """deleted PVC with finalizers across different namespaces; a pod of the same words elsewhere uses another claim."""

    async def before(world: World) -> None:
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await world.request("POST", ELSEWHERE, {"metadata": {"name": "pvc1"}, "spec": spec})
        await world.delete(f"{ELSEWHERE}/pvc1")
        await claim_and_pod(world, "pvc1")

    async with protecting(env, before=before) as world:
        await wait_for_sync()
        assert await world.get(f"{ELSEWHERE}/pvc1") is None
        assert await world.get(f"{CLAIMS}/pvc1") is not None
        await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
        await wait_for_sync()
        assert await world.get(f"{CLAIMS}/pvc1") is None
        assert namespaced_requests(world) == [LIST, REMOVE] * 2


async def test_pod_list_is_not_used_for_claims_deleted_later(world: World) -> None:
    """The pod was created after the list and before the second claim was deleted; it is not cached."""
    for name in ("a", "b"):
        await claim(world, name)
    with world.faults.hold(resource="pods"):
        await world.delete(f"{CLAIMS}/a")
        await wait_for_sync()
        assert await world.get(f"{CLAIMS}/a") is None
        await user(world, "b")
        await world.delete(f"{CLAIMS}/b")
        await wait_for_sync()
        assert await world.get(f"{CLAIMS}/b") is not None


async def test_ephemeral_volume_claim_is_released_when_its_pod_is_shut_down(world: World) -> None:
    """Even if finalizers keep the pod: their owner may be waiting for the claim."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    spec = {
        "nodeName": "node1",
        "containers": [{"name": "main", "image": "pause"}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}],
    }
    pod = await world.request(
        "POST", PODS, {"metadata": {"name": "pod1", "finalizers": ["example.com/hold"]}, "spec": spec}
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod1", "uid": pod["metadata"]["uid"], "controller": True}
    await claim(world, "pod1-scratch", ownerReferences=[owner])
    await world.delete(f"{CLAIMS}/pod1-scratch")
    await wait_for_sync()
    assert namespaced_requests(world) == []
    running = [
        {
            "name": "main",
            "image": "pause",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
    ]
    await world.merge(f"{PODS}/pod1/status", {"status": {"phase": "Running", "containerStatuses": running}})
    await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
    await wait_for_sync()
    assert (await world.get(f"{PODS}/pod1")) is not None
    assert await world.get(f"{CLAIMS}/pod1-scratch") is None


async def test_other_finalizers_are_kept(world: World) -> None:
    await claim(world, finalizers=["example.com/hold"])
    await world.delete(f"{CLAIMS}/pvc1")
    await wait_for_sync()
    assert (await world.must_get(f"{CLAIMS}/pvc1"))["metadata"]["finalizers"] == ["example.com/hold"]
    assert namespaced_requests(world) == [LIST, REMOVE]


async def test_pod_events_without_terminating_claims_send_no_requests(world: World) -> None:
    await claim(world)
    await user(world, "pvc1", node="")
    await world.delete(f"{PODS}/pod1", grace=NO_GRACE)
    await wait_for_sync()
    assert namespaced_requests(world) == []
    assert world.metrics.value("workqueue_adds_total", "pvcprotection") == 0
