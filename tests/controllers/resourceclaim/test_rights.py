"""v1.36's role of the controller allows every request for devices, and every rule is used.

The real API server that other controllers are judged in front of is too old for claims for devices.
"""

from typing import Any

import pytest
from tests.controllers.device_taint_eviction import test_controller as evictions
from tests.controllers.node_world import PODS, World, wait_for_sync
from tests.controllers.resourceclaim import test_controller as claims

from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.controllers.devices.device_taint_eviction import DESCRIPTOR as DEVICE_TAINT_EVICTION
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR as RESOURCE_CLAIM
from pilothouse.runtime import Descriptor

Right = tuple[str, str]

NOT_NEEDED: dict[str, set[Right]] = {
    "resource-claim-controller": {
        ("patch", "resourceclaims"),
        ("patch", "resourceclaims/status"),
        ("update", "pods/finalizers"),
        ("update", "pods/status"),
        # The API server checks these itself for writes of reservations.
        ("patch", "resourceclaims/binding"),
        ("update", "resourceclaims/binding"),
        # After a lost answer, and of a claim that a pod names and the cache does not have.
        ("get", "resourceclaims"),
        # Of a pod that the cache does not have.
        ("get", "pods"),
    },
    "device-taint-eviction-controller": {
        ("get", "deviceclasses"),
        ("get", "resourceclaims"),
        ("get", "resourceslices"),
        ("update", "pods/status"),
    },
}


def granted(account: str) -> set[Right]:
    """The permissions of the role, except those for informers, which belong to the manager, and for events, which all
    recorders share."""
    name = f"system:controller:{account}"
    (role,) = [
        document
        for resource, document in bootstrap_objects()
        if resource == "clusterroles" and document["metadata"]["name"] == name
    ]
    rules: list[dict[str, Any]] = role["rules"]
    return {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
        if verb not in {"list", "watch"} and resource != "events"
    }


async def use_claims(world: World) -> None:
    """A pod gets its claim, uses it, and ends."""
    await claims.template(world)
    created_pod = await claims.pod(world)
    await wait_for_sync()
    (name,) = (await claims.named(world)).values()
    await claims.allocate(world, name, created_pod)
    await claims.bind(world)
    await claims.phase_of(world, "pod", "Succeeded")
    await wait_for_sync()
    await world.delete(f"{PODS}/pod", grace=0)


async def use_devices(world: World) -> None:
    """A pod is evicted."""
    await evictions.devices(world, gpu_0=[evictions.TAINT])
    await evictions.user(world)
    await wait_for_sync()


@pytest.mark.parametrize(
    ("descriptor", "story"),
    [(RESOURCE_CLAIM, use_claims), (DEVICE_TAINT_EVICTION, use_devices)],
    ids=["resourceclaim", "device taint eviction"],
)
async def test_bootstrap_role_is_sufficient_and_fully_used(world: World, descriptor: Descriptor, story: Any) -> None:
    await world.start(descriptor)
    await story(world)
    used = set()
    for sent in world.seen:
        call = sent.call
        if call.verb != "list" and call.resource != "events":
            used.add((call.verb, f"{call.resource}/{call.subresource}" if call.subresource else call.resource))
    rights = granted(descriptor.client_name)
    assert used <= rights
    assert rights - used == NOT_NEEDED[descriptor.client_name] - used
