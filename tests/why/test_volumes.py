"""PersistentVolumes, VolumeAttachments, claims of one volume, and resource claims."""

import asyncio
from typing import Any

from tests.why.cluster import Cluster, text, texts

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS
from pilothouse.api.storage import PERSISTENT_VOLUMES
from pilothouse.why import AS_DESIRED, Explanation

_GIB = {"storage": "1Gi"}
_RESOURCE_CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}},
}


def _claim(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": _GIB}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def _volume(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"capacity": _GIB, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


async def _first(cluster: Cluster, resource: str, name: str, namespace: str = "") -> tuple[str, str]:
    explanation: Explanation = await cluster.why(resource, name, namespace)
    return explanation.state, explanation.steps[0].text.partition(f"/{name} ")[2]


async def test_phases_of_a_volume(cluster: Cluster) -> None:
    await cluster.create(_volume("disk"))
    await asyncio.sleep(5)
    assert await _first(cluster, "persistentvolumes", "disk") == (
        "available",
        "is available: no claim has been bound to it",
    )
    await cluster.create(_claim("data"))
    await asyncio.sleep(20)
    assert (await cluster.why("persistentvolumes", "disk", "")).state == AS_DESIRED
    await cluster.user.delete(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    await asyncio.sleep(20)
    released = await cluster.why("persistentvolumes", "disk", "")
    assert released.state == "released"
    assert released.steps[0].text == (
        "persistentvolume/disk was bound to persistentvolumeclaim/data of namespace default, and is kept "
        "(persistentVolumeReclaimPolicy Retain): no other claim can be bound to it as long as it has spec.claimRef"
    )
    assert released.steps[0].because[0].text == "persistentvolumeclaim/data was deleted", text(released)


async def test_volume_that_cannot_be_deleted(cluster: Cluster) -> None:
    await cluster.create(_volume("disk", persistentVolumeReclaimPolicy="Delete"))
    await cluster.create(_claim("data", volumeName="disk"))
    await asyncio.sleep(20)
    await cluster.user.delete(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    await asyncio.sleep(20)
    explanation = await cluster.why("persistentvolumes", "disk", "")
    assert explanation.state == "failed"
    assert (
        "can't be reclaimed (persistentVolumeReclaimPolicy Delete): host_path deleter only supports"
        in explanation.steps[0].text
    )
    assert explanation.steps[0].because[0].text == "persistentvolumeclaim/data was deleted"


async def test_deleted_volume(cluster: Cluster) -> None:
    """Who requested the deletion, not the controller that removed the last finalizer."""
    await cluster.create(_volume("disk"))
    await asyncio.sleep(5)
    await cluster.user.delete(PERSISTENT_VOLUMES, "disk")
    await asyncio.sleep(20)
    await cluster.create(_claim("data", volumeName="disk"))
    (step,) = (await cluster.why("persistentvolumeclaims", "data")).steps
    assert step.text.endswith("asks for the volume disk (spec.volumeName), which does not exist")
    assert texts(step.because[:1]) == ["persistentvolume/disk was deleted, by kubernetes-admin with pilothouse-testing"]


async def test_reserved_volume_and_claim_of_one_volume(cluster: Cluster) -> None:
    await cluster.create(_volume("disk", claimRef={"namespace": "default", "name": "never"}))
    await cluster.create(_claim("named", volumeName="nosuch"))
    await cluster.create(_claim("taken", volumeName="disk"))
    await asyncio.sleep(20)
    assert (await _first(cluster, "persistentvolumes", "disk"))[1] == (
        "is reserved by spec.claimRef for persistentvolumeclaim/never of namespace default, which does not exist"
    )
    assert await _first(cluster, "persistentvolumeclaims", "named", "default") == (
        "pending",
        "asks for the volume nosuch (spec.volumeName), which does not exist",
    )
    assert await _first(cluster, "persistentvolumeclaims", "taken", "default") == (
        "pending",
        "asks for the volume disk (spec.volumeName), which does not fit: Available, for default/never",
    )
    await cluster.create(_volume("spare", claimRef={"namespace": "default", "name": "named"}))
    await cluster.create(_volume("small", claimRef={"namespace": "default", "name": "large"}))
    await cluster.create(_claim("large", resources={"requests": {"storage": "2Gi"}}))
    await asyncio.sleep(20)
    assert (await _first(cluster, "persistentvolumes", "spare"))[1] == (
        "is reserved by spec.claimRef for persistentvolumeclaim/named of namespace default, which has the volume nosuch"
    )
    (step,) = (await cluster.why("persistentvolumeclaims", "large")).steps
    assert "small: it has 1Gi, and 2Gi are asked for" in step.table


async def test_attachment(cluster: Cluster) -> None:
    spec = {"attacher": "disks.example.com", "nodeName": "node-0", "source": {"persistentVolumeName": "disk"}}
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    await cluster.create(attachment)
    explanation = await cluster.why("volumeattachments.storage.k8s.io", "a", "")
    assert explanation.state == "not attached"
    (step,) = explanation.steps
    assert step.text == "volumeattachment/a waits until disks.example.com attaches disk to node-0"
    assert step.table == ["persistentvolume/disk does not exist", "csidriver/disks.example.com does not exist"]
    status = {"attached": False, "attachError": {"message": "no space\nleft"}}
    await cluster.plane.patch("storage.k8s.io/v1", "VolumeAttachment", "a", {"status": status}, subresource="status")
    (step,) = (await cluster.why("volumeattachments.storage.k8s.io", "a", "")).steps
    assert step.text == "volumeattachment/a can't be attached to node-0 by disks.example.com: no space left"


async def test_resource_claim(cluster: Cluster) -> None:
    await cluster.create(_RESOURCE_CLAIM)
    explanation = await cluster.why("resourceclaims.resource.k8s.io", "gpu")
    assert explanation.state == "pending"
    assert [step.text.removeprefix("resourceclaim/gpu ") for step in explanation.steps] == [
        "requests the device class gpus, which does not exist",
        "is not allocated: the scheduler does so with the first pod that uses it, and there is none",
    ]


async def test_resource_claim_of_a_pod_that_has_finished(cluster: Cluster) -> None:
    await cluster.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpus"}, "spec": {}}
    )
    await cluster.create(_RESOURCE_CLAIM)
    container = {"name": "c", "image": "nginx", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    await cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "train"},
            "spec": {"containers": [container], "resourceClaims": claims},
        }
    )
    await asyncio.sleep(5)
    assert await _first(cluster, "resourceclaims.resource.k8s.io", "gpu", "default") == (
        "pending",
        "is not allocated: the scheduler does so when it schedules train",
    )
    await cluster.plane.patch("v1", "Pod", "train", {"status": {"phase": "Succeeded"}}, subresource="status")
    assert await _first(cluster, "resourceclaims.resource.k8s.io", "gpu", "default") == (
        "pending",
        "is not allocated: the scheduler does so with the first pod that uses it, and there is none",
    )
