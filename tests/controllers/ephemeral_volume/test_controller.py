"""The controller on the embedded API server, in virtual time: events that enqueue, requests, faults."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of, wait_for_sync
from tests.tables import cases

from pilothouse.client.interceptor import Rule, conflict, fail, gone, lose_answer
from pilothouse.controllers.volumes.ephemeral_volume import DESCRIPTOR, EphemeralVolumeOptions
from pilothouse.env import Env

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SPEC: Doc = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "x"}
CREATE = "create persistentvolumeclaims "


async def pod(world: World, *volumes: str, name: str = "p") -> Doc:
    template = {"metadata": {"labels": {"of": "scratch"}}, "spec": SPEC}
    spec = {
        "containers": [{"name": "main", "image": "pause"}],
        "volumes": [{"name": item, "ephemeral": {"volumeClaimTemplate": template}} for item in volumes or ("scratch",)],
    }
    return await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})


async def names(world: World) -> list[str]:
    return [item["metadata"]["name"] for item in (await world.must_get(CLAIMS))["items"]]


@contextlib.asynccontextmanager
async def controlled(env: Env, *, before: Callable[[World], Awaitable[Any]] | None = None) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        if before is not None:
            await before(world)
        await world.start(DESCRIPTOR, EphemeralVolumeOptions())
        yield world


world = fixture_of(controlled)


@pytest.mark.parametrize("early", [True, False], ids=["existing pod", "new pod"])
async def test_claim_is_created_once_per_pod(env: Env, early: bool) -> None:
    async with controlled(env, before=pod if early else None) as world:
        owner = await world.must_get(f"{PODS}/p") if early else await pod(world)
        await wait_for_sync()
        claim = await world.must_get(f"{CLAIMS}/p-scratch")
        assert claim["metadata"]["labels"] == {"of": "scratch"}
        assert claim["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert claim["spec"] == {**SPEC, "volumeMode": "Filesystem"}
        await world.merge(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        await wait_for_sync(7200)
        assert world.requests() == [CREATE]
        assert world.metrics.value("ephemeral_volume_controller_create_total") == 1
        assert world.metrics.value("ephemeral_volume_controller_create_failures_total") == 0


async def test_deleted_claim_is_recreated(env: Env) -> None:
    async with controlled(env, before=pod) as world:
        await wait_for_sync()
        await world.merge(f"{CLAIMS}/p-scratch", {"metadata": {"finalizers": None}})
        await world.delete(f"{CLAIMS}/p-scratch")
        await wait_for_sync()
        assert await names(world) == ["p-scratch"]
        assert world.requests() == [CREATE] * 2
        await world.delete(f"{PODS}/p", grace=0)
        await world.merge(f"{CLAIMS}/p-scratch", {"metadata": {"finalizers": None}})
        await world.delete(f"{CLAIMS}/p-scratch")
        await wait_for_sync(60)
        assert await names(world) == [], "nobody wants it any more"


async def test_claim_of_another_owner_is_kept_and_an_event_emitted(env: Env) -> None:

    async def before(world: World) -> None:
        await world.request("POST", CLAIMS, {"metadata": {"name": "p-scratch"}, "spec": SPEC})
        await pod(world)

    async with controlled(env, before=before) as world:
        await wait_for_sync(30)
        assert world.requests() == []
        reason = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
        assert await world.events("FailedBinding") == [f"Pod/p ephemeral volume scratch: {reason}"]
        await world.merge(f"{CLAIMS}/p-scratch", {"metadata": {"finalizers": None}})
        await world.delete(f"{CLAIMS}/p-scratch")
        await wait_for_sync()
        assert world.requests() == [CREATE]


@cases(
    "fault, message",
    {
        "refused": (fail(403, "Forbidden"), True),
        "the server is ill": (fail(500), True),
        "create-conflict": (conflict(), True),
        "the answer is lost": (lose_answer(), True),
    },
)
async def test_failed_claim_creation_is_retried(env: Env, fault: Any, message: bool) -> None:

    async def before(world: World) -> None:
        await pod(world)
        world.faults.add(Rule(fault, verb="create", resource="persistentvolumeclaims", times=2))

    async with controlled(env, before=before) as world:
        await wait_for_sync(30)
        assert await names(world) == ["p-scratch"]
        failed_messages = [line for line in await world.events("FailedBinding") if "create PVC p-scratch: " in line]
        assert bool(failed_messages) is message
        failures = world.metrics.value("ephemeral_volume_controller_create_failures_total")
        assert failures >= 1
        assert world.metrics.value("ephemeral_volume_controller_create_total") >= failures


async def test_existing_claim_missing_in_the_cache_emits_no_event(world: World) -> None:
    """The second volume fails at first; meanwhile the first claim exists, and the cache may not have it."""
    with world.faults.hold(resource="persistentvolumeclaims"):
        world.faults.add(Rule(fail(500), verb="create", resource="persistentvolumeclaims", nth=2))
        await pod(world, "scratch", "more")
        await wait_for_sync(5)
        assert len(world.requests()) > 2
    await wait_for_sync(60)
    assert await names(world) == ["p-more", "p-scratch"]
    lines = await world.events("FailedBinding")
    assert len(lines) == 1
    assert "ephemeral volume more: create PVC p-more: " in lines[0]


async def test_recreated_pod_seen_as_an_update_gets_its_claim(env: Env) -> None:
    async with controlled(env, before=pod) as world:
        await wait_for_sync()
        with world.faults.hold(resource="pods"), world.faults.hold(resource="persistentvolumeclaims"):
            await world.delete(f"{PODS}/p", grace=0)
            await world.merge(f"{CLAIMS}/p-scratch", {"metadata": {"finalizers": None}})
            await world.delete(f"{CLAIMS}/p-scratch")
            again = await pod(world)
            await wait_for_sync()
            for resource in ("persistentvolumeclaims", "pods"):
                world.faults.end_watches(resource=resource, with_=gone())
            await wait_for_sync(5)
        await wait_for_sync(5)
        claim = await world.must_get(f"{CLAIMS}/p-scratch")
        assert claim["metadata"]["ownerReferences"][0]["uid"] == again["metadata"]["uid"]
