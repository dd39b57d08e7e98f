"""The controller on the embedded API server, in virtual time: requests, events, metrics, and faults.

Cases of ``TestSyncHandler``, ``TestResourceClaimTemplateEventHandler`` and ``TestResourceClaimEventHandler``, v1.36
``pkg/controller/resourceclaim/controller_test.go``, are named in the docstrings.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of, wait_for_sync
from tests.controllers.resourceclaim.builders import CLAIMS, ENTRY, FINALIZER, TEMPLATES, claim_doc, reference

from pilothouse.client.interceptor import Rule, conflict, fail, gone, lose_answer
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR, ResourceClaimOptions
from pilothouse.env import Env

Story = Callable[[World], Awaitable[None]]

CREATES, COUNT = "resourceclaim_controller_creates_total", "resourceclaim_controller_resource_claims"


@contextlib.asynccontextmanager
async def claiming(
    env: Env, *, before: Story | None = None, options: ResourceClaimOptions | None = None
) -> AsyncIterator[World]:
    """A world in which the controller runs."""
    async with node_world.world(env) as world:
        if before is not None:
            await before(world)
        await world.start(DESCRIPTOR, options)
        yield world


world = fixture_of(claiming)


async def template(world: World, name: str = "template", **exactly: Any) -> Doc:
    """A template with one device request."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus", **exactly}}]
    spec = {"metadata": {"labels": {"team": "blue"}}, "spec": {"devices": {"requests": requests}}}
    return await world.request("POST", TEMPLATES, {"metadata": {"name": name}, "spec": spec})


async def pod(world: World, name: str = "pod", *entries: Doc, node: str = "", phase: str = "Pending") -> Doc:
    """A pod with these entries, or the usual one."""
    used = list(entries) or [ENTRY]
    container = {"name": "main", "image": "pause", "resources": {"claims": [{"name": entry["name"]} for entry in used]}}
    spec: Doc = {"containers": [container], "resourceClaims": used}
    if node:
        spec["nodeName"] = node
    await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    return await phase_of(world, name, phase)


async def phase_of(world: World, name: str, phase: str) -> Doc:
    return await world.merge(f"{PODS}/{name}/status", {"status": {"phase": phase}})


async def claims(world: World) -> list[Doc]:
    obj: list[Doc] = (await world.must_get(CLAIMS))["items"]
    return obj


async def the_claim(world: World) -> Doc:
    (found_claims,) = await claims(world)
    return found_claims


async def named(world: World, name: str = "pod") -> dict[str, str]:
    """The claims that the pod's status names, by entry."""
    claim_statuses = (await world.must_get(f"{PODS}/{name}"))["status"].get("resourceClaimStatuses") or []
    return {item["name"]: item["resourceClaimName"] for item in claim_statuses}


async def claim(world: World, name: str = "claim", **more: Any) -> Doc:
    """A claim that a user created, with a status."""
    doc = claim_doc(name, **more)
    status = doc.pop("status")
    created = await world.request("POST", CLAIMS, doc)
    return await world.merge(f"{CLAIMS}/{name}/status", {"status": status}) if status else created


async def allocate(world: World, name: str, *pods: Doc) -> None:
    """What a scheduler does: the finalizer, then allocation and reservations."""
    await world.merge(f"{CLAIMS}/{name}", {"metadata": {"finalizers": [FINALIZER]}})
    users = [reference(item["metadata"]["name"], item["metadata"]["uid"]) for item in pods]
    status: Doc = {"allocation": {"devices": {"results": []}}}
    if users:
        status["reservedFor"] = users
    await world.merge(f"{CLAIMS}/{name}/status", {"status": status})


async def bind(world: World, name: str = "pod", node: str = "node1") -> None:
    await world.request(
        "POST", f"{PODS}/{name}/binding", {"target": {"kind": "Node", "name": node}, "metadata": {"name": name}}
    )


async def users_of(world: World, name: str) -> list[str]:
    return [user["name"] for user in (await world.must_get(f"{CLAIMS}/{name}"))["status"].get("reservedFor") or []]


# Making claims


async def test_claim_is_created_and_recorded_in_the_pod_status(world: World) -> None:
    """create; new-pods."""
    await template(world)
    await pod(world)
    await wait_for_sync()
    result = await the_claim(world)
    name = result["metadata"]["name"]
    assert name.startswith("pod-gpu-")
    assert result["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert result["metadata"]["labels"] == {"team": "blue"}
    (ref,) = result["metadata"]["ownerReferences"]
    assert ref == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "pod",
        "uid": (await world.must_get(f"{PODS}/pod"))["metadata"]["uid"],
        "controller": True,
    }
    assert result["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpus"
    assert await named(world) == {"gpu": name}
    assert world.requests() == ["create resourceclaims ", "patch pods/status pod"]
    fields = (await world.must_get(f"{PODS}/pod"))["metadata"]["managedFields"]
    assert [field["operation"] for field in fields if field["manager"] == "ResourceClaimController"] == ["Apply"]
    assert world.metrics.value(CREATES, "success", "false") == 1
    assert world.metrics.value(COUNT, "false", "false", "resource_claim_template") == 1
    await wait_for_sync(3600)
    assert len(world.requests()) == 2, "and that is all"


async def test_each_entry_gets_a_separate_claim(world: World) -> None:
    await template(world)
    await claim(world, "shared")
    other = {"name": "net", "resourceClaimTemplateName": "template"}
    await pod(world, "pod", ENTRY, other, {"name": "disk", "resourceClaimName": "shared"})
    await wait_for_sync()
    claim_statuses = await named(world)
    assert sorted(claim_statuses) == ["gpu", "net"]
    assert {item["metadata"]["name"] for item in await claims(world)} == {*claim_statuses.values(), "shared"}
    assert world.requests().count("patch pods/status pod") == 1


async def test_missing_template_emits_an_event_and_is_awaited(world: World) -> None:
    """missing-template; new-template-for-pod."""
    await pod(world)
    await wait_for_sync(200)
    missing = 'resource claim template "template": resourceclaimtemplate.resource.k8s.io "template" not found'
    assert set(await world.events("FailedResourceClaimCreation")) == {f"Pod/pod PodResourceClaim gpu: {missing}"}
    assert world.metrics.value(CREATES, "failure", "false") == 0
    await template(world)
    await wait_for_sync()
    assert list(await named(world)) == ["gpu"], "without waiting for the end of the backoff"


async def test_deleted_claim_is_recreated_and_others_stay_in_the_status(world: World) -> None:
    """recreate."""
    await template(world)
    await pod(world, "pod", ENTRY, {"name": "net", "resourceClaimTemplateName": "template"})
    await wait_for_sync()
    before = await named(world)
    await world.delete(f"{CLAIMS}/{before['gpu']}")
    await wait_for_sync()
    after = await named(world)
    assert after["net"] == before["net"]
    assert after["gpu"] != before["gpu"]
    assert {item["metadata"]["name"] for item in await claims(world)} == set(after.values())
    await wait_for_sync(600)
    assert await named(world) == after


@pytest.mark.parametrize("fault", [fail(500), conflict(), lose_answer()], ids=["500", "409", "lost"])
async def test_failed_status_update_creates_no_second_claim(world: World, fault: Any) -> None:
    """find-existing-claim-by-label; find-created-claim-in-cache."""
    await template(world)
    world.faults.add(Rule(fault, verb="patch", resource="pods", subresource="status", times=3))
    await pod(world)
    await wait_for_sync(30)
    result = await the_claim(world)
    assert await named(world) == {"gpu": result["metadata"]["name"]}


async def test_claim_missing_in_the_cache_is_not_created_twice(world: World) -> None:
    """find-created-claim-in-cache: the cache of claims lags behind that of pods."""
    await template(world)
    with world.faults.hold(resource="resourceclaims"):
        world.faults.add(Rule(fail(500), verb="patch", resource="pods", subresource="status", times=2))
        await pod(world)
        await wait_for_sync(30)
        assert len(await claims(world)) == 1
        assert list(await named(world)) == ["gpu"]
    await wait_for_sync(30)
    assert len(await claims(world)) == 1


async def test_claim_deleted_between_watches_is_recreated(world: World) -> None:
    await template(world)
    with world.faults.hold(resource="resourceclaims"):
        await pod(world)
        await wait_for_sync()
        (name,) = (await named(world)).values()
        await world.delete(f"{CLAIMS}/{name}")
        world.faults.end_watches(resource="resourceclaims", with_=gone())
    await wait_for_sync(30)
    assert await named(world) == {"gpu": (await the_claim(world))["metadata"]["name"]}


async def test_lost_create_response_creates_no_second_claim(world: World) -> None:
    await template(world)
    with world.faults.hold(resource="resourceclaims"):
        world.faults.add(Rule(lose_answer(), verb="create", resource="resourceclaims", times=1))
        await pod(world)
        await wait_for_sync(30)
    await wait_for_sync(30)
    assert await named(world) == {"gpu": (await the_claim(world))["metadata"]["name"]}
    assert world.metrics.value(CREATES, "failure", "false") == 1
    assert len(await world.events("FailedResourceClaimCreation")) == 1


async def test_failed_claim_creation_emits_an_event_and_is_retried(world: World) -> None:
    """create-conflict."""
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await world.merge("/api/v1/namespaces/default", {"metadata": {"labels": labels}})
    await template(world, adminAccess=True)
    world.faults.add(Rule(fail(403, "Forbidden"), verb="create", resource="resourceclaims", times=2))
    await pod(world)
    await wait_for_sync(30)
    (messages,) = set(await world.events("FailedResourceClaimCreation"))
    assert messages.startswith("Pod/pod PodResourceClaim gpu: create ResourceClaim : ")
    assert len(await claims(world)) == 1
    assert world.metrics.value(CREATES, "failure", "true") == 2
    assert world.metrics.value(CREATES, "success", "true") == 1


@pytest.mark.parametrize("enabled", [True, False])
async def test_prioritized_list_gate(env: Env, enabled: bool) -> None:
    """``DRAPrioritizedList``."""
    async with claiming(env, options=ResourceClaimOptions(prioritized_lists=enabled)) as world:
        subs = [{"name": "large", "deviceClassName": "large"}, {"name": "small", "deviceClassName": "small"}]
        spec = {"spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": subs}]}}}
        await world.request("POST", TEMPLATES, {"metadata": {"name": "template"}, "spec": spec})
        await pod(world)
        await wait_for_sync()
        assert len(await claims(world)) == (1 if enabled else 0)
        why = "template includes a prioritized list of subrequests, but the feature is disabled"
        events = set(await world.events("FailedResourceClaimCreation"))
        assert events == (set() if enabled else {f"Pod/pod PodResourceClaim gpu: {why}"})


async def test_new_manager_with_a_stale_claim_cache_keeps_claim_names(env: Env) -> None:
    """Its cache has the current pod, and no claims yet: upstream would create another claim."""
    async with node_world.world(env) as world:
        await template(world)
        created = await pod(world)
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "pod",
            "uid": created["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
        with world.faults.hold(resource="resourceclaims"):
            await world.start(DESCRIPTOR)
            await claim(world, "mine", owner=owner, **metadata)
            status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "mine"}]}
            await world.merge(f"{PODS}/pod/status", {"status": status})
            await wait_for_sync(60)
        await wait_for_sync(60)
        assert await named(world) == {"gpu": "mine"}


# Reservations


async def test_claim_of_a_scheduled_pod_is_reserved(world: World) -> None:
    """add-reserved."""
    await template(world)
    await pod(world, node="node1")
    await wait_for_sync()
    (name,) = (await named(world)).values()
    assert await users_of(world, name) == []
    await allocate(world, name)
    await wait_for_sync()
    assert await users_of(world, name) == ["pod"]
    assert world.requests()[-1] == f"update resourceclaims/status {name}"
    await wait_for_sync(600)
    assert (await world.must_get(f"{CLAIMS}/{name}"))["status"]["allocation"] is not None


async def test_entry_without_a_claim_does_not_prevent_other_reservations(world: World) -> None:
    created = await claim(world, "shared")
    unused = {"name": "unused", "resourceClaimTemplateName": "template"}
    shared = {"name": "shared", "resourceClaimName": "shared"}
    with world.faults.hold(resource="pods"):
        await pod(world, "pod", unused, shared)
        await world.merge(f"{PODS}/pod/status", {"status": {"resourceClaimStatuses": [{"name": "unused"}]}})
        await bind(world)
    await wait_for_sync()
    await allocate(world, "shared")
    await wait_for_sync()
    assert await users_of(world, "shared") == ["pod"]
    assert [item["metadata"]["uid"] for item in await claims(world)] == [created["metadata"]["uid"]]


async def test_claim_of_another_pod_is_an_error_and_retried(world: World) -> None:
    """v1.36 ``syncPod``: ``IsForPod`` fails, after the pod's status has the name of a claim of its own."""
    await template(world)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "other", "controller": True}
    await claim(world, "taken", owner=owner)
    with world.faults.hold(resource="pods"):
        await pod(world)
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "taken"}]}
        await world.merge(f"{PODS}/pod/status", {"status": status})
        await bind(world)
    await wait_for_sync()
    errors = "pilothouse_reconcile_errors_total"
    assert f'{errors}{{controller="resourceclaim-controller",outcome="retried"}} 1' in world.metrics.exposition()
    (name,) = (await named(world)).values()
    assert name.startswith("pod-gpu-")
    assert len(await claims(world)) == 2


async def test_last_released_reservation_deallocates_and_removes_the_finalizer(world: World) -> None:
    """dont-clear-reserved-structured, remove-reserved, clear-reserved-structured."""
    entry = {"name": "gpu", "resourceClaimName": "claim"}
    await claim(world)
    first, second = await pod(world, "first", entry, node="n"), await pod(world, "second", entry, node="n")
    await allocate(world, "claim", first, second)
    await wait_for_sync()
    await phase_of(world, "first", "Succeeded")
    await wait_for_sync()
    assert await users_of(world, "claim") == ["second"]
    obj = await world.must_get(f"{CLAIMS}/claim")
    assert obj["status"]["allocation"] is not None
    assert world.requests() == ["update resourceclaims/status claim"]
    await world.delete(f"{PODS}/second", grace=0)
    await wait_for_sync()
    obj = await world.must_get(f"{CLAIMS}/claim")
    assert obj.get("status", {}) == {}
    assert "finalizers" not in obj["metadata"]
    assert world.requests()[1:] == ["update resourceclaims/status claim", "update resourceclaims claim"]


async def test_claim_of_a_terminated_pod_is_deleted(world: World) -> None:
    """delete-claim-when-done."""
    await template(world)
    created = await pod(world)
    await wait_for_sync()
    (name,) = (await named(world)).values()
    await allocate(world, name, created)
    await bind(world)
    await wait_for_sync()
    await phase_of(world, "pod", "Succeeded")
    await wait_for_sync()
    assert await claims(world) == []
    assert world.requests()[-3:] == [
        f"update resourceclaims/status {name}",
        f"update resourceclaims {name}",
        f"delete resourceclaims {name}",
    ]
    await wait_for_sync(600)
    assert await world.events("FailedResourceClaimCreation") == []


async def test_duplicate_claim_is_deleted_when_the_pod_terminates(world: World) -> None:
    """As left by a manager that lost the create response and was restarted. The status names the other claim."""
    await template(world)
    await pod(world)
    await wait_for_sync()
    first = (await the_claim(world))["metadata"]
    copied = {name: first[name] for name in ("annotations", "labels", "ownerReferences")}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}
    await world.request("POST", CLAIMS, {"metadata": {**copied, "generateName": "pod-gpu-"}, "spec": spec})
    await wait_for_sync()
    assert len(await claims(world)) == 2
    await phase_of(world, "pod", "Succeeded")
    await wait_for_sync()
    assert await claims(world) == []


async def test_terminating_claim_in_use_waits_for_its_pod(world: World) -> None:
    """clear-reserved-structured-deleted."""
    await claim(world)
    user = await pod(world, "user", {"name": "gpu", "resourceClaimName": "claim"}, node="n", phase="Running")
    await allocate(world, "claim", user)
    await world.delete(f"{CLAIMS}/claim")
    await wait_for_sync(600)
    assert await users_of(world, "claim") == ["user"]
    await world.delete(f"{PODS}/user", grace=0)
    await wait_for_sync()
    assert await claims(world) == []


async def test_unused_terminating_claim_is_deleted(world: World) -> None:
    """structured-deleted."""
    await claim(world)
    await allocate(world, "claim")
    await wait_for_sync(600)
    assert (await world.must_get(f"{CLAIMS}/claim"))["status"]["allocation"] is not None, "it may still be used"
    await world.delete(f"{CLAIMS}/claim")
    await wait_for_sync()
    assert await claims(world) == []


async def test_non_pod_reservations_are_kept(world: World) -> None:
    """Clean up pod reservation with non-pod reservation present."""
    await claim(world)
    user = await pod(world, "user", {"name": "gpu", "resourceClaimName": "claim"}, node="n")
    await allocate(world, "claim", user)
    other = {"apiGroup": "foo.com", "resource": "foo", "name": "foo", "uid": "123"}
    user_reference = reference("user", user["metadata"]["uid"])
    await world.merge(f"{CLAIMS}/claim/status", {"status": {"reservedFor": [user_reference, other]}})
    await phase_of(world, "user", "Failed")
    await wait_for_sync()
    obj = await world.must_get(f"{CLAIMS}/claim")
    assert obj["status"]["reservedFor"] == [other]
    assert obj["status"]["allocation"] is not None


async def test_pod_missing_in_the_cache_keeps_its_reservation(world: World) -> None:
    """stay-reserved-not-seen. The cache still has a former pod of that name."""
    entry = {"name": "gpu", "resourceClaimName": "claim"}
    await claim(world)
    for earlier in ("", "Succeeded"):
        if earlier:
            await pod(world, "user", entry, phase=earlier)
            await wait_for_sync()
        with world.faults.hold(resource="pods"):
            if earlier:
                await world.delete(f"{PODS}/user", grace=0)
            user = await pod(world, "user", entry, node="n", phase="Running")
            await allocate(world, "claim", user)
            await wait_for_sync(60)
            assert await users_of(world, "claim") == ["user"]
        await wait_for_sync(60)
        assert await users_of(world, "claim") == ["user"]
        await world.delete(f"{PODS}/user", grace=0)
        await wait_for_sync()
        assert await users_of(world, "claim") == []


async def test_pod_deleted_between_watches_loses_its_reservation(world: World) -> None:
    await claim(world)
    with world.faults.hold(resource="pods"):
        user = await pod(world, "user", {"name": "gpu", "resourceClaimName": "claim"}, node="n")
        await allocate(world, "claim", user)
        await wait_for_sync(60)
        await world.delete(f"{PODS}/user", grace=0)
        await wait_for_sync(60)
        assert await users_of(world, "claim") == []


@pytest.mark.parametrize("fault", [fail(500), conflict(), lose_answer()], ids=["500", "409", "lost"])
@pytest.mark.parametrize("subresource", ["status", ""], ids=["status", "finalizer"])
async def test_failed_writes_are_retried_until_the_finalizer_is_removed(
    world: World, fault: Any, subresource: str
) -> None:
    await claim(world)
    user = await pod(world, "user", {"name": "gpu", "resourceClaimName": "claim"}, node="n")
    await allocate(world, "claim", user)
    world.faults.add(Rule(fault, verb="update", resource="resourceclaims", subresource=subresource, times=2))
    await world.delete(f"{PODS}/user", grace=0)
    await wait_for_sync(30)
    obj = await world.must_get(f"{CLAIMS}/claim")
    assert obj.get("status", {}) == {}
    lost = fault == lose_answer() and subresource == "status"
    if not lost:  # the finalizer's owner is unknown then; it is removed when the claim is deleted
        assert "finalizers" not in obj["metadata"]
    await world.delete(f"{CLAIMS}/claim")
    await wait_for_sync()
    assert await claims(world) == []


async def test_concurrent_allocation_keeps_the_finalizer(world: World) -> None:
    """The allocation was cleared, the finalizer not yet, and a scheduler updated the claim in between."""
    entry = {"name": "gpu", "resourceClaimName": "claim"}
    await claim(world)
    user = await pod(world, "user", entry, node="n")
    await allocate(world, "claim", user)
    world.faults.add(
        Rule(fail(500), verb="update", resource="resourceclaims", when=lambda call, _r: not call.subresource, times=1)
    )
    await world.delete(f"{PODS}/user", grace=0)
    for _ in range(100):
        await asyncio.sleep(0)
    following = await pod(world, "next", entry, node="n")
    await allocate(world, "claim", following)
    await wait_for_sync(60)
    obj = await world.must_get(f"{CLAIMS}/claim")
    assert obj["metadata"]["finalizers"] == [FINALIZER]
    assert await users_of(world, "claim") == ["next"]


async def test_extended_resource_claim_is_released_with_its_pod(world: World) -> None:
    """completed-pod-with-extended-resource-claim."""
    amounts = {"example.com/gpu": "1"}
    container = {"name": "main", "image": "pause", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"containers": [container], "nodeName": "n"}
    await world.request("POST", PODS, {"metadata": {"name": "pod"}, "spec": spec})
    created = await phase_of(world, "pod", "Running")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": created["metadata"]["uid"], "controller": True}
    metadata = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    await claim(world, "extended", owner=owner, **metadata)
    await allocate(world, "extended", created)
    mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "extended", "requestMappings": [mapping]}}
    await world.merge(f"{PODS}/pod/status", {"status": status})
    await wait_for_sync()
    assert world.metrics.value(COUNT, "true", "false", "extended_resource") == 1
    await phase_of(world, "pod", "Succeeded")
    await wait_for_sync()
    assert await claims(world) == []
    assert world.metrics.value(COUNT, "true", "false", "extended_resource") == 0


async def test_deleted_pods_and_pods_without_claims_send_no_requests(world: World) -> None:
    """no-such-pod, no-volumes."""
    await world.pod("plain", node="n")
    await claim(world, "lonely")
    await pod(world, "short", {"name": "gpu", "resourceClaimName": "not-there"})
    await world.delete(f"{PODS}/short", grace=0)
    await wait_for_sync(60)
    assert world.requests() == []
