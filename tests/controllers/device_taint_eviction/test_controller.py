"""The controller against the embedded API server, in virtual time: requests, events, metrics, rules, faults."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of, wait_for_sync
from tests.controllers.resourceclaim.builders import CLAIMS, claim_doc, reference
from tests.custom_resources import DEFINITIONS, definition, version

from pilothouse.client.interceptor import Rule, conflict, fail, lose_answer
from pilothouse.controllers.devices.device_taint_eviction import DESCRIPTOR, DeviceTaintEvictionOptions
from pilothouse.env import Env

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
RULES = "/apis/resource.k8s.io/v1beta2/devicetaintrules"
DELETIONS = "device_taint_eviction_controller_pod_deletions_total"
LATENCY = "device_taint_eviction_controller_pod_deletion_duration_seconds"
TAINT: Doc = {"key": "broken", "effect": "NoExecute"}
EVENT = "DeviceTaintManagerEviction"


@contextlib.asynccontextmanager
async def evicting(env: Env, *, rules: bool = False) -> AsyncIterator[World]:
    """A world in which the controller runs."""
    async with node_world.world(env) as world:
        if rules:
            await serve_rules(world)
        await world.start(DESCRIPTOR, DeviceTaintEvictionOptions(rules=rules))
        yield world


world = fixture_of(evicting)


async def devices(world: World, **taints: list[Doc]) -> None:
    """The slice of the one node, with these devices."""
    listed = [{"name": name.replace("_", "-"), "taints": device} for name, device in taints.items()]
    pool = {"name": "node1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "node1", "devices": listed}
    if await world.get(f"{SLICES}/slice") is None:
        await world.request("POST", SLICES, {"metadata": {"name": "slice"}, "spec": spec})
    else:
        await world.merge(f"{SLICES}/slice", {"spec": {"devices": listed}})


async def user(world: World, name: str = "pod", *tolerations: Doc, device: str = "gpu-0", node: str = "node1") -> Doc:
    """A pod that uses a device."""
    container = {"name": "main", "image": "pause", "resources": {"claims": [{"name": "gpu"}]}}
    spec: Doc = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    if node:
        spec["nodeName"] = node
    created = await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    doc = claim_doc(name)
    doc.pop("status")
    await world.request("POST", CLAIMS, doc)
    result: Doc = {"request": "gpu", "driver": "gpu.example.com", "pool": "node1", "device": device}
    if tolerations:
        result["tolerations"] = list(tolerations)
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [reference(name, created["metadata"]["uid"])],
    }
    await world.merge(f"{CLAIMS}/{name}/status", {"status": status})
    return created


def tolerating(seconds: int | None = None) -> Doc:
    result: Doc = {"operator": "Exists", "effect": "NoExecute"}
    return result if seconds is None else {**result, "tolerationSeconds": seconds}


async def deleted(world: World, name: str = "pod") -> bool:
    pod = await world.get(f"{PODS}/{name}")
    return pod is None or "deletionTimestamp" in pod["metadata"]


async def test_pod_using_a_tainted_device_gets_an_event_and_is_deleted(world: World) -> None:
    """evict-pod-resourceclaim."""
    await devices(world, gpu_0=[], gpu_1=[TAINT])
    await user(world)
    await wait_for_sync(60)
    assert world.requests() == [], "another device is tainted"
    await devices(world, gpu_0=[TAINT], gpu_1=[TAINT])
    await wait_for_sync()
    assert await deleted(world)
    assert world.requests() == ["get pods pod", "patch pods/status pod", "delete pods pod"]
    (body,) = world.bodies("patch", "pods/status")
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert condition["reason"] == "DeletionByDeviceTaintManager"
    assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"
    assert "observedGeneration" not in condition
    assert await world.events(EVENT) == ["Pod/pod Marking for deletion"]
    assert world.metrics.value(DELETIONS) == 1
    assert world.metrics.value(LATENCY) == 1
    await wait_for_sync(600)
    assert len(world.requests()) == 3, "and that is all"


@pytest.mark.parametrize("known", [True, False])
async def test_pod_already_terminating_counts_as_evicted(world: World, known: bool) -> None:
    """``addConditionAndDeletePod`` finds it terminating, also if the cache is stale."""
    await devices(world, gpu_0=[])
    await user(world)
    with contextlib.ExitStack() as lagging:
        if not known:
            lagging.enter_context(world.faults.hold(resource="pods"))
        await world.delete(f"{PODS}/pod")
        await wait_for_sync()
        await devices(world, gpu_0=[TAINT])
        await wait_for_sync()
    assert world.requests() == ["get pods pod"]
    assert await world.events(EVENT) == []
    assert (world.metrics.value(DELETIONS), world.metrics.value(LATENCY)) == (1, 1)
    await wait_for_sync(600)
    assert world.requests() == ["get pods pod"]


async def test_toleration_delays_eviction_and_taint_removal_cancels_it(world: World) -> None:
    """evict-pod-later; cancel-eviction-remove-taint."""
    await devices(world, gpu_0=[TAINT], gpu_1=[TAINT])
    await user(world, "first", tolerating(60))
    await user(world, "second", tolerating(60), device="gpu-1")
    await user(world, "third", tolerating(), device="gpu-1")
    await wait_for_sync(50)
    assert await world.pods() == ["first", "second", "third"]
    await devices(world, gpu_0=[], gpu_1=[(await world.must_get(f"{SLICES}/slice"))["spec"]["devices"][1]["taints"][0]])
    await wait_for_sync(20)
    assert await deleted(world, "second")
    assert not await deleted(world, "first")
    await wait_for_sync(600)
    assert not await deleted(world, "third")
    assert await world.events(EVENT) == ["Pod/first Cancelling deletion", "Pod/second Marking for deletion"]


async def test_pod_scheduled_after_the_taint_is_evicted(world: World) -> None:
    """evict-pod-after-scheduling."""
    await devices(world, gpu_0=[TAINT])
    await user(world, node="")
    await wait_for_sync(60)
    assert not await deleted(world)
    target = {"target": {"kind": "Node", "name": "node1"}, "metadata": {"name": "pod"}}
    await world.request("POST", f"{PODS}/pod/binding", target)
    await wait_for_sync()
    assert await deleted(world)


async def test_removed_reservation_cancels_the_eviction(world: World) -> None:
    """cancel-eviction-remove-reservation."""
    await devices(world, gpu_0=[TAINT])
    await user(world, "pod", tolerating(60))
    await wait_for_sync(30)
    await world.merge(f"{CLAIMS}/pod/status", {"status": {"reservedFor": None}})
    await wait_for_sync(600)
    assert not await deleted(world)
    assert await world.events(EVENT) == ["Pod/pod Cancelling deletion"]


async def test_pods_existing_at_startup_are_evicted(env: Env) -> None:
    async with node_world.world(env) as world:
        await devices(world, gpu_0=[TAINT])
        await user(world)
        await wait_for_sync(60)
        assert not await deleted(world)
        await world.start(DESCRIPTOR)
        await wait_for_sync()
        assert await deleted(world)


@pytest.mark.parametrize("fault", [fail(500), conflict(), lose_answer(), fail(404)], ids=["500", "409", "lost", "404"])
@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
async def test_failed_eviction_is_retried(world: World, verb: str, fault: Any) -> None:
    await devices(world, gpu_0=[TAINT])
    world.faults.add(Rule(fault, verb=verb, resource="pods", name="pod", times=3))
    await user(world)
    await wait_for_sync(30)
    assert await deleted(world)


async def test_recreated_pod_of_the_same_name_is_not_evicted(world: World) -> None:
    """The claim is still reserved for its predecessor."""
    await devices(world, gpu_0=[TAINT])
    await user(world, "pod", tolerating(60))
    await wait_for_sync(30)
    await world.delete(f"{PODS}/pod", grace=0)
    await world.pod("pod", node="node1")
    await wait_for_sync(600)
    assert not await deleted(world)


# Rules, behind their gate


async def serve_rules(world: World) -> None:
    """The API of rules, which a server has only with the gate: here as a custom resource."""
    condition = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"type": {"type": "string"}},
        "required": ["type"],
    }
    conditions = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "status": {"type": "object", "properties": {"conditions": conditions}},
        },
    }
    served = version("v1beta2", schema, subresources={"status": {}})
    rules = definition("DeviceTaintRule", served, group="resource.k8s.io", namespaced=False, approved=True)
    await world.request("POST", DEFINITIONS, rules)
    await wait_for_sync(5)


async def taint_rule(world: World, name: str, effect: str = "NoExecute", **selector: str) -> None:
    taint = {"key": "broken", "effect": effect, "timeAdded": world.env.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    await world.request("POST", RULES, rule)


async def status_of(world: World, name: str) -> tuple[str, str, str]:
    (condition,) = (await world.must_get(f"{RULES}/{name}"))["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]


async def test_device_taint_rule_evicts_and_reports_progress_in_its_status(env: Env) -> None:
    """evict-pod-rule, evict-pod-rule-later."""
    async with evicting(env, rules=True) as world:
        await user(world)
        await user(world, "patient", tolerating(60))
        await taint_rule(world, "rule", driver="gpu.example.com")
        await wait_for_sync()
        assert await deleted(world)
        assert (await status_of(world, "rule"))[:2] == ("True", "PodsPendingEviction")
        await wait_for_sync(30)
        evicted = "1 pod evicted since starting the controller."
        assert await status_of(world, "rule") == (
            "True",
            "PodsPendingEviction",
            f"1 pod needs to be evicted in 1 namespace. {evicted}",
        )
        await wait_for_sync(60)
        assert await deleted(world, "patient")
        assert await status_of(world, "rule") == ("False", "Completed", "2 pods evicted since starting the controller.")
        patches = [text for text in world.requests() if "devicetaintrules" in text]
        assert set(patches) == {"patch devicetaintrules/status rule"}
        assert len(patches) <= 5, "at most one in ten seconds"
        (body, *_more) = world.bodies("patch", "devicetaintrules/status")
        assert body["metadata"]["uid"] == (await world.must_get(f"{RULES}/rule"))["metadata"]["uid"]


async def test_device_taint_rule_with_effect_none_reports_affected_pods(env: Env) -> None:
    """none-pod-rule."""
    async with evicting(env, rules=True) as world:
        await devices(world, gpu_0=[], gpu_1=[])
        await user(world)
        await taint_rule(world, "rule", "None", driver="gpu.example.com")
        await wait_for_sync()
        status, reason, message = await status_of(world, "rule")
        assert (status, reason) == ("False", "NoEffect")
        assert message.startswith(
            "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if "
        )
        await wait_for_sync(600)
        assert not await deleted(world)


async def test_deleted_device_taint_rule_cancels_its_evictions(env: Env) -> None:
    async with evicting(env, rules=True) as world:
        await user(world, "pod", tolerating(60))
        await taint_rule(world, "rule", device="gpu-0")
        await wait_for_sync(30)
        await world.delete(f"{RULES}/rule")
        await wait_for_sync(600)
        assert not await deleted(world)
        assert await world.events(EVENT) == ["Pod/pod Cancelling deletion"]


async def test_device_taint_rules_are_ignored_without_the_gate(env: Env) -> None:
    async with node_world.world(env) as world:
        await serve_rules(world)
        await taint_rule(world, "rule", driver="gpu.example.com")
        await user(world)
        await world.start(DESCRIPTOR)
        await wait_for_sync(600)
        assert not await deleted(world)
        assert (await world.must_get(f"{RULES}/rule")).get("status") is None
