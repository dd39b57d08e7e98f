"""Pods with resource claims against the embedded API server, in virtual time. The tests create claims as the
resourceclaim controller would, and devices as drivers would."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.nodes.world import World
from tests.scheduler.conftest import assigned_nodes, create_priority_classes
from tests.scheduler.plugins.dynamic_resources.structured.allocation import (
    alternative,
    cel,
    device,
    devices,
    first_available,
    request,
    resource_slice,
)

from pilothouse.api import wire
from pilothouse.api.core import NODES, PODS
from pilothouse.api.resource import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Device, ResourceClaim
from pilothouse.cel.limits import no_evaluator
from pilothouse.client import merge_patch
from pilothouse.client.interceptor import Answer, Rule, conflict, delay, delay_answer, fail
from pilothouse.env import Env
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.types import PodInfo, PodState
from pilothouse.scheduler.plugins.dynamic_resources import pod_claims
from pilothouse.scheduler.plugins.dynamic_resources.selectors import CompiledSelectors, PodSelectors
from pilothouse.scheduler.plugins.dynamic_resources.structured.allocator import Search
from pilothouse.scheduler.plugins.dynamic_resources.structured.types import Compilation, Work
from pilothouse.semantics.devices import ALLOCATION_FINALIZER

Doc = dict[str, Any]
NOT_HELPFUL = "preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
NO_CLAIMS = f"no new claims to deallocate, {NOT_HELPFUL}"
STILL_NOT = f"still not schedulable, {NOT_HELPFUL}"
CANNOT = "0/{0} nodes are available: {0} cannot allocate all claims. " + STILL_NOT


@pytest.fixture
async def world(world: World) -> World:
    """An API server with a scheduler, the node n1, and a class for all devices."""
    await world.create_node("n1")
    await create_class(world)
    return world


async def create_class(w: World, name: str = "any", **spec: Any) -> None:
    await w.client.create(DEVICE_CLASSES.raw, {"metadata": {"name": name}, "spec": spec})


async def create_slice(w: World, *in_slice: Doc, driver: str = "a.com", **parts: Any) -> None:
    whole = resource_slice(*in_slice, driver=driver, **parts)
    del whole["metadata"]["resourceVersion"]
    if not whole["spec"]["sharedCounters"]:
        del whole["spec"]["sharedCounters"]
    await w.client.create(RESOURCE_SLICES.raw, whole)


async def create_claim(w: World, *requests: Doc, name: str = "c", meta: Doc | None = None, **more: Any) -> None:
    spec = {"devices": {"requests": list(requests or (request(),)), **more}}
    await w.client.create(RESOURCE_CLAIMS.raw, {"metadata": {"name": name, **(meta or {})}, "spec": spec}, "default")


async def create_pod(w: World, name: str = "p", *claims: str, **parts: Any) -> None:
    entries = [{"name": f"e{number}", "resourceClaimName": claim} for number, claim in enumerate(claims or ("c",))]
    await w.create_pod(name, resourceClaims=entries, **parts)


async def claim_of(w: World, name: str = "c") -> ResourceClaim:
    return await w.client.get(RESOURCE_CLAIMS, name, "default")


async def allocated(w: World, *names: str) -> list[list[str]]:
    """The devices of each claim."""
    found = [(await claim_of(w, name)).status.allocation for name in names or ("c",)]
    return [[one.device for one in result.devices.results] if result is not None else [] for result in found]


async def why(w: World, name: str = "p") -> tuple[str, str]:
    conditions = (await w.existing(name)).status.conditions
    return next(((c.reason, c.message) for c in conditions if c.type == "PodScheduled"), ("", ""))


async def test_a_claim_is_allocated_and_reserved_before_the_pod_is_bound(world: World) -> None:
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    await create_pod(world)
    await asyncio.sleep(1)
    claim, pod = await claim_of(world), await world.existing()
    assert pod.spec.node_name == "n1"
    assert claim.metadata.finalizers == (ALLOCATION_FINALIZER,)
    body = await world.client.get(RESOURCE_CLAIMS.raw, "c", "default")
    raw = msgspec.json.decode(bytes(body))
    status = raw["status"]
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": pod.metadata.uid}]
    assert status["allocation"].pop("allocationTimestamp")
    local = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert status["allocation"] == {
        "devices": {"results": [{"request": "r", "driver": "a.com", "pool": "pool", "device": "d1"}]},
        "nodeSelector": {"nodeSelectorTerms": [local]},
    }


async def test_a_pod_waits_until_its_claims_exist(world: World) -> None:
    await create_slice(world, *devices("d1", "d2"))
    await create_pod(world, "p", "c", "e")
    await create_claim(world)
    await asyncio.sleep(20)
    assert await why(world) == ("", ""), "it is not tried"
    await create_claim(world, name="e")
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "n1"}
    assert await allocated(world, "c", "e") == [["d1"], ["d2"]]


async def test_a_pod_waits_for_claims_from_templates(world: World) -> None:
    await create_slice(world, *devices("d1"))
    await world.create_pod(resourceClaims=[{"name": "e", "resourceClaimTemplateName": "t"}])
    await asyncio.sleep(1)
    uid = (await world.existing()).metadata.uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    await create_claim(world, meta={"ownerReferences": [owner]})
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": ""}, "its status does not name the claim"
    statuses = {"resourceClaimStatuses": [{"name": "e", "resourceClaimName": "c"}]}
    await world.client.patch(PODS.raw, "p", merge_patch({"status": statuses}), "default", subresource="status")
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "n1"}


@pytest.mark.parametrize("slow", [False, True], ids=["", "while it is written"])
async def test_two_claims_never_get_one_device(world: World, slow: bool) -> None:
    if slow:
        world.scheduler_faults.add(Rule(delay(3.0), verb="update", resource="resourceclaims"))
    await create_slice(world, *devices("d1"))
    for name in ("c1", "c2"):
        await create_claim(world, name=name)
        await create_pod(world, f"pod-{name}", name)
    await asyncio.sleep(2)
    assert await why(world, "pod-c2") == ("Unschedulable", CANNOT.format(1))
    await asyncio.sleep(30)
    assert await allocated(world, "c1", "c2") == [["d1"], []]
    await world.delete("pod-c1", grace=0)
    await world.client.patch(
        RESOURCE_CLAIMS.raw,
        "c1",
        merge_patch({"status": {"allocation": None, "reservedFor": None}}),
        "default",
        subresource="status",
    )
    await asyncio.sleep(15)
    assert await allocated(world, "c1", "c2") == [[], ["d1"]], "its deallocation moves the pod that was rejected"


async def test_pods_share_a_claim(world: World) -> None:
    world.scheduler_faults.add(Rule(delay(3.0), verb="update", resource="resourceclaims"))
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    await create_pod(world, "p1")
    await create_pod(world, "p2")
    await asyncio.sleep(1)
    reason = "resource claim default/c is in the process of being allocated"
    assert await why(world, "p2") == ("Unschedulable", f"0/1 nodes are available: {reason}. {NO_CLAIMS.format(1)}")
    await asyncio.sleep(30)
    assert await assigned_nodes(world) == {"p1": "n1", "p2": "n1"}
    assert sorted(user.name for user in (await claim_of(world)).status.reserved_for) == ["p1", "p2"]


async def test_the_allocation_determines_the_node_of_other_pods(world: World) -> None:
    await world.create_node("n2")
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    for number in range(4):
        await create_pod(world, f"p{number}")
        await asyncio.sleep(2)
    assert set((await assigned_nodes(world)).values()) == {"n1"}
    await world.create_pod("other", nodeSelector={"kubernetes.io/hostname": "n2"})
    await create_pod(world, "q", nodeSelector={"kubernetes.io/hostname": "n2"})
    await world.label_node("n2", "kubernetes.io/hostname", "n2")
    await asyncio.sleep(15)
    _reason, message = await why(world, "q")
    assert message == (
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 resourceclaim not available "
        f"on the node. {STILL_NOT.format(2)}"
    )
    assert len(await allocated(world)) == 1, "it is in use, so it is not deallocated"


async def test_an_unused_allocation_that_does_not_fit_is_removed(world: World) -> None:
    await world.create_node("n2")
    await create_slice(world, *devices("d1"))
    await create_slice(world, *devices("d2"), name="t", pool="other", nodeName="n2")
    await create_claim(world)
    await create_pod(world, "p1")
    await asyncio.sleep(1)
    [[first]] = await allocated(world)
    node = {"d1": "n1", "d2": "n2"}
    await world.delete("p1", grace=0)
    released = merge_patch({"status": {"reservedFor": None}})
    await world.client.patch(RESOURCE_CLAIMS.raw, "c", released, "default", subresource="status")
    other = {"n1": "n2", "n2": "n1"}[node[first]]
    await world.label_node(other, "chosen", "yes")
    await create_pod(world, "p2", nodeSelector={"chosen": "yes"})
    await asyncio.sleep(15)
    assert await assigned_nodes(world) == {"p2": other}
    failed = [e.message for e in await world.events() if e.reason == "FailedScheduling"]
    assert len(failed) == 1
    assert f"deallocation of ResourceClaim completed, {NOT_HELPFUL.format(2)}" in failed[0]


async def test_classes_and_slices_move_pods(world: World) -> None:
    await create_claim(world, request("r", "late"))
    await create_pod(world)
    await asyncio.sleep(1)
    absent = f"0/1 nodes are available: request r: device class late does not exist. {NO_CLAIMS.format(1)}"
    assert await why(world) == ("Unschedulable", absent)
    await create_class(world, "late", selectors=cel('device.driver == "b.com"'))
    await create_slice(world, *devices("d1"))
    await asyncio.sleep(5)
    assert await why(world) == ("Unschedulable", CANNOT.format(1))
    await create_slice(world, *devices("d2"), name="t", driver="b.com")
    await asyncio.sleep(15)
    assert await allocated(world) == [["d2"]]


async def test_a_selector_that_fails_is_an_error(world: World) -> None:
    await create_slice(world, *devices("d1"))
    await create_claim(world, request("r", "any", 1, 'device.attributes["a.com"].color == "red"'))
    await create_pod(world)
    await asyncio.sleep(1)
    message = (
        'running "DynamicResources" filter plugin: claim default/c: selector #0: CEL runtime error: no such key: color'
    )
    assert await why(world) == ("SchedulerError", message)
    await create_slice(world, device("d2", attributes={"color": "red"}), name="t", pool="a", driver="a.com")
    await world.client.delete(RESOURCE_SLICES, "s")
    await asyncio.sleep(15)
    assert await allocated(world) == [["d2"]], "it is tried again without an event"


async def test_a_conflict_is_tried_again_with_the_newest_claim(world: World) -> None:
    world.scheduler_faults.add(Rule(conflict(), verb="update", resource="resourceclaims", nth=1))
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    await create_pod(world)
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "n1"}
    assert not [e for e in await world.events() if e.reason == "FailedScheduling"]


async def test_devices_are_available_again_if_the_claim_cannot_be_written(world: World) -> None:
    faults = world.scheduler_faults
    rule = faults.add(Rule(fail(403, "Forbidden"), verb="update", resource="resourceclaims", name="c1"))
    await create_slice(world, *devices("d1"))
    await create_claim(world, name="c1")
    await create_pod(world, "p1", "c1")
    await asyncio.sleep(1)
    message = 'running PreBind plugin "DynamicResources": add finalizer to claim default/c1: injected fault'
    assert await why(world, "p1") == ("SchedulerError", message)
    await create_claim(world, name="c2")
    await create_pod(world, "p2", "c2")
    await asyncio.sleep(1)
    assert await allocated(world, "c2") == [["d1"]]
    assert rule is not None


async def test_a_reservation_is_removed_if_the_pod_cannot_be_bound(world: World) -> None:
    refused = Rule(fail(500, "InternalError"), verb="create", resource="pods", subresource="binding", nth=1)
    world.scheduler_faults.add(refused)
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    await create_pod(world)
    await asyncio.sleep(0.5)
    claim = await claim_of(world)
    assert (claim.status.reserved_for, await allocated(world)) == ((), [["d1"]])
    await asyncio.sleep(10)
    assert await assigned_nodes(world) == {"p": "n1"}, "with the same device"


async def test_earlier_alternatives_decide_between_nodes(world: World) -> None:
    await world.create_node("n2", cpu="2")
    for node, kind in (("n1", "slow"), ("n2", "fast")):
        await create_slice(world, device("d", attributes={"kind": kind}), name=node, pool=node, nodeName=node)
    fast = alternative("x", "any", 1, 'device.attributes["a.com"].kind == "fast"')
    await create_claim(world, first_available("r", fast, alternative("y")))
    await create_pod(world, cpu="1")
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "n2"}


# Extended resources


def requesting(name: str, count: str = "1") -> Doc:
    return {"requests": {name: count}, "limits": {name: count}}


async def test_a_class_backs_an_extended_resource(world: World) -> None:
    await create_slice(world, *devices("d1", "d2"))
    container = {"name": "c", "image": "i", "resources": requesting("example.com/gpu", "2")}
    await world.create_pod(containers=[container])
    await asyncio.sleep(1)
    assert (await why(world))[1].startswith("0/1 nodes are available: 1 Insufficient example.com/gpu.")
    await create_class(world, "gpu", extendedResourceName="example.com/gpu")
    await asyncio.sleep(15)
    pod = await world.document()
    assert pod["spec"].get("nodeName") == "n1"
    status = pod["status"]["extendedResourceClaimStatus"]
    assert status["requestMappings"] == [
        {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
    ]
    claim = await claim_of(world, status["resourceClaimName"])
    assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [owner.uid for owner in claim.metadata.owner_references] == [pod["metadata"]["uid"]]
    assert await allocated(world, claim.metadata.name) == [["d1", "d2"]]


async def test_a_node_that_has_the_resource_itself_needs_no_claim(world: World) -> None:
    await create_class(world, "gpu", extendedResourceName="example.com/gpu")
    more = merge_patch({"status": {"allocatable": {"example.com/gpu": "1"}, "capacity": {"example.com/gpu": "1"}}})
    await world.client.patch(NODES.raw, "n1", more, subresource="status")
    container = {"name": "c", "image": "i", "resources": requesting("example.com/gpu")}
    await world.create_pod(containers=[container])
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "n1"}
    assert not (await world.client.list(RESOURCE_CLAIMS, "default")).items


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (None, 'resourceclaims.resource.k8s.io "x" not found'),
        (7, "a ResourceClaim that was written cannot be read: Expected `array`, got `int` - at "),
    ],
    ids=["null, as Go encodes no requests", "something else"],
)
async def test_a_response_without_requests(world: World, requests: Any, message: str) -> None:
    claim = {"metadata": {"name": "x", "namespace": "default", "uid": "u"}, "spec": {"devices": {"requests": requests}}}
    response = wire.Response(201, {"content-type": "application/json"}, msgspec.json.encode(claim))
    world.scheduler_faults.add(Rule(Answer(response), verb="create", resource="resourceclaims"))
    await create_slice(world, *devices("d1"))
    await create_class(world, "gpu", extendedResourceName="example.com/gpu")
    await world.create_pod(containers=[{"name": "c", "image": "i", "resources": requesting("example.com/gpu")}])
    await asyncio.sleep(1)
    reason, found = await why(world)
    assert reason == "SchedulerError"
    assert message in found


# Binding conditions


async def test_a_pod_is_bound_when_its_devices_are_ready(world: World) -> None:
    await create_slice(world, device("d1", bindingConditions=["ready"], bindingFailureConditions=["failed"]))
    await create_claim(world)
    await create_pod(world)
    await asyncio.sleep(60)
    assert await assigned_nodes(world) == {"p": ""}
    reported = [e.message for e in await world.events() if e.reason == "BindingConditionsPending"]
    assert reported == ["waiting for binding conditions for device on node n1"]
    ready = {"type": "ready", "status": "True", "reason": "Attached", "message": "",
             "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    status = {"driver": "a.com", "pool": "pool", "device": "d1", "conditions": [ready]}
    patch = merge_patch({"status": {"devices": [status]}})
    await world.client.patch(RESOURCE_CLAIMS.raw, "c", patch, "default", subresource="status")
    await asyncio.sleep(6)
    assert await assigned_nodes(world) == {"p": "n1"}


async def test_a_pod_that_waits_for_its_devices_is_scheduled_again_when_it_is_preempted(world: World) -> None:
    await create_priority_classes(world)
    await create_slice(world, device("d1", bindingConditions=["ready"], bindingFailureConditions=["failed"]))
    await create_claim(world)
    await create_pod(world, cpu="3")
    await asyncio.sleep(1)
    await world.create_pod("high", cpu="3", priorityClassName="high")
    await asyncio.sleep(5)
    assert await assigned_nodes(world) == {"p": "", "high": "n1"}
    assert (await claim_of(world)).status.reserved_for == ()


async def test_events_during_a_long_search_are_not_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node that fits is added while devices are searched on another one."""
    many = [device(f"d{n}") for n in range(100)]
    for n in range(40):
        await create_slice(world, *many, name=f"s{n}", pool=f"p{n}")
    await create_claim(world, request("r", "any", 1, 'device.driver == "b.com"'))
    await world.create_pod("first")
    await asyncio.sleep(1)
    searched = Search.run
    created = asyncio.Event()

    def run(self: Search, units: int) -> Any:
        created.set()
        return searched(self, units)

    monkeypatch.setattr(Search, "run", run)
    await create_pod(world)
    await created.wait()
    await create_slice(world, *devices("d"), name="t", pool="q", driver="b.com", allNodes=True)
    await asyncio.sleep(15)
    assert (await assigned_nodes(world))["p"] == "n1"


async def test_devices_that_are_never_ready_are_given_up(world: World) -> None:
    await create_slice(world, device("d1", bindingConditions=["ready"], bindingFailureConditions=["failed"]))
    await create_claim(world)
    await create_pod(world)
    await asyncio.sleep(620)
    failed = [e.message for e in await world.events() if e.reason == "FailedScheduling"]
    assert failed[0].startswith('running PreBind plugin "DynamicResources": device binding timeout')
    assert any("deallocation of ResourceClaim completed" in message for message in failed)


# Bounds and other servers


async def test_other_tasks_run_while_devices_are_searched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that backtracks over all combinations is stopped, and the event loop was never held for long."""
    values = [device(f"d{n:02}", attributes={"odd": n % 2, "n": n}) for n in range(30)]
    await create_slice(world, *values)
    constraints = [{"matchAttribute": "a.com/odd", "requests": ["r"]}, {"matchAttribute": "a.com/n", "requests": ["s"]}]
    await create_claim(world, request(count=8), request("s", count=2), constraints=constraints)
    spent: list[int] = []
    run = Search.run

    def counted(self: Search, units: int) -> Any:
        before = self.work.spent
        try:
            return run(self, units)
        finally:
            spent.append(self.work.spent - before)

    monkeypatch.setattr(Search, "run", counted)
    monkeypatch.setattr(pod_claims, "MAX_UNITS", 300_000)
    await create_pod(world)
    await asyncio.sleep(1)
    message = 'running "DynamicResources" filter plugin: node n1: timed out trying to allocate devices'
    assert await why(world) == ("SchedulerError", message)
    assert len(spent) > 50
    assert max(spent) < 2 * pod_claims.PASS_UNITS


async def test_updates_of_the_pod_do_not_prolong_the_search(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update starts a new search, with what is left of the work of the attempt."""
    await create_slice(world, *(device(f"d{n:02}", attributes={"odd": n % 2, "n": n}) for n in range(30)))
    constraints = [{"matchAttribute": "a.com/odd", "requests": ["r"]}, {"matchAttribute": "a.com/n", "requests": ["s"]}]
    await create_claim(world, request(count=8), request("s", count=2), constraints=constraints)
    run, spent, updates = Search.run, [0], 0

    def counted(self: Search, units: int) -> Any:
        before = self.work.spent
        try:
            return run(self, units)
        finally:
            spent[0] += self.work.spent - before

    monkeypatch.setattr(Search, "run", counted)
    monkeypatch.setattr(pod_claims, "MAX_UNITS", 100_000)
    await create_pod(world)
    while await why(world) == ("", "") and updates < 100:
        updates += 1
        patch = merge_patch({"metadata": {"annotations": {"update": str(updates)}}})
        await world.client.patch(PODS.raw, "p", patch, "default")
    assert (await why(world))[0] == "SchedulerError"
    assert updates > 2
    assert spent[0] < 150_000


async def test_a_pod_with_too_many_claims_is_not_scheduled(world: World) -> None:
    await create_pod(world, "p", *(f"c{number}" for number in range(129)))
    await asyncio.sleep(1)
    _reason, message = await why(world)
    assert "the pod has 129 resource claims, and at most 128 are supported" in message


async def test_selectors_are_compiled_while_other_tasks_run(world: World) -> None:
    """The first of many expressions excludes the device."""
    await create_slice(world, *devices("d1"))
    many = [f'device.driver == "{number}"' for number in range(32)]
    await create_claim(world, request("r", "any", 1, *many))
    await create_pod(world)
    await asyncio.sleep(1)
    assert await why(world) == ("Unschedulable", CANNOT.format(1))


def test_a_claim_with_many_long_selectors_is_stopped() -> None:
    """Compiling counts as work of the attempt: 200 selectors of the maximum length would take 20 s."""
    work = Work(pod_claims.MAX_UNITS)
    selectors = PodSelectors(CompiledSelectors(no_evaluator))
    for number in range(200):
        expression = f'device.driver == "{number:010000}"'
        assert selectors.matches(expression, Device(), "a.com", work) == Compilation(expression)
    assert work.exhausted


async def test_claims_are_ignored_if_the_server_has_none(env: Env, world_without_scheduler: World) -> None:
    world = world_without_scheduler
    world.scheduler_faults.add(Rule(fail(404, "NotFound"), verb="list", resource="resourceclaims"))
    world.start_scheduler()
    await world.create_node("n1")
    await create_pod(world)
    await asyncio.sleep(1)
    assert await assigned_nodes(world) == {"p": "n1"}


async def test_a_pod_has_one_attempt_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its claim is replaced while devices are searched, and the pod updated while there is no claim."""
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    searching, replaced = asyncio.Event(), asyncio.Event()
    searched, assume_pod = Search.run, Cache.assume_pod
    already_assumed: list[bool] = []

    def run(self: Search, units: int) -> Any:
        searching.set()
        return searched(self, units) if replaced.is_set() else None

    def assume(self: Cache, pod_info: PodInfo, node_name: str) -> PodState:
        already_assumed.append(self.is_assumed_pod(pod_info.key, pod_info.pod.metadata.uid))
        return assume_pod(self, pod_info, node_name)

    async def settle() -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    monkeypatch.setattr(Search, "run", run)
    monkeypatch.setattr(Cache, "assume_pod", assume)
    await create_pod(world)
    await searching.wait()
    await world.client.delete(RESOURCE_CLAIMS, "c", "default")
    await settle()
    await world.client.patch(PODS.raw, "p", merge_patch({"metadata": {"labels": {"a": "b"}}}), "default")
    await settle()
    await create_claim(world)
    await settle()
    replaced.set()
    await asyncio.sleep(15)
    assert already_assumed == [False], "the attempt continues with the new claim, and there is no other one"
    assert await assigned_nodes(world) == {"p": "n1"}


async def test_shared_capacity_is_counted_once(world: World) -> None:
    """Also between the event with the allocation and the response to the request."""
    world.scheduler_faults.add(Rule(delay_answer(3.0), verb="update", resource="resourceclaims", subresource="status"))
    policy = {"default": "5Gi", "validValues": ["5Gi"]}
    capacity = {"memory": {"value": "10Gi", "requestPolicy": policy}}
    await create_slice(world, device("d1", allowMultipleAllocations=True, capacity=capacity))
    for name in ("c1", "c2"):
        await create_claim(world, name=name)
        await create_pod(world, f"pod-{name}", name)
        await asyncio.sleep(1)
    await asyncio.sleep(20)
    assert await assigned_nodes(world) == {"pod-c1": "n1", "pod-c2": "n1"}


async def test_shared_capacity_is_counted_once_while_the_status_of_the_pod_is_written(world: World) -> None:
    capacity = {"memory": {"value": "10Gi", "requestPolicy": {"default": "5Gi", "validValues": ["5Gi"]}}}
    await create_slice(world, device("d1", allowMultipleAllocations=True, capacity=capacity))
    await create_class(world, "gpu", extendedResourceName="example.com/gpu")
    container = {"name": "c", "image": "i", "resources": requesting("example.com/gpu", "1")}
    world.scheduler_faults.add(Rule(delay(3.0), verb="patch", resource="pods", subresource="status"))
    await world.create_pod("p1", containers=[container])
    await asyncio.sleep(4)
    await world.create_pod("p2", containers=[container])
    await asyncio.sleep(20)
    assert await assigned_nodes(world) == {"p1": "n1", "p2": "n1"}


async def test_a_claim_that_is_gone_before_the_response_has_no_devices(world: World) -> None:
    world.scheduler_faults.add(Rule(delay_answer(3.0), verb="update", resource="resourceclaims", subresource="status"))
    await create_slice(world, *devices("d1"))
    await create_claim(world)
    await create_pod(world)
    await asyncio.sleep(1)
    await world.client.delete(PODS, "p", "default")
    ends = merge_patch({"metadata": {"finalizers": None}})
    await world.client.patch(RESOURCE_CLAIMS.raw, "c", ends, "default")
    await world.client.delete(RESOURCE_CLAIMS, "c", "default")
    await asyncio.sleep(10)
    await create_claim(world, name="c2")
    await create_pod(world, "p2", "c2")
    await asyncio.sleep(10)
    assert await assigned_nodes(world) == {"p2": "n1"}
