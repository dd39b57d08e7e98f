"""Whether a claim waits to be expanded, and by whom. Mirrors ``TestSyncHandler`` of v1.36
``pkg/controller/volume/expand/expand_controller_test.go`` (read in a public copy), whose case names are in the ids."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.volumes.persistentvolume_expander.controller import (
    NotBound,
    Stay,
    Step,
    Wait,
    decide,
    has_grown,
)

EXTERNAL = Wait("waiting for an external controller to expand this PVC")
CSI = {"csi": {"driver": "com.csi.ceph", "volumeHandle": "v"}}
EBS = {"awsElasticBlockStore": {"volumeID": "v"}}


def claim(has: str, wants: str, uid: str = "u") -> PersistentVolumeClaim:
    status = {"capacity": {"storage": has}} if has else {}
    spec = {"volumeName": "v", "resources": {"requests": {"storage": wants}}}
    meta = {"name": "c", "namespace": "ns", "uid": uid}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, PersistentVolumeClaim)


def volume(source: dict[str, Any], uid: str | None = "u", namespace: str = "ns", before: str = "") -> PersistentVolume:
    annotations = {"volume.alpha.kubernetes.io/pre-resize-capacity": before} if before else {}
    spec = {"claimRef": {"namespace": namespace, "uid": uid}} if uid is not None else {}
    return msgspec.convert(
        {"metadata": {"name": "v", "annotations": annotations}, "spec": spec | source}, PersistentVolume
    )


@pytest.mark.parametrize(
    ("asks", "has", "step"),
    [
        pytest.param(claim("1Gi", "2Gi"), volume(CSI), EXTERNAL, id="for csi plugin without migration path"),
        pytest.param(claim("1Gi", "2Gi"), volume({"nfs": {}}), EXTERNAL, id="of a plugin that cannot expand"),
        pytest.param(
            claim("1Gi", "2Gi"),
            volume(EBS),
            Wait(
                "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc",
                "ebs.csi.aws.com",
            ),
            id="when pvc and pv has everything for in-tree plugin",
        ),
        pytest.param(
            claim("2Gi", "2Gi"),
            volume(CSI, before="1Gi"),
            EXTERNAL,
            id="if pv has pre-resize capacity annotation, the file system is still to grow",
        ),
        pytest.param(claim("2Gi", "2Gi"), volume(CSI), Stay(), id="it has what it asks for"),
        pytest.param(claim("3Gi", "2Gi"), volume(CSI), Stay(), id="it has more"),
        pytest.param(claim("2Gi", "2048Mi"), volume(CSI), Stay(), id="amounts are compared, not texts"),
        pytest.param(claim("", "2Gi"), volume(CSI), EXTERNAL, id="it has not been told what it has"),
        pytest.param(claim("1Gi", "2Gi"), volume(CSI, uid=None), NotBound(), id="the volume is nobody's"),
        pytest.param(claim("1Gi", "2Gi"), volume(CSI, uid="other"), NotBound(), id="the volume is another claim's"),
        pytest.param(claim("1Gi", "2Gi"), volume(CSI, namespace="else"), NotBound(), id="of another namespace"),
    ],
)
def test_who_expands(asks: PersistentVolumeClaim, has: PersistentVolume, step: Step) -> None:
    assert decide(asks, has) == step


@pytest.mark.parametrize(
    ("field", "plugin"),
    [
        ("azureDisk", "disk.csi.azure.com"),
        ("azureFile", "file.csi.azure.com"),
        ("cinder", "cinder.csi.openstack.org"),
        ("gcePersistentDisk", "pd.csi.storage.gke.io"),
        ("portworxVolume", "pxd.portworx.com"),
        ("vsphereVolume", "csi.vsphere.vmware.com"),
    ],
)
def test_drivers_of_plugins_that_were_migrated(field: str, plugin: str) -> None:
    step = decide(claim("1Gi", "2Gi"), volume({field: {}}))
    assert isinstance(step, Wait)
    assert step.resizer == plugin


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(claim("1Gi", "1Gi"), claim("1Gi", "2Gi"), True, id="more is asked for"),
        pytest.param(claim("1Gi", "2Gi"), claim("2Gi", "2Gi"), True, id="there is more"),
        pytest.param(claim("1Gi", "2Gi"), claim("1Gi", "2Gi"), False, id="nothing of that changed"),
        pytest.param(claim("1Gi", "3Gi"), claim("1Gi", "2Gi"), False, id="less is asked for"),
        pytest.param(claim("1Gi", "1Gi"), claim("1Gi", "1024Mi"), False, id="the same, said otherwise"),
    ],
)
def test_what_is_worth_a_look(old: PersistentVolumeClaim, new: PersistentVolumeClaim, expected: bool) -> None:
    assert has_grown(old, new) is expected
