"""The binder on the embedded API server, in virtual time: events that enqueue, writes, faults."""

import asyncio
from typing import Any

import pytest
from tests.controllers.node_world import Doc, World, wait_for_sync
from tests.controllers.persistentvolume_binder.world import (
    CLAIMS,
    VOLUMES,
    binding,
    create_claim,
    create_class,
    create_volume,
    phases,
    remove,
)
from tests.tables import cases

from pilothouse.client.interceptor import Rule, conflict, delay_answer, fail, lose_answer
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR, BinderOptions
from pilothouse.env import Env

BOUND_BY = "pv.kubernetes.io/bound-by-controller"
COMPLETED = "pv.kubernetes.io/bind-completed"
HOST_PATHS = BinderOptions(hostpath_provisioner=True)
PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")


async def test_claim_and_volume_are_bound_in_four_writes(world: World) -> None:
    await create_volume(world)
    await wait_for_sync()
    assert await phases(world) == {"v": "Available"}
    world.seen.clear()
    await create_claim(world)
    await wait_for_sync()
    assert await phases(world) == {"c": "Bound", "v": "Bound"}
    assert world.requests() == [
        "update persistentvolumes v",
        "update persistentvolumes/status v",
        "update persistentvolumeclaims c",
        "update persistentvolumeclaims/status c",
    ]
    claim, volume = await world.must_get(f"{CLAIMS}/c"), await world.must_get(f"{VOLUMES}/v")
    assert claim["metadata"]["annotations"] == {BOUND_BY: "yes", COMPLETED: "yes"}
    assert volume["metadata"]["annotations"] == {BOUND_BY: "yes"}
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert claim["status"] == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    world.seen.clear()
    await asyncio.sleep(120)
    assert world.requests() == [], "the resync finds nothing to do"


async def test_unmatched_claim_stays_pending_with_an_event(world: World) -> None:
    """20.8, 20.7."""
    await create_volume(world, "small")
    await create_claim(world, size="5Gi")
    await create_claim(world, "named", size="5Gi", volumeName="small")
    await wait_for_sync()
    assert await phases(world) == {"c": "Pending", "named": "Pending", "small": "Available"}
    why = "no persistent volumes available for this claim and no storage class is set"
    assert await world.events("FailedBinding") == [f"PersistentVolumeClaim/c {why}"]
    why = 'Cannot bind to requested volume "small": requested PV is too small'
    assert await world.events("VolumeMismatch") == [f"PersistentVolumeClaim/named {why}"]
    await create_volume(world, "large", "10Gi")
    await asyncio.sleep(16)
    assert (await phases(world))["c"] == "Bound", "found with the resync"


async def test_default_class_is_assigned_retroactively(world: World) -> None:
    """20.13."""
    await create_claim(world)
    await create_claim(world, "none", storageClassName="")
    await wait_for_sync()
    await create_class(world, "std", default=True)
    await asyncio.sleep(16)
    assert (await world.must_get(f"{CLAIMS}/c"))["spec"]["storageClassName"] == "std"
    assert (await world.must_get(f"{CLAIMS}/none"))["spec"]["storageClassName"] == ""
    assert world.metrics.value("retroactive_storageclass_total") == 1.0
    assert world.metrics.value("retroactive_storageclass_errors_total") == 0.0


async def test_external_provisioning_annotates_the_claim_and_binds_the_volume(world: World) -> None:
    await create_class(world)
    created = await create_claim(world, storageClassName="gold")
    await wait_for_sync()
    claim = await world.must_get(f"{CLAIMS}/c")
    assert {claim["metadata"]["annotations"][item] for item in PROVISIONERS} == {"vendor.com/x"}
    assert await world.events("ExternalProvisioning") == [
        "PersistentVolumeClaim/c Waiting for a volume to be created either by the external provisioner "
        "'vendor.com/x' or manually by the system administrator. If volume creation is delayed, please verify that "
        "the provisioner is running and correctly registered."
    ]
    world.seen.clear()
    await asyncio.sleep(31)
    assert world.requests() == [], "told again, but not written"
    (event,) = (await world.must_get("/api/v1/events"))["items"]
    assert event["count"] >= 3
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
    await create_volume(
        world, "pvc-1", csi={"driver": "vendor.com", "volumeHandle": "1"}, storageClassName="gold",
        persistentVolumeReclaimPolicy="Delete", claimRef={**reference, "uid": created["metadata"]["uid"]},
        annotations={"pv.kubernetes.io/provisioned-by": "vendor.com/x"},
    )  # fmt: skip
    await wait_for_sync()
    assert await phases(world) == {"c": "Bound", "pvc-1": "Bound"}
    volume = await world.must_get(f"{VOLUMES}/pvc-1")
    assert BOUND_BY not in volume["metadata"]["annotations"], "the provisioner chose"
    assert world.metrics.value("volume_operation_total_seconds", "vendor.com/x", "provision") == 1.0
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync()
    assert await phases(world) == {"pvc-1": "Released"}, "whoever made it deletes it"


async def test_wait_for_first_consumer(world: World) -> None:
    """20.12."""
    await create_class(world, volumeBindingMode="WaitForFirstConsumer")
    await create_volume(world, storageClassName="gold")
    await create_claim(world, storageClassName="gold")
    await wait_for_sync()
    assert await phases(world) == {"c": "Pending", "v": "Available"}
    waiting = "PersistentVolumeClaim/c waiting for first consumer to be created before binding"
    assert await world.events("WaitForFirstConsumer") == [waiting]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"containers": [{"name": "main", "image": "pause"}], "volumes": volumes}
    for name in ("p", "q"):
        await world.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": spec})
    await asyncio.sleep(16)
    events = await world.events("WaitForPodScheduled")
    assert events == ["PersistentVolumeClaim/c waiting for pods p,q to be scheduled"]
    await world.merge(f"{CLAIMS}/c", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}})
    await wait_for_sync()
    assert len(await world.events("ExternalProvisioning")) == 1


@pytest.mark.parametrize(
    ("provisioner", "why"),
    [
        ("kubernetes.io/no-provisioner", "no volume plugin matched name: kubernetes.io/no-provisioner"),
        ("kubernetes.io/nfs", "no provisionable volume plugin matched"),
        ("", 'storageclass.storage.k8s.io "gold" not found'),
    ],
)
async def test_no_provisioner_available(world: World, provisioner: str, why: str) -> None:
    if provisioner:
        await create_class(world, provisioner=provisioner)
    await create_claim(world, storageClassName="gold")
    await wait_for_sync()
    assert await world.events("ProvisioningFailed") == [f"PersistentVolumeClaim/c {why}"]
    assert world.requests() == []


async def test_dynamic_provisioning_disabled(env: Env) -> None:
    async with binding(env, options=BinderOptions(dynamic_provisioning=False)) as world:
        await create_class(world)
        await create_claim(world, storageClassName="gold")
        await asyncio.sleep(20)
        assert (world.requests(), await world.events()) == ([], [])


async def test_host_path_volumes_are_provisioned_bound_and_deleted(env: Env) -> None:
    async with binding(env, options=HOST_PATHS) as world:
        await create_class(world, "hp", "kubernetes.io/host-path")
        created = await create_claim(world, storageClassName="hp")
        await wait_for_sync()
        name = f"pvc-{created['metadata']['uid']}"
        assert await phases(world) == {"c": "Bound", name: "Bound"}
        volume = await world.must_get(f"{VOLUMES}/{name}")
        assert volume["spec"]["hostPath"]["path"].startswith("/tmp/hostpath_pv/")
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        assert "kubernetes.io/pv-controller" in volume["metadata"]["finalizers"]
        message = f"PersistentVolumeClaim/c Successfully provisioned volume {name} using kubernetes.io/host-path"
        assert await world.events("ProvisioningSucceeded") == [message]
        await remove(world, f"{CLAIMS}/c")
        await wait_for_sync()
        volume = await world.must_get(f"{VOLUMES}/{name}")
        assert "deletionTimestamp" in volume["metadata"]
        assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"], "what is left is another's"
        world.seen.clear()
        await asyncio.sleep(40)
        assert [line for line in world.requests() if line.startswith("update")] == [], "nothing is put back"
        await remove(world, f"{VOLUMES}/{name}")
        await wait_for_sync()
        assert world.metrics.value("volume_operation_total_seconds", "kubernetes.io/host-path", "delete") == 1.0


async def test_host_path_volume_is_provisioned_once(env: Env) -> None:
    """11-8, 11-19: the response of the first attempt is lost, the second finds its volume."""
    async with binding(env, options=HOST_PATHS) as world:
        world.faults.add(Rule(lose_answer(), verb="create", resource="persistentvolumes", times=1))
        await create_class(world, "hp", "kubernetes.io/host-path")
        await create_claim(world, storageClassName="hp")
        await asyncio.sleep(30)
        assert sorted((await phases(world)).values()) == ["Bound", "Bound"]


async def test_failed_save_of_a_provisioned_volume_is_retried(env: Env) -> None:
    """11-9: five attempts, ten seconds apart, and again later."""
    async with binding(env, options=HOST_PATHS) as world:
        rule = Rule(fail(500, "InternalError", "no"), verb="create", resource="persistentvolumes", times=5)
        world.faults.add(rule)
        await create_class(world, "hp", "kubernetes.io/host-path")
        await create_claim(world, storageClassName="hp")
        await asyncio.sleep(45)
        (messages,) = await world.events("ProvisioningFailed")
        assert "Error creating provisioned PV object for claim default/c:" in messages
        assert messages.endswith(". Deleting the volume.")
        assert world.metrics.value("volume_operation_errors_total", "kubernetes.io/host-path", "provision") == 1.0
        await asyncio.sleep(20)
        assert sorted((await phases(world)).values()) == ["Bound", "Bound"]


@cases(
    "of_class, of_claim, why",
    {
        "11-20": (
            {"mountOptions": ["ro", "soft"]},
            {},
            'Mount options are not supported by the provisioner but StorageClass "hp" has mount options [ro soft]',
        ),
        "11-24": (
            {},
            {"volumeMode": "Block"},
            'Failed to provision volume with StorageClass "hp": kubernetes.io/host-path does not support block volume '
            "provisioning",
        ),
        "a copy of another claim": (
            {},
            {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}},
            'plugin "kubernetes.io/host-path" is not a CSI plugin. Only CSI plugin can provision a claim with a '
            "datasource",
        ),
        "missing node": (
            {},
            {"annotations": {"volume.kubernetes.io/selected-node": "gone"}},
            'Failed to get target node: node "gone" not found',
        ),
    },
)
async def test_unsupported_host_path_provisioning(env: Env, of_class: Doc, of_claim: Doc, why: str) -> None:
    async with binding(env, options=HOST_PATHS) as world:
        await create_class(world, "hp", "kubernetes.io/host-path", **of_class)
        await create_claim(world, storageClassName="hp", **of_claim)
        await wait_for_sync()
        assert set(await world.events("ProvisioningFailed")) == {f"PersistentVolumeClaim/c {why}"}
        assert await phases(world) == {"c": "Pending"}


async def test_host_path_provisioning_requires_the_flag(world: World) -> None:
    """``hostPathPlugin.NewProvisioner``: the plugin exists, and rejects."""
    await create_class(world, "hp", "kubernetes.io/host-path")
    await create_claim(world, storageClassName="hp")
    await wait_for_sync()
    why = 'Failed to create provisioner: provisioning in volume plugin "kubernetes.io/host-path" is disabled'
    assert set(await world.events("ProvisioningFailed")) == {f"PersistentVolumeClaim/c {why}"}
    annotations = (await world.must_get(f"{CLAIMS}/c"))["metadata"]["annotations"]
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "kubernetes.io/host-path"
    assert await phases(world) == {"c": "Pending"}
    errors = "volume_operation_total_errors"
    assert world.metrics.value(errors, "kubernetes.io/host-path", "provision") >= 1


async def test_retained_volume_stays_released_until_its_claim_ref_is_removed(world: World) -> None:
    """20.10."""
    await create_volume(world)
    await create_claim(world)
    await wait_for_sync()
    world.seen.clear()
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync()
    assert await phases(world) == {"v": "Released"}
    assert world.requests() == ["get persistentvolumeclaims c", "update persistentvolumes/status v"], "asked first"
    await create_claim(world)
    await wait_for_sync()
    assert await phases(world) == {"c": "Pending", "v": "Released"}, "another claim of that name gets nothing"
    await world.merge(f"{VOLUMES}/v", {"spec": {"claimRef": None}})
    await asyncio.sleep(16)
    assert await phases(world) == {"c": "Bound", "v": "Bound"}


@cases(
    "policy, source, reason, why",
    {
        "8-3": (
            "Delete",
            {"nfs": {"server": "s", "path": "/"}},
            "VolumeFailedDelete",
            'error getting deleter volume plugin for volume "v": no deletable volume plugin matched',
        ),
        "no volume plugin": (
            "Delete",
            {"iscsi": {"targetPortal": "p", "iqn": "iqn.2001-04.com.example:s"}},
            "VolumeFailedDelete",
            'error getting deleter volume plugin for volume "v": no volume plugin matched',
        ),
        "8-4": (
            "Delete",
            {"path": "/data/v"},
            "VolumeFailedDelete",
            "host_path deleter only supports /tmp/.+ but received provided /data/v",
        ),
        "6-3": (
            "Recycle",
            {"nfs": {"server": "s", "path": "/"}},
            "VolumeFailedRecycle",
            "No recycler plugin found for the volume!",
        ),
    },
)
async def test_failed_reclaim_sets_phase_failed(world: World, policy: str, source: Doc, reason: str, why: str) -> None:
    await create_volume(world, persistentVolumeReclaimPolicy=policy, **source)
    await create_claim(world)
    await wait_for_sync()
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync()
    volume = await world.must_get(f"{VOLUMES}/v")
    assert (volume["status"]["phase"], volume["status"]["message"]) == ("Failed", why)
    assert await world.events(reason) == [f"PersistentVolume/v {why}"]
    await asyncio.sleep(60)
    assert await world.events(reason) == [f"PersistentVolume/v {why}"], "told once"


async def test_volume_in_use_is_not_recycled(world: World) -> None:
    """6-11."""
    await create_volume(world, persistentVolumeReclaimPolicy="Recycle")
    await create_claim(world)
    await wait_for_sync()
    spec = {
        "nodeName": "n", "containers": [{"name": "main", "image": "pause"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
    }  # fmt: skip
    await world.request("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
    await remove(world, f"{CLAIMS}/c")
    await wait_for_sync()
    assert await phases(world) == {"v": "Released"}
    events = await world.events("VolumeFailedRecycle")
    assert events == ["PersistentVolume/v Volume is used by pods: default/p"]
    await world.delete("/api/v1/namespaces/default/pods/p", grace=0)
    await asyncio.sleep(16)
    assert await phases(world) == {"v": "Failed"}


async def test_claim_without_its_volume_is_lost_and_recovers(world: World) -> None:
    """20.11."""
    created = await create_volume(world)
    await create_claim(world)
    await wait_for_sync()
    bound = await world.must_get(f"{VOLUMES}/v")
    await remove(world, f"{VOLUMES}/v")
    await wait_for_sync()
    claim = await world.must_get(f"{CLAIMS}/c")
    assert claim["status"] == {"phase": "Lost"}
    message = "PersistentVolumeClaim/c Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert await world.events("ClaimLost") == [message]
    again = {"metadata": {"name": "v"}, "spec": bound["spec"]}
    assert created["spec"]["capacity"] == again["spec"]["capacity"]
    await world.request("POST", VOLUMES, again)
    await asyncio.sleep(16)
    assert await phases(world) == {"c": "Bound", "v": "Bound"}


@pytest.mark.parametrize("other", [False, True], ids=["unknown volume", "volume of another claim"])
async def test_stale_volume_cache_does_not_make_a_claim_lost(world: World, other: bool) -> None:
    """Upstream sets Lost until the volume is cached."""
    if other:
        reference = {"namespace": "default", "name": "gone", "uid": "x"}
        await create_volume(world, claimRef=reference, persistentVolumeReclaimPolicy="Retain")
        await wait_for_sync()
    with world.faults.hold(resource="persistentvolumes"):
        if other:
            await world.merge(f"{VOLUMES}/v", {"spec": {"claimRef": None}})
        else:
            await create_volume(world)
        done = {BOUND_BY: "yes", COMPLETED: "yes"}
        claim = await create_claim(world, volumeName="v", annotations=done)
        reference = {"namespace": "default", "name": "c", "uid": claim["metadata"]["uid"]}
        await world.merge(f"{VOLUMES}/v", {"spec": {"claimRef": reference}})
        await world.merge(f"{CLAIMS}/c/status", {"status": {"phase": "Bound"}})
        await asyncio.sleep(40)
        assert (await phases(world))["c"] == "Bound"
        assert await world.events("ClaimLost") == await world.events("ClaimMisbound") == []
    await asyncio.sleep(16)
    assert await phases(world) == {"c": "Bound", "v": "Bound"}


async def test_volume_mode_mismatch_emits_an_event(world: World) -> None:
    """4-9."""
    created = await create_claim(world, storageClassName="")
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
    await create_volume(world, volumeMode="Block", claimRef={**reference, "uid": created["metadata"]["uid"]})
    await wait_for_sync()
    assert sorted(await world.events("VolumeMismatch")) == [
        'PersistentVolume/v Cannot bind PersistentVolume to requested PersistentVolumeClaim "c" due to '
        "incompatible volumeMode.",
        'PersistentVolumeClaim/c Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim due to '
        "incompatible volumeMode.",
    ]


@pytest.mark.parametrize(
    "write",
    ["persistentvolumes", "persistentvolumes/status", "persistentvolumeclaims", "persistentvolumeclaims/status"],
)
@pytest.mark.parametrize(
    "what", [conflict, lambda: fail(500, "InternalError"), lose_answer], ids=["conflict", "error", "lost response"]
)
async def test_interrupted_binding_is_completed(world: World, write: str, what: Any) -> None:
    resource, _slash, subresource = write.partition("/")
    await create_volume(world)
    await create_volume(world, "w")
    await wait_for_sync()
    world.faults.add(Rule(what(), verb="update", resource=resource, subresource=subresource, times=1))
    await create_claim(world)
    await asyncio.sleep(40)
    result = await phases(world)
    assert result["c"] == "Bound"
    assert sorted(result[name] for name in "vw") == ["Available", "Bound"]
    claim = await world.must_get(f"{CLAIMS}/c")
    volume = await world.must_get(f"{VOLUMES}/{claim['spec']['volumeName']}")
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]


async def test_restart_writes_nothing(world: World) -> None:
    await create_volume(world)
    await create_claim(world)
    task = await world.start(DESCRIPTOR)
    await wait_for_sync(20)
    task.cancel()
    await wait_for_sync()
    world.seen.clear()
    await world.start(DESCRIPTOR)
    await wait_for_sync(20)
    assert world.requests() == []
    assert await phases(world) == {"c": "Bound", "v": "Bound"}


async def test_volume_is_not_released_while_its_claim_is_not_yet_cached(world: World) -> None:
    """The watch of claims lags; the provisioned volume is already cached."""
    await create_class(world)
    with world.faults.hold(resource="persistentvolumeclaims"):
        created = await create_claim(world, storageClassName="gold")
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
        await create_volume(
            world, storageClassName="gold", claimRef={**reference, "uid": created["metadata"]["uid"]},
            annotations={"pv.kubernetes.io/provisioned-by": "vendor.com/x"}, persistentVolumeReclaimPolicy="Delete",
            csi={"driver": "vendor.com", "volumeHandle": "1"},
        )  # fmt: skip
        await asyncio.sleep(40)
        assert (await phases(world))["v"] == "Pending", "not Released: the server has the claim"
    await asyncio.sleep(20)
    assert await phases(world) == {"c": "Bound", "v": "Bound"}


async def test_volume_deleted_before_its_update_response_is_not_bound(world: World) -> None:
    """Otherwise it would remain the claim's best match forever."""
    rule = Rule(delay_answer(2.0), verb="update", resource="persistentvolumes", subresource="", name="v")
    world.faults.add(rule)
    await create_volume(world, "v", "1Gi")
    await create_volume(world, "w", "10Gi")
    await wait_for_sync()
    await create_claim(world, size="1Gi")
    await wait_for_sync()
    assert rule.hits == 1, "it is being bound"
    await remove(world, f"{VOLUMES}/v")
    await asyncio.sleep(60)
    assert await phases(world) == {"c": "Bound", "w": "Bound"}


async def test_volume_and_claim_metrics(world: World) -> None:
    await create_volume(world)
    await create_volume(world, "w", csi={"driver": "d", "volumeHandle": "h"}, storageClassName="gold")
    await create_claim(world)
    await create_claim(world, "d", storageClassName="gold", accessModes=["ReadWriteMany"])
    await wait_for_sync()
    value = world.metrics.value
    assert value("pv_collector_total_pv_count", "kubernetes.io/host-path", "Filesystem") == 1.0
    assert value("pv_collector_total_pv_count", "kubernetes.io/csi:d", "Filesystem") == 1.0
    assert value("pv_collector_bound_pv_count", "") == 1.0
    assert value("pv_collector_unbound_pv_count", "gold") == 1.0
    assert value("pv_collector_bound_pvc_count", "default", "", "") == 1.0
    assert value("pv_collector_unbound_pvc_count", "default", "gold", "") == 1.0
    await remove(world, f"{CLAIMS}/d")
    await wait_for_sync()
    assert 'namespace="default",storage_class="gold"' not in world.metrics.exposition()


async def test_volumes_of_migrated_plugins_are_annotated(world: World) -> None:
    disk = {"gcePersistentDisk": {"pdName": "d"}}
    body: Doc = {
        "metadata": {"name": "v", "annotations": {"pv.kubernetes.io/provisioned-by": "kubernetes.io/gce-pd"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **disk},
    }
    await world.request("POST", VOLUMES, body)
    await wait_for_sync()
    annotations = (await world.must_get(f"{VOLUMES}/v"))["metadata"]["annotations"]
    assert annotations["pv.kubernetes.io/migrated-to"] == "pd.csi.storage.gke.io"
