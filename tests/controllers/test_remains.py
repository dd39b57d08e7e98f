"""Objects deleted during a request about them leave no state in the controller.

Each row is one such place; afterwards nothing may be left of the object in the controller's memory.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.controllers.device_taint_eviction.test_controller import RULES, devices, serve_rules, taint_rule, user
from tests.controllers.node_world import NODES, PODS, Doc, World
from tests.controllers.remains import remains
from tests.controllers.resourceclaim.builders import CLAIMS as RESOURCE_CLAIMS
from tests.controllers.resourceclaim.builders import ENTRY, FINALIZER, TEMPLATES, claim_doc, reference
from tests.tables import cases

from pilothouse.client.interceptor import Rule, delay, delay_answer, lose_answer
from pilothouse.controllers.devices.device_taint_eviction import DESCRIPTOR as DEVICE_TAINTS
from pilothouse.controllers.devices.device_taint_eviction import DeviceTaintEvictionOptions
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR as RESOURCECLAIM
from pilothouse.controllers.network.service_cidr import DESCRIPTOR as SERVICE_CIDR
from pilothouse.controllers.node.ttl import DESCRIPTOR as TTL
from pilothouse.controllers.policy.resourcequota import DESCRIPTOR as RESOURCEQUOTA
from pilothouse.controllers.policy.resourcequota.counting import Counter
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR as BINDER
from pilothouse.controllers.volumes.persistentvolume_binder import BinderOptions
from pilothouse.controllers.volumes.persistentvolume_binder.operations import CONCURRENCY
from pilothouse.controllers.volumes.persistentvolumeclaim_protection import DESCRIPTOR as PVC_PROTECTION
from pilothouse.controllers.workloads.cronjob import DESCRIPTOR as CRONJOB
from pilothouse.controllers.workloads.job import DESCRIPTOR as JOB

Gone = tuple[str, str]
"""Uid and key of the deleted object."""

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
VOLUME_CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CONTAINER = {"name": "main", "image": "pause"}
LATE = 2.0


async def remove(world: World, path: str) -> None:
    """Delete the object, and remove its finalizers."""
    await world.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    if await world.get(path) is not None:
        await world.merge(path, {"metadata": {"finalizers": None}})
    assert await world.get(path) is None


def uid_of(doc: Doc) -> str:
    return str(doc["metadata"]["uid"])


async def a_node(world: World) -> Gone:
    world.faults.add(Rule(delay_answer(LATE), verb="patch", resource="nodes"))
    node = await world.node("n0")
    await asyncio.sleep(1)
    assert "node.alpha.kubernetes.io/ttl" in (await world.must_get(f"{NODES}/n0"))["metadata"]["annotations"]
    await remove(world, f"{NODES}/n0")
    return uid_of(node), "n0"


async def a_service_cidr(world: World) -> Gone:
    world.faults.add(Rule(delay_answer(LATE), verb="patch", subresource="status"))
    created = await world.request("POST", CIDRS, {"metadata": {"name": "extra"}, "spec": {"cidrs": ["10.9.0.0/24"]}})
    await asyncio.sleep(1)
    assert await world.conditions(f"{CIDRS}/extra")
    await remove(world, f"{CIDRS}/extra")
    return uid_of(created), "extra"


async def a_cron_job(world: World) -> Gone:
    world.faults.add(Rule(delay_answer(LATE), verb="update", resource="cronjobs", subresource="status"))
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}}
    spec = {"schedule": "* * * * *", "jobTemplate": template}
    created = await world.request("POST", CRON_JOBS, {"metadata": {"name": "tick"}, "spec": spec})
    await asyncio.sleep(61)
    assert (await world.must_get(f"{CRON_JOBS}/tick"))["status"]["active"]
    await remove(world, f"{CRON_JOBS}/tick")
    return uid_of(created), "default/tick"


async def create_job(world: World) -> tuple[Doc, Doc]:
    """A Job, and its pod, which has succeeded."""
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}
    created = await world.request("POST", JOBS, {"metadata": {"name": "work"}, "spec": spec})
    await asyncio.sleep(5)
    (pod,) = (await world.must_get(PODS))["items"]
    await world.merge(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": "Succeeded"}})
    return created, pod


async def a_finished_job(world: World) -> Gone:
    world.faults.add(
        Rule(delay_answer(LATE), verb="update", resource="jobs", when=lambda _call, sent: b'"Complete"' in sent.body)
    )
    created, _pod = await create_job(world)
    await asyncio.sleep(2)
    assert "Complete" in await world.conditions(f"{JOBS}/work")
    await remove(world, f"{JOBS}/work")
    return uid_of(created), "default/work"


async def a_counted_pod(world: World) -> Gone:
    rule = Rule(
        delay_answer(LATE), verb="update", resource="jobs", when=lambda _call, sent: b'"succeeded":["' in sent.body
    )
    world.faults.add(rule)
    _created, pod = await create_job(world)
    await asyncio.sleep(2)
    assert rule.hits == 1
    await remove(world, f"{PODS}/{pod['metadata']['name']}")
    return uid_of(pod), ""


async def template(world: World) -> None:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]
    body = {"metadata": {"name": "template"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    await world.request("POST", TEMPLATES, body)


async def a_pod_with_created_claim(world: World) -> Gone:
    await template(world)
    world.faults.add(Rule(delay(LATE), verb="create", resource="resourceclaims"))
    world.faults.add(Rule(lose_answer(), verb="create", resource="resourceclaims"))
    spec = {"containers": [CONTAINER], "resourceClaims": [ENTRY]}
    pod = await world.request("POST", PODS, {"metadata": {"name": "pod"}, "spec": spec})
    await asyncio.sleep(1)
    await remove(world, f"{PODS}/pod")
    await asyncio.sleep(LATE)
    for claim in (await world.must_get(RESOURCE_CLAIMS))["items"]:  # what the garbage collector does
        await remove(world, f"{RESOURCE_CLAIMS}/{claim['metadata']['name']}")
    return uid_of(pod), "default/pod"


async def a_deallocated_claim(world: World) -> Gone:
    doc = claim_doc("claim", finalizers=[FINALIZER])
    created = await world.request("POST", RESOURCE_CLAIMS, doc)
    world.faults.add(Rule(delay_answer(LATE), verb="update", resource="resourceclaims", subresource="status"))
    status = {"allocation": {"devices": {"results": []}}, "reservedFor": [reference("nobody", "no-uid")]}
    await world.merge(f"{RESOURCE_CLAIMS}/claim/status", {"status": status})
    await asyncio.sleep(1)
    assert "allocation" not in (await world.must_get(f"{RESOURCE_CLAIMS}/claim"))["status"]
    await remove(world, f"{RESOURCE_CLAIMS}/claim")
    return uid_of(created), "default/claim"


async def a_claim_with_unobserved_user(world: World) -> Gone:
    world.faults.add(Rule(delay(LATE), verb="get", resource="pods"))
    with world.faults.hold(resource="pods"):
        pod = await world.request("POST", PODS, {"metadata": {"name": "pod"}, "spec": {"containers": [CONTAINER]}})
        created = await world.request("POST", RESOURCE_CLAIMS, claim_doc("claim"))
        status = {"allocation": {"devices": {"results": []}}, "reservedFor": [reference("pod", uid_of(pod))]}
        await world.merge(f"{RESOURCE_CLAIMS}/claim/status", {"status": status})
        await asyncio.sleep(1)
        await remove(world, f"{RESOURCE_CLAIMS}/claim")
        await asyncio.sleep(LATE)
    return uid_of(created), "default/claim"


async def a_claim_without_users(world: World) -> Gone:
    world.faults.add(Rule(delay(LATE), verb="list", resource="pods"))
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    created = [await world.request("POST", VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec}) for name in "ab"]
    await asyncio.sleep(1)
    with world.faults.hold(resource="persistentvolumeclaims"):  # one list is to answer for both
        for name in "ab":
            await world.delete(f"{VOLUME_CLAIMS}/{name}")
        await asyncio.sleep(1)
    await asyncio.sleep(1)
    await world.merge(f"{VOLUME_CLAIMS}/b", {"metadata": {"finalizers": None}})
    assert await world.get(f"{VOLUME_CLAIMS}/b") is None
    return uid_of(created[1]), "default/b"


async def a_calculated_quota(world: World, monkeypatch: pytest.MonkeyPatch) -> Gone:
    count = Counter.count

    async def slowly(self: Counter, *about: Any) -> Any:
        await asyncio.sleep(LATE)
        return await count(self, *about)

    created = await world.request("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}})
    await world.request("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
    await asyncio.sleep(60)
    monkeypatch.setattr(Counter, "count", slowly)
    await world.delete("/api/v1/namespaces/default/configmaps/m")
    await asyncio.sleep(1)
    await remove(world, f"{QUOTAS}/q")
    return uid_of(created), "default/q"


async def an_evicting_rule(world: World) -> Gone:
    world.faults.add(Rule(delay_answer(LATE), verb="delete", resource="pods"))
    await devices(world, gpu_0=[])
    await user(world)
    await taint_rule(world, "rule", driver="gpu.example.com")
    created = await world.must_get(f"{RULES}/rule")
    await asyncio.sleep(1)
    await remove(world, f"{RULES}/rule")
    return uid_of(created), "rule"


async def a_claim_being_provisioned(world: World) -> Gone:
    world.faults.add(Rule(delay(LATE), verb="create", resource="persistentvolumes"))
    body: Doc = {"metadata": {"name": "paths"}, "provisioner": "kubernetes.io/host-path"}
    await world.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "paths",
    }
    for number in range(CONCURRENCY + 1):
        last = await world.request("POST", VOLUME_CLAIMS, {"metadata": {"name": f"c{number:02}"}, "spec": spec})
    await asyncio.sleep(1)
    name = last["metadata"]["name"]
    await remove(world, f"{VOLUME_CLAIMS}/{name}")
    return uid_of(last), f"default/{name}"


@cases(
    "descriptor, options, story",
    {
        "ttl: version of the last write": (TTL, None, a_node),
        "service-cidr: version of the last write": (SERVICE_CIDR, None, a_service_cidr),
        "cronjob: version of the last write": (CRONJOB, None, a_cron_job),
        "job: whose end was written": (JOB, None, a_finished_job),
        "job: pods with removed finalizers": (JOB, None, a_counted_pod),
        "resourceclaim: creates without an answer": (RESOURCECLAIM, None, a_pod_with_created_claim),
        "resourceclaim: cleared allocations": (RESOURCECLAIM, None, a_deallocated_claim),
        "resourceclaim: users not in the cache": (RESOURCECLAIM, None, a_claim_with_unobserved_user),
        "pvc-protection: claims without users": (PVC_PROTECTION, None, a_claim_without_users),
        "resourcequota: usage decreased": (RESOURCEQUOTA, None, a_calculated_quota),
        "device-taint-eviction: evictions of a rule": (
            DEVICE_TAINTS,
            DeviceTaintEvictionOptions(rules=True),
            an_evicting_rule,
        ),
        "persistentvolume-binder: start of provisioning": (
            BINDER,
            BinderOptions(hostpath_provisioner=True),
            a_claim_being_provisioned,
        ),
    },
)
async def test_no_state_remains_of_an_object_deleted_during_a_request(
    world: World, descriptor: Any, options: Any, story: Callable[..., Awaitable[Gone]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if descriptor is DEVICE_TAINTS:
        await serve_rules(world)
    await world.start(descriptor, options)
    uid, key = await (story(world, monkeypatch) if story is a_calculated_quota else story(world))
    await asyncio.sleep(600)
    assert remains(world.controllers[-1], uid, key) == []
