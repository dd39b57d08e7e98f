"""The controller on the embedded API server, in virtual time: events that enqueue, requests, faults."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World, fixture_of, wait_for_sync

from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.volumes.persistentvolume_expander import DESCRIPTOR
from pilothouse.env import Env

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CSI: Doc = {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}
EBS: Doc = {"awsElasticBlockStore": {"volumeID": "v"}}
GET, PATCH = "get persistentvolumes v", "patch persistentvolumeclaims/status c"
RESIZER = "volume.kubernetes.io/storage-resizer"
EXTERNAL = "PersistentVolumeClaim/c waiting for an external controller to expand this PVC"


async def bound(world: World, source: Doc = CSI, *, phase: str = "Bound", linked: bool = True) -> None:
    """A claim bound to a volume of 1Gi, with an expandable class."""
    class_ = {"metadata": {"name": "x"}, "provisioner": "d.example.com", "allowVolumeExpansion": True}
    await world.request("POST", CLASSES, class_)
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c"}, "spec": {**claim_spec, "volumeName": "v", "storageClassName": "x"}}
    claim = await world.request("POST", CLAIMS, body)
    status = {"phase": phase, "capacity": {"storage": "1Gi"}}
    await world.merge(f"{CLAIMS}/c/status", {"status": status})
    whole = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source}
    if linked:
        whole["claimRef"] = {"namespace": "default", "name": "c", "uid": claim["metadata"]["uid"]}
    await world.request("POST", VOLUMES, {"metadata": {"name": "v"}, "spec": whole})


async def request_storage(world: World, size: str) -> None:
    await world.merge(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": size}}}})


@contextlib.asynccontextmanager
async def expanding(env: Env, **how: Any) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await bound(world, **how)
        await world.start(DESCRIPTOR)
        await wait_for_sync()
        yield world


world = fixture_of(expanding)


async def test_claim_to_expand_gets_an_external_expanding_event(world: World) -> None:
    assert world.requests() == [GET]
    assert await world.events() == []
    await request_storage(world, "2Gi")
    await wait_for_sync()
    assert world.requests() == [GET] * 2
    assert await world.events("ExternalExpanding") == [EXTERNAL]
    await world.merge(f"{CLAIMS}/c", {"metadata": {"labels": {"a": "b"}}})
    await wait_for_sync(600)
    assert world.requests() == [GET] * 2, "nothing of that has changed"
    await world.merge(f"{CLAIMS}/c/status", {"status": {"capacity": {"storage": "2Gi"}}})
    await wait_for_sync(600)
    assert world.requests() == [GET] * 3
    assert len(await world.events()) == 1, "it has what it asked for"


async def test_claim_enlarged_before_startup_gets_an_event(env: Env) -> None:
    async with node_world.world(env) as world:
        await bound(world)
        await request_storage(world, "2Gi")
        await world.start(DESCRIPTOR)
        await wait_for_sync()
        assert await world.events("ExternalExpanding") == [EXTERNAL]


async def test_claim_of_a_migrated_plugin_names_the_csi_driver(env: Env) -> None:
    async with expanding(env, source=EBS) as world:
        await request_storage(world, "2Gi")
        await wait_for_sync()
        assert world.requests() == [GET, GET, PATCH]
        claim = await world.must_get(f"{CLAIMS}/c")
        assert claim["metadata"]["annotations"] == {RESIZER: "ebs.csi.aws.com"}
        (body,) = world.bodies("patch", "persistentvolumeclaims/status")
        assert set(body["metadata"]) == {"annotations", "resourceVersion"}
        await request_storage(world, "3Gi")
        await wait_for_sync(600)
        assert world.requests() == [GET, GET, PATCH, GET], "it is named already"
        lines = await world.events("ExternalExpanding")
        assert lines == [
            "PersistentVolumeClaim/c CSI migration enabled for kubernetes.io/aws-ebs; "
            "waiting for external resizer to expand the pvc"
        ]


async def test_unbound_claim_is_ignored(env: Env) -> None:
    async with expanding(env, phase="Pending") as world:
        assert world.requests() == []


@pytest.mark.parametrize("fault", [fail(403, "Forbidden"), fail(500), conflict()], ids=["403", "500", "409"])
async def test_failed_resizer_annotation_is_retried(env: Env, fault: Any) -> None:
    async with expanding(env, source=EBS) as world:
        world.faults.add(Rule(fault, verb="patch", resource="persistentvolumeclaims", times=2))
        await request_storage(world, "2Gi")
        await wait_for_sync(30)
        assert world.requests().count(PATCH) == 3
        assert (await world.must_get(f"{CLAIMS}/c"))["metadata"]["annotations"] == {RESIZER: "ebs.csi.aws.com"}
        lines = await world.events("ExternalExpanding")
        assert any("error setting resizer annotation to pvc default/c, with error " in line for line in lines)


async def test_volume_bound_to_another_claim_is_retried(env: Env) -> None:
    """when pvc has no PV binding: an error, and another look."""
    async with expanding(env, linked=False) as world:
        assert len(world.requests()) > 3
        assert set(world.requests()) == {GET}
        await request_storage(world, "2Gi")
        uid = (await world.must_get(f"{CLAIMS}/c"))["metadata"]["uid"]
        await world.merge(f"{VOLUMES}/v", {"spec": {"claimRef": {"namespace": "default", "name": "c", "uid": uid}}})
        await wait_for_sync(1200)
        assert await world.events("ExternalExpanding") == [EXTERNAL]
