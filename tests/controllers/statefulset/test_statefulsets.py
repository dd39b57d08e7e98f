"""The controller on an API server: writes, events, and failed writes.

Mirrors what v1.36 ``stateful_pod_control_test.go``, ``stateful_set_test.go``, ``stateful_set_status_updater_test.go``
and ``stateful_set_control_test.go`` check by requests.
"""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.controllers.api_world import PODS, REVISIONS
from tests.controllers.statefulset.world import CLAIMS, TEMPLATE, WEB, World, controlled
from tests.tables import cases

from pilothouse.client.interceptor import Rule, conflict, fail, lose_answer, namespace_ends, time_out
from pilothouse.controllers.workloads.statefulset import StatefulSetOptions
from pilothouse.env import Env

KEEP = {"volumeClaimTemplates": [TEMPLATE]}
COLLECT = {**KEEP, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}}


async def test_pods_and_claims_are_created_with_events(world: World) -> None:
    """TestStatefulPodControlCreatesPods, TestStatefulPodControlDeletesStatefulPod."""
    await world.create(replicas=2, **KEEP)
    await world.wait_for_sync()
    await world.merge(WEB, {"spec": {"replicas": 1}})
    await world.wait_for_sync()
    assert await world.names(CLAIMS) == ["data-web-0", "data-web-1"]
    assert await world.messages() == [
        ("SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success"),
        ("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful"),
        ("SuccessfulCreate", "Create Claim data-web-1 Pod web-1 in StatefulSet web success"),
        ("SuccessfulCreate", "Create Pod web-1 in StatefulSet web successful"),
        ("SuccessfulDelete", "Delete Pod web-1 in StatefulSet web successful"),
    ]
    status = await world.status()
    assert {status[name] for name in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")} == {1}


@cases(
    "verb, resource, recorded",
    {
        "a pod": ("create", "pods", ("FailedCreate", "Create Pod web-0 in StatefulSet web failed error: no")),
        "a claim": (
            "create",
            "persistentvolumeclaims",
            ("FailedCreate", "Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: no"),
        ),
        "a claim, reported on the pod": (
            "create",
            "persistentvolumeclaims",
            ("FailedCreate", "Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: no"),
        ),
    },
)
async def test_failed_creation_emits_an_event_and_is_retried(
    world: World, verb: str, resource: str, recorded: tuple[str, str]
) -> None:
    """TestStatefulPodControlCreatePodPvcCreateFailure, …CreatePodFailed."""
    world.faults.add(Rule(fail(403, "Forbidden", "no"), verb=verb, resource=resource, nth=1))
    await world.create(replicas=1, **KEEP)
    await world.wait_for_sync()
    assert recorded in await world.messages()
    assert await world.names() == ["web-0"]


async def test_failed_deletion_emits_an_event(world: World) -> None:
    """TestStatefulPodControlDeleteFailure."""
    await world.create(replicas=1)
    await world.wait_for_sync()
    world.faults.add(Rule(fail(500, "InternalError", "no"), verb="delete", resource="pods", nth=1))
    await world.merge(WEB, {"spec": {"replicas": 0}})
    await world.wait_for_sync()
    assert ("FailedDelete", "Delete Pod web-0 in StatefulSet web failed error: no") in await world.messages()
    assert await world.names() == []


async def test_existing_pod_emits_no_event(world: World) -> None:
    """TestStatefulPodControlCreatePodExists: a pod of that name that another client created."""
    spec = {"containers": [{"name": "main", "image": "pause:9"}]}
    await world.request("POST", PODS, {"metadata": {"name": "web-0"}, "spec": spec})
    await world.create(replicas=1)
    await world.wait_for_sync()
    assert len(world.sent("create", "pods")) >= 2
    assert await world.messages() == []
    await world.remove("web-0")
    await world.wait_for_sync(20.0)
    assert await world.images() == ["1"]


async def test_terminating_claim_is_awaited(world: World) -> None:
    """TestStatefulPodControlCreatePodPVCDeleting."""
    metadata = {**TEMPLATE, "metadata": {"name": "data-web-0", "finalizers": ["example.com/hold"]}}
    await world.request("POST", CLAIMS, metadata)
    await world.request("DELETE", f"{CLAIMS}/data-web-0", {})
    await world.create(replicas=1, **KEEP)
    await world.wait_for_sync()
    text = "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
    assert ("FailedCreate", text) in await world.messages()
    assert await world.names() == []
    await world.merge(f"{CLAIMS}/data-web-0", {"metadata": {"finalizers": None}})
    await world.wait_for_sync(60.0)
    assert (await world.names(), await world.names(CLAIMS)) == (["web-0"], ["data-web-0"])


async def test_existing_claim_is_used(world: World) -> None:
    await world.request("POST", CLAIMS, {**TEMPLATE, "metadata": {"name": "data-web-0", "labels": {"mine": "yes"}}})
    await world.create(replicas=1, **KEEP)
    await world.wait_for_sync()
    assert (await world.request("GET", f"{CLAIMS}/data-web-0"))["metadata"]["labels"] == {"mine": "yes"}
    assert world.sent("create", "persistentvolumeclaims") == []


async def test_claim_of_a_pending_pod_is_recreated(world: World) -> None:
    """TestStatefulSetControl: RecreatesPVCForPendingPod."""
    world.runs = False
    await world.create(replicas=1, **KEEP)
    await world.wait_for_sync()
    await world.merge(f"{CLAIMS}/data-web-0", {"metadata": {"finalizers": None}})
    await world.request("DELETE", f"{CLAIMS}/data-web-0", {})
    await world.merge(f"{PODS}/web-0", {"metadata": {"labels": {"wake": "up"}}})
    await world.wait_for_sync()
    assert await world.names(CLAIMS) == ["data-web-0"]


async def test_claims_follow_the_retention_policy(world: World) -> None:
    """TestStatefulPodControlRetainDeletionPolicyUpdate, TestStatefulPodControlClaimsMatchDeletionPolcy (sic)."""
    await world.create(replicas=2, **COLLECT)
    await world.wait_for_sync()
    assert [await world.owners(f"data-web-{n}") for n in (0, 1)] == [["StatefulSet"], ["StatefulSet"]]
    await world.merge(WEB, {"spec": {"replicas": 1}})
    await world.wait_for_sync()
    assert [await world.owners(f"data-web-{n}") for n in (0, 1)] == [["StatefulSet"], ["Pod"]]
    # No garbage collector runs here: the claim still has the deleted pod as owner.
    await world.merge(WEB, {"spec": {"replicas": 2}})
    await world.wait_for_sync()
    assert await world.names() == ["web-0"]
    await world.merge(f"{CLAIMS}/data-web-1", {"metadata": {"finalizers": None}})
    await world.request("DELETE", f"{CLAIMS}/data-web-1", {})
    await world.wait_for_sync()
    assert await world.names() == ["web-0", "web-1"], "it is enqueued when the claim has gone"
    assert await world.owners("data-web-1") == ["StatefulSet"]
    retain = {"whenScaled": "Retain", "whenDeleted": "Retain"}
    await world.merge(WEB, {"spec": {"persistentVolumeClaimRetentionPolicy": retain}})
    await world.wait_for_sync()
    assert [await world.owners(f"data-web-{n}") for n in (0, 1)] == [[], []]
    assert world.sent("update", "pods") == [], "only claims were written"


async def test_claim_with_another_controller_emits_an_event(world: World) -> None:
    """TestStatefulPodControlUpdatePodClaimForRetentionPolicy with a conflicting controller."""
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "ruler", "uid": "u", "controller": True}
    metadata = {"name": "data-web-0", "ownerReferences": [owner]}
    await world.request("POST", CLAIMS, {**TEMPLATE, "metadata": metadata})
    await world.create(replicas=1, **COLLECT)
    await world.wait_for_sync()
    text = (
        "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the "
        "retention policy is ignored for this claim"
    )
    assert ("ConflictingController", text) in await world.messages()
    assert await world.owners("data-web-0") == ["Thing"]


async def test_removed_pod_labels_are_restored(world: World) -> None:
    """TestStatefulPodControlUpdatesIdentity, TestStatefulPodControlUpdateIdentityFailure: also after conflicts."""
    await world.create(replicas=1)
    await world.wait_for_sync()
    rule = world.faults.add(Rule(conflict(), verb="update", resource="pods", times=2))
    name = "statefulset.kubernetes.io/pod-name"
    await world.merge(f"{PODS}/web-0", {"metadata": {"labels": {name: None}, "annotations": {"mine": "yes"}}})
    await world.wait_for_sync()
    meta = (await world.request("GET", f"{PODS}/web-0"))["metadata"]
    assert (meta["labels"][name], meta["annotations"]) == ("web-0", {"mine": "yes"})
    assert (rule.hits, len(world.sent("update", "pods"))) == (2, 1)
    assert ("SuccessfulUpdate", "Update Pod web-0 in StatefulSet web successful") in await world.messages()


@pytest.mark.parametrize("conflicts", [1, 4])
async def test_status_conflict_is_retried(world: World, conflicts: int) -> None:
    """TestStatefulSetStatusUpdaterUpdateReplicasConflict: within milliseconds."""
    world.runs = False
    rule = world.faults.add(Rule(conflict(), verb="update", resource="statefulsets.apps", times=conflicts))
    await world.create(replicas=1)
    await asyncio.sleep(0.045)
    assert rule.hits == conflicts
    assert world.sent("update", "statefulsets/status")
    assert (await world.status())["observedGeneration"] == 1


async def test_no_status_update_for_a_deleted_set(world: World) -> None:
    world.runs = False
    rule = world.faults.add(Rule(conflict(), verb="update", resource="statefulsets.apps"))
    await world.create(replicas=1)
    await asyncio.sleep(0.015)
    tries = rule.hits
    assert 1 <= tries <= 3
    await world.request("DELETE", WEB, {})
    await world.wait_for_sync()
    assert rule.hits == tries
    assert world.metrics.value("pilothouse_reconcile_errors_total", "statefulset-controller", "retried") == 0


async def test_current_replicas_are_never_negative(world: World) -> None:
    """kubernetes#58347: upstream decrements ``currentReplicas`` for each, and the API server rejects -1."""
    world.runs = False
    await world.create(replicas=1, podManagementPolicy="Parallel")
    await world.wait_for_sync()
    await world.set_image("pause:2")
    await world.wait_for_sync()
    await world.set_image("pause:3")
    await world.wait_for_sync()
    assert await world.images() == ["3"]
    sent = [msgspec.json.decode(item.request.body)["status"] for item in world.sent("update", "statefulsets/status")]
    assert min(status.get("currentReplicas", 0) for status in sent) == 0
    assert any(status["updateRevision"] != status["currentRevision"] for status in sent)


async def test_failed_status_update_is_retried(world: World) -> None:
    """TestStatefulSetControl: UpdateSetStatusFailure."""
    rule = world.faults.add(Rule(fail(500, "InternalError"), verb="update", resource="statefulsets.apps"))
    await world.create(replicas=2)
    await world.wait_for_sync()
    world.faults.remove(rule)
    await world.wait_for_sync(30.0)
    assert (await world.status())["readyReplicas"] == 2


async def test_lost_responses_create_no_duplicates(world: World) -> None:
    for fault in (lose_answer(), time_out(sent=True)):
        for verb, resource in (("create", "pods"), ("create", "persistentvolumeclaims"), ("delete", "pods")):
            world.faults.add(Rule(fault, verb=verb, resource=resource, probability=0.3))
    await world.create(replicas=3, **KEEP)
    await world.wait_for_sync(30.0)
    await world.set_image("pause:2")
    await world.wait_for_sync(60.0)
    assert (await world.images(), await world.names(CLAIMS)) == (["2"] * 3, [f"data-web-{n}" for n in range(3)])


@pytest.mark.parametrize(("waits", "tries"), [(True, 1), (False, 2)])
async def test_stale_cache_delays_the_sync(env: Env, waits: bool, tries: int) -> None:
    """The consistency store of v1.36 (KEP-5647); without it fixed names prevent duplicates."""
    async with controlled(env, StatefulSetOptions(wait_for_own_writes=waits)) as world:
        with world.faults.hold(resource="pods"):
            await world.create(replicas=3)
            await world.wait_for_sync(0.5)
            await world.merge(WEB, {"metadata": {"labels": {"wake": "up"}}})
            await world.wait_for_sync(0.5)
            assert (len(world.sent("create", "pods")) >= tries) and (len(world.sent("create", "pods")) == 1) == waits
            assert await world.names() == ["web-0"]
        await world.wait_for_sync(20.0)
        assert await world.names() == ["web-0", "web-1", "web-2"]
        skips = world.metrics.value("statefulset_controller_stale_sync_skips_total", "", "pods")
        assert (skips > 0) == waits


async def test_deleted_pod_is_awaited_with_a_stale_cache(world: World) -> None:
    """Not in upstream: with a stale cache it would delete the next pod while this one seems healthy."""
    await world.create(replicas=3)
    await world.wait_for_sync()
    with world.faults.hold(resource="pods"):
        await world.merge(WEB, {"spec": {"replicas": 1}})
        await world.wait_for_sync(0.5)
        await world.merge(WEB, {"metadata": {"labels": {"wake": "up"}}})
        await world.wait_for_sync(0.5)
        assert [item.call.name for item in world.sent("delete", "pods")] == ["web-2"]
    await world.wait_for_sync(20.0)
    assert await world.names() == ["web-0"]


async def test_revision_name_collision_uses_the_next_hash(world: World) -> None:
    """TestRealHistory_CreateControllerRevision, on a collision; kubernetes#49909."""
    await world.create(replicas=0)
    await world.wait_for_sync()
    (name,) = await world.names(REVISIONS)
    await world.request("DELETE", WEB, {})
    await world.request("DELETE", f"{REVISIONS}/{name}", {})
    await world.wait_for_sync()
    await world.request("POST", REVISIONS, {"metadata": {"name": name}, "data": {"else": "where"}, "revision": 1})
    await world.create(replicas=1)
    await world.wait_for_sync()
    status = await world.status()
    assert (status["collisionCount"], status["readyReplicas"]) == (1, 1)
    assert status["currentRevision"] == status["updateRevision"] != name


async def test_rollback_updates_the_revision_number_after_conflicts(world: World) -> None:
    """TestStatefulSetControlRollback, TestRealHistory_UpdateControllerRevision."""
    await world.create(replicas=1)
    await world.wait_for_sync()
    await world.set_image("pause:2")
    await world.wait_for_sync()
    rule = world.faults.add(Rule(conflict(), verb="update", resource="controllerrevisions.apps", times=3))
    await world.set_image("pause:1")
    await world.wait_for_sync()
    assert (rule.hits, len(world.sent("update", "controllerrevisions"))) == (3, 1)
    assert await world.images() == ["1"]
    items = (await world.request("GET", REVISIONS))["items"]
    assert sorted(item["revision"] for item in items) == [2, 3]


async def test_history_is_truncated_if_the_sync_fails(world: World) -> None:
    """TestStatefulSetControlLimitsHistory."""
    await world.create(replicas=1, revisionHistoryLimit=1)
    for image in ("2", "3", "4"):
        await world.wait_for_sync()
        await world.set_image(f"pause:{image}")
    await world.wait_for_sync()
    assert len(await world.names(REVISIONS)) == 2
    world.faults.add(Rule(fail(500, "InternalError"), verb="delete", resource="pods"))
    await world.set_image("pause:5")
    await world.wait_for_sync()
    assert len(await world.names(REVISIONS)) == 3, "of the template, of the pod, and one of history"


async def test_scaling_waits_for_available_pods(world: World) -> None:
    """TestStatefulSetAvailability, and the delayed requeue."""
    await world.create(replicas=3, minReadySeconds=10)
    observed: dict[int, float] = {}
    start = world.env.monotonic()
    while len(observed) < 3:
        await asyncio.sleep(0.5)
        observed.setdefault(len(await world.names()), world.env.monotonic() - start)
    assert 10 <= observed[2] <= 12
    assert 20 <= observed[3] <= 23
    await world.wait_for_sync(12.0)
    assert (await world.status())["availableReplicas"] == 3


async def test_owner_with_a_deletion_timestamp_on_the_server_adopts_nothing(world: World) -> None:
    """TestStatefulSetControllerDeletionTimestampRace: the live read before an adoption."""
    created = await world.create(replicas=0)
    await world.wait_for_sync()
    with world.faults.hold(resource="statefulsets.apps"):
        finalizers: dict[str, Any] = {"metadata": {"finalizers": ["example.com/hold"]}}
        await world.merge(WEB, finalizers)
        await world.request("DELETE", WEB, {})
        spec = {"containers": [{"name": "main", "image": "pause:1"}]}
        metadata = {"name": "web-0", "labels": {"app": "web"}}
        await world.request("POST", PODS, {"metadata": metadata, "spec": spec})
        await world.wait_for_sync()
        assert world.sent("get", "statefulsets")
        assert world.sent("patch", "pods") == []
    assert created["metadata"]["uid"]


async def test_pods_with_other_names_are_ignored_or_released(world: World) -> None:
    """TestGetPodsForStatefulSetRelease, TestStatefulSetControllerGetStatefulSetsForPod."""
    created = await world.create(replicas=1)
    await world.wait_for_sync()
    spec = {"containers": [{"name": "main", "image": "pause:1"}]}
    labels = {"app": "web"}
    await world.request("POST", PODS, {"metadata": {"name": "other-0", "labels": labels}, "spec": spec})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": created["metadata"]["uid"]}
    owned = {"name": "stray", "labels": labels, "ownerReferences": [owner | {"controller": True}]}
    await world.request("POST", PODS, {"metadata": owned, "spec": spec})
    await world.wait_for_sync()
    for name in ("other-0", "stray"):
        assert "ownerReferences" not in (await world.request("GET", f"{PODS}/{name}"))["metadata"]
    assert await world.names() == ["other-0", "stray", "web-0"]


async def test_max_unavailable_metrics_gate(env: Env) -> None:
    async with controlled(env, StatefulSetOptions(use_max_unavailable=True)) as world:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
        await world.create(replicas=3, updateStrategy=strategy, podManagementPolicy="Parallel")
        await world.wait_for_sync()
        labels = ("default", "web", "Parallel")
        assert world.metrics.value("statefulset_controller_statefulset_max_unavailable", *labels) == 2
        assert world.metrics.value("statefulset_controller_statefulset_unavailable_replicas", *labels) == 0


async def test_parallel_slow_start_stops_at_the_first_error(world: World) -> None:
    refusal = Rule(
        fail(403, "Forbidden", "no"),
        verb="create",
        resource="pods",
        when=lambda _info, sent: b'"web-1"' in sent.body,
    )
    world.faults.add(refusal)
    await world.create(replicas=10, podManagementPolicy="Parallel")
    await world.wait_for_sync()
    assert await world.names() == ["web-0", "web-2"], "one, then two of which one is refused, then that one again"
    world.faults.remove(refusal)
    await world.wait_for_sync(10.0)
    assert len(await world.names()) == 10


async def test_parallel_batches_are_of_replicas_whatever_they_need(world: World) -> None:
    """As v1.36.2: of five replicas the batches are 1, 2 and 2, also if most of them need no request. A foreign web-1
    stops those after web-2, and does not stop web-2."""
    spec = {"containers": [{"name": "main", "image": "pause:9"}]}
    await world.request("POST", PODS, {"metadata": {"name": "web-1"}, "spec": spec})
    await world.create(replicas=5, podManagementPolicy="Parallel")
    await world.wait_for_sync()
    assert await world.names() == ["web-0", "web-1", "web-2"]
    before = (await world.must_get(f"{PODS}/web-2"))["metadata"]["uid"]
    await world.report("web-2", phase="Failed", ready=False)
    await world.wait_for_sync(10.0)
    assert await world.names() == ["web-0", "web-1", "web-2"]
    assert (await world.must_get(f"{PODS}/web-2"))["metadata"]["uid"] != before
    assert (await world.status())["replicas"] == 2


async def test_parallel_batches_include_terminating_pods_when_scaling_down(world: World) -> None:
    """As v1.36.2, recorded: the terminating web-2 is the first batch, the second one has both others."""
    await world.create(replicas=3, podManagementPolicy="Parallel")
    await world.wait_for_sync()
    await world.merge(f"{PODS}/web-2", {"metadata": {"finalizers": ["example.com/held"]}})
    await world.request("DELETE", f"{PODS}/web-2")
    world.faults.add(Rule(fail(403, "Forbidden", "no"), verb="delete", resource="pods"))
    await world.merge(WEB, {"spec": {"replicas": 0}})
    await world.wait_for_sync()
    failed = {message for reason, message in await world.messages() if reason == "FailedDelete"}
    assert failed == {f"Delete Pod web-{number} in StatefulSet web failed error: no" for number in (0, 1)}


async def test_set_in_a_terminating_namespace_is_synced_once_a_second(world: World) -> None:
    await world.create(replicas=30, podManagementPolicy="Parallel")
    await world.wait_for_sync(10.0)
    refusal = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
    world.requests.clear()
    for pod in reversed(await world.names()):
        await world.request("DELETE", f"{PODS}/{pod}")
        await world.wait_for_sync(0.1)
    assert refusal.hits < 25, (
        "after each of the first failures, and once a second, each time the missing ones of a batch"
    )
    assert len(world.sent("update", "statefulsets/status")) < 10
    await world.wait_for_sync(10.0)
    assert (await world.status())["replicas"] == 0


async def test_set_in_a_recreated_namespace_is_synced_immediately(world: World) -> None:
    refusal = world.faults.add(Rule(namespace_ends(), verb="create", resource="pods"))
    await world.create(replicas=1)
    await world.wait_for_sync()
    await world.request("DELETE", WEB)
    world.faults.remove(refusal)
    await world.wait_for_sync(2.0)
    await world.create(replicas=3)
    await world.wait_for_sync(0.5)
    assert len(await world.names()) == 3
