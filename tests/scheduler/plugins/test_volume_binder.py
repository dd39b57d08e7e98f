"""Pods with claims against the embedded API server, in virtual time. The test does what the PersistentVolume controller
and a provisioner would do, so that it can delay each step."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.nodes.world import World
from tests.scheduler.conftest import create_priority_classes

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.api.storage import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from pilothouse.client import merge_patch
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.semantics.volumes import BIND_COMPLETED, SELECTED_NODE

Doc = dict[str, Any]
NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/{0} nodes are available: {0} Preemption is not helpful for scheduling."
)
LATER = {"volumeBindingMode": "WaitForFirstConsumer"}


@pytest.fixture
async def world(world: World) -> World:
    """An API server with a scheduler and the nodes a and b."""
    for name in "ab":
        await world.create_node(name)
        await world.label_node(name, "kubernetes.io/hostname", name)
    return world


async def create_class(w: World, name: str = "local", provisioner: str = "vendor.com/x", **more: Any) -> None:
    await w.client.create(STORAGE_CLASSES.raw, {"metadata": {"name": name}, "provisioner": provisioner, **more})


async def create_claim(w: World, name: str = "c", class_name: str = "local", **spec: Any) -> Doc:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    body = {"metadata": {"name": name}, "spec": {**whole, "storageClassName": class_name}}
    created = await w.client.create(PERSISTENT_VOLUME_CLAIMS.raw, body, "default")
    document: Doc = msgspec.json.decode(created)
    return document


async def create_volume(w: World, name: str = "v", *, on: str = "", phase: str = "Available", **spec: Any) -> None:
    whole: Doc = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    if on:
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
        whole["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    whole |= {"csi": {"driver": "vendor.com", "volumeHandle": name}, **spec}
    await w.client.create(PERSISTENT_VOLUMES.raw, {"metadata": {"name": name}, "spec": whole})
    await w.client.patch(PERSISTENT_VOLUMES.raw, name, merge_patch({"status": {"phase": phase}}), subresource="status")


async def bind(w: World, claim: str = "c", volume: str = "v") -> None:
    """Complete the binding, as the PersistentVolume controller does."""
    meta = {"annotations": {BIND_COMPLETED: "yes"}}
    patch = merge_patch({"metadata": meta, "spec": {"volumeName": volume}})
    await w.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, claim, patch, "default")
    status = merge_patch({"status": {"phase": "Bound"}})
    await w.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, claim, status, "default", subresource="status")


async def make_pod(w: World, name: str = "p", *claims: str, **parts: Any) -> None:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims or ("c",)]
    await w.create_pod(name, volumes=volumes, **parts)


async def why(w: World, name: str = "p") -> str:
    result = await w.pod(name)
    assert result is not None
    return next((c.message for c in result.status.conditions if c.type == "PodScheduled"), "")


async def node_of(w: World, name: str = "p") -> str:
    result = await w.pod(name)
    return result.spec.node_name if result is not None else "gone"


async def selected(w: World, claim: str = "c") -> str:
    result = await w.client.get(PERSISTENT_VOLUME_CLAIMS, claim, "default")
    return result.metadata.annotations.get(SELECTED_NODE, "")


async def test_a_pod_waits_for_its_claim_and_for_its_volume(world: World) -> None:
    await create_class(world, "now")
    await make_pod(world)
    await asyncio.sleep(1)
    message = '0/2 nodes are available: persistentvolumeclaim "c" not found. not found'
    assert await why(world) == message
    await create_claim(world, class_name="now")
    await asyncio.sleep(5)
    text = "pod has unbound immediate PersistentVolumeClaims"
    assert await why(world) == f"0/2 nodes are available: {text}. not found"
    await create_volume(world, on="b", storageClassName="now")
    await bind(world)
    await asyncio.sleep(12)
    assert await node_of(world) == "b", "moved by the claim, and bound to the node of its volume"


@pytest.mark.parametrize(
    ("on", "existing", "message"),
    [
        (
            "elsewhere",
            True,
            "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity. "
            + NOT_HELPFUL.format(2),
        ),
        ("", False, '0/2 nodes are available: persistentvolume "v" not found. not found'),
    ],
)
async def test_a_volume_that_no_node_can_reach(world: World, on: str, existing: bool, message: str) -> None:
    await create_class(world, **LATER)
    await create_claim(world)
    if existing:
        await create_volume(world, on=on)
    await bind(world)
    await make_pod(world)
    await asyncio.sleep(1)
    assert await why(world) == message
    if existing:
        await world.create_node("elsewhere")
        await world.label_node("elsewhere", "kubernetes.io/hostname", "elsewhere")
    else:
        await create_volume(world)
    await asyncio.sleep(12)
    assert await node_of(world), "a node or a volume was added"


async def test_lost_and_terminating_claims_reject_the_pod(world: World) -> None:
    await create_class(world, **LATER)
    await create_claim(world, "lost", volumeName="v")
    lost = merge_patch({"status": {"phase": "Lost"}})
    await world.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, "lost", lost, "default", subresource="status")
    await create_claim(world, "going")
    await world.client.delete(PERSISTENT_VOLUME_CLAIMS, "going", "default")
    await make_pod(world, "p", "lost")
    await make_pod(world, "q", "going")
    await asyncio.sleep(1)
    assert 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "v"' in await why(world)
    assert 'persistentvolumeclaim "going" is being deleted' in await why(world, "q")


async def test_the_first_consumer_selects_the_node_of_the_volume(world: World) -> None:
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(1)
    node = await selected(world)
    assert node in ("a", "b")
    assert await node_of(world) == "", "the pod waits for the volume"
    await make_pod(world, "other", "c")
    await world.create_pod("without")
    await asyncio.sleep(1)
    assert await node_of(world, "without"), "other pods do not wait"
    await create_volume(world, on=node, phase="Bound")
    await bind(world)
    await asyncio.sleep(1)
    assert (await node_of(world), await node_of(world, "other")) == (node, node)


async def test_an_available_volume_is_bound_to_the_claim(world: World) -> None:
    await create_class(world, provisioner="kubernetes.io/no-provisioner", **LATER)
    created = await create_claim(world)
    await create_claim(world, "d")
    await create_volume(world, on="b")
    await make_pod(world)
    await asyncio.sleep(1)
    volume = await world.client.get(PERSISTENT_VOLUMES, "v")
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.uid == created["metadata"]["uid"]
    assert volume.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    await make_pod(world, "q", "d")
    await asyncio.sleep(1)
    message = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    assert (await why(world, "q")).startswith(message), "it was the only volume"
    await bind(world)
    await asyncio.sleep(1)
    assert await node_of(world) == "b"
    await create_volume(world, "w", on="a")
    await asyncio.sleep(12)
    await bind(world, "d", "w")
    await asyncio.sleep(1)
    assert await node_of(world, "q") == "a", "moved by the volume"


async def test_two_pods_do_not_get_the_same_volume(world: World) -> None:
    await create_class(world, provisioner="kubernetes.io/no-provisioner", **LATER)
    for name in ("c", "d"):
        await create_claim(world, name)
    await create_volume(world)
    await asyncio.sleep(1)
    with world.scheduler_faults.hold(resource="persistentvolumes"):
        await asyncio.gather(make_pod(world, "p", "c"), make_pod(world, "q", "d"))
        await asyncio.sleep(5)
        messages = [await why(world, name) for name in "pq"]
        assert sorted(map(bool, messages)) == [False, True], "one of them was rejected without a request"


async def test_a_provisioner_that_removes_the_selected_node(world: World) -> None:
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(1)
    assert (await world.existing()).status.nominated_node_name == await selected(world)
    nothing = merge_patch({"metadata": {"annotations": {SELECTED_NODE: None}}})
    await world.client.patch(PERSISTENT_VOLUME_CLAIMS.raw, "c", nothing, "default")
    await asyncio.sleep(0.5)
    assert (await world.existing()).status.nominated_node_name == ""
    text = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "c"'
    assert await why(world) == text
    await asyncio.sleep(3)
    assert await selected(world), "the pod is scheduled again"


async def test_a_pod_is_scheduled_again_after_the_bind_timeout(world: World) -> None:
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(599)
    assert await why(world) == ""
    await asyncio.sleep(1.5)
    assert (await why(world)).endswith("binding volumes: context deadline exceeded")
    await create_volume(world, phase="Bound")
    await bind(world)
    await asyncio.sleep(5)
    assert await node_of(world)


async def test_a_deleted_pod_does_not_wait_for_its_volumes(world: World) -> None:
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(1)
    await world.client.delete(PODS, "p", "default", grace_period_seconds=0)
    await asyncio.sleep(1)
    assert await node_of(world) == "gone"
    await make_pod(world)
    await create_volume(world, phase="Bound")
    await bind(world)
    await asyncio.sleep(5)
    assert await node_of(world), "a new pod of that name gets it"


async def test_a_conflict_with_a_newer_claim_is_retried(world: World) -> None:
    world.scheduler_faults.add(Rule(conflict(), verb="update", resource="persistentvolumeclaims", times=1))
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(5)
    assert await selected(world)


async def test_the_claim_of_an_ephemeral_volume_must_belong_to_the_pod(world: World) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.create_pod(volumes=[{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}])
    await asyncio.sleep(1)
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
    assert text in await why(world)
    await create_claim(world, "p-e")
    await asyncio.sleep(5)
    assert "PVC default/p-e was not created for pod default/p (pod is not owner)" in await why(world)


async def test_a_read_write_once_pod_claim_is_used_by_one_pod(world: World) -> None:
    await create_priority_classes(world)
    await create_class(world, "now")
    await create_claim(world, class_name="now", accessModes=["ReadWriteOncePod"])
    await create_volume(world, storageClassName="now", accessModes=["ReadWriteOncePod"])
    await bind(world)
    await make_pod(world)
    await make_pod(world, "q")
    await asyncio.sleep(1)
    assert [bool(await node_of(world, name)) for name in "pq"] == [True, False]
    assert "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode" in await why(
        world, "q"
    )
    await make_pod(world, "high", priorityClassName="high")
    await asyncio.sleep(1)
    assert (await world.existing()).metadata.deletion_timestamp is not None, "preempted"
    await asyncio.sleep(5)
    await world.delete("p", grace=0)
    await asyncio.sleep(1)
    assert await node_of(world, "high")
    await world.delete("high", grace=0)
    await asyncio.sleep(1)
    assert await node_of(world, "q")


DRIVERS = [{"name": "vendor.com", "nodeID": "n", "topologyKeys": None, "allocatable": {"count": 1}}]
ON_A = {"kubernetes.io/hostname": "a"}


async def test_no_more_volumes_than_a_driver_can_attach_to_a_node(world: World) -> None:
    await create_class(world, "now")
    for name in "cd":
        await create_claim(world, name, class_name="now")
        await create_volume(world, f"v{name}", storageClassName="now")
        await bind(world, name, f"v{name}")
    await world.client.create(CSI_NODES.raw, {"metadata": {"name": "a"}, "spec": {"drivers": DRIVERS}})
    for number, claim in enumerate("ccd"):
        await make_pod(world, f"p{number}", claim, nodeSelector=ON_A)
    await asyncio.sleep(1)
    assert [await node_of(world, f"p{number}") for number in range(3)] == ["a", "a", ""], "a volume counts once"
    assert "1 node(s) exceed max volume count" in await why(world, "p2")
    more = merge_patch({"spec": {"drivers": [{**DRIVERS[0], "allocatable": {"count": 2}}]}})
    await world.client.patch(CSI_NODES.raw, "a", more)
    await asyncio.sleep(1)
    assert await node_of(world, "p2") == "a"


async def test_volumes_that_are_attached_count_without_pods(world: World) -> None:
    await create_class(world, "now")
    for name in "cd":
        await create_claim(world, name, class_name="now")
        await create_volume(world, f"v{name}", storageClassName="now")
        await bind(world, name, f"v{name}")
    await world.client.create(CSI_NODES.raw, {"metadata": {"name": "a"}, "spec": {"drivers": DRIVERS}})
    source = {"attacher": "vendor.com", "nodeName": "a", "source": {"persistentVolumeName": "vd"}}
    await world.client.create(VOLUME_ATTACHMENTS.raw, {"metadata": {"name": "old"}, "spec": source})
    await make_pod(world, nodeSelector=ON_A)
    await asyncio.sleep(1)
    assert "1 node(s) exceed max volume count" in await why(world)
    await world.client.delete(VOLUME_ATTACHMENTS, "old")
    await asyncio.sleep(1)
    assert await node_of(world) == "a"


async def test_a_node_needs_enough_storage_capacity(world: World) -> None:
    await create_class(world, provisioner="vendor.com", **LATER)
    await world.client.create(CSI_DRIVERS.raw, {"metadata": {"name": "vendor.com"}, "spec": {"storageCapacity": True}})
    for name, capacity in (("a", {"capacity": "10Gi", "maximumVolumeSize": "1Gi"}), ("b", {"capacity": "500Mi"})):
        topology = {"matchLabels": {"kubernetes.io/hostname": name}}
        body = {"metadata": {"name": name}, "storageClassName": "local", "nodeTopology": topology, **capacity}
        await world.client.create(CSI_STORAGE_CAPACITIES.raw, body, "default")
    for name, size in (("small", "200Mi"), ("middle", "1Gi"), ("large", "2Gi")):
        await create_claim(world, name, resources={"requests": {"storage": size}})
        await make_pod(world, name, name)
    await asyncio.sleep(1)
    assert [await selected(world, name) for name in ("middle", "large")] == ["a", ""]
    assert await selected(world, "small")
    assert (await why(world, "large")).startswith(
        "0/2 nodes are available: 2 node(s) did not have enough free storage."
    )
    more = merge_patch({"maximumVolumeSize": "3Gi"})
    await world.client.patch(CSI_STORAGE_CAPACITIES.raw, "a", more, "default")
    await asyncio.sleep(1)
    assert await selected(world, "large") == "a"


async def test_claims_on_a_server_without_capacities_and_with_fewer_permissions(world: World) -> None:
    world.scheduler_faults.add(Rule(fail(404), verb="list", resource="csistoragecapacities"))
    world.scheduler_faults.add(Rule(fail(403), verb="list", resource="volumeattachments"))
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(1)
    assert await selected(world)


async def test_a_victim_that_waits_for_its_volumes_is_not_deleted(world: World) -> None:
    await create_priority_classes(world)
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world, cpu="3", nodeSelector=ON_A)
    await asyncio.sleep(1)
    assert await selected(world) == "a"
    await world.create_pod("high", cpu="3", priorityClassName="high", nodeSelector=ON_A)
    await asyncio.sleep(1)
    victim, preemptor = await world.existing(), await world.existing("high")
    assert victim.metadata.deletion_timestamp is None
    assert preemptor.spec.node_name == "a"
    events = [(e.reason, e.message) for e in await world.events() if e.involved_object.name == "p"]
    assert events[:2] == [
        ("Preempted", f"Preempted by pod {preemptor.metadata.uid} on node a (in kube-scheduler memory)."),
        ("FailedScheduling", 'running PreBind plugin "VolumeBinding": preempted by DefaultPreemption'),
    ]
    await asyncio.sleep(5)
    assert "1 Insufficient cpu" in await why(world)


async def test_a_volume_that_the_selected_node_cannot_reach(world: World) -> None:
    await create_class(world, **LATER)
    await create_claim(world)
    await make_pod(world)
    await asyncio.sleep(1)
    node = await selected(world)
    await create_volume(world, on="elsewhere", phase="Bound")
    await bind(world)
    await asyncio.sleep(0.5)
    text = f'pv "v" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms'
    assert await why(world) == f'running PreBind plugin "VolumeBinding": binding volumes: {text}'
