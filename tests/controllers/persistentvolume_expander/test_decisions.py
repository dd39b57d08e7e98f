"""Claims awaiting expansion, and their resizer.

Mirrors ``TestSyncHandler`` of v1.36 ``pkg/controller/volume/expand/expand_controller_test.go`` (read in a public copy),
whose case names are in the ids.
"""

from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.volumes.persistentvolume_expander.controller import (
    NoExpansionNeeded,
    NotBound,
    Step,
    WaitForResizer,
    decide,
    has_grown,
)

EXTERNAL = WaitForResizer("waiting for an external controller to expand this PVC")
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


@cases(
    "requested, has, step",
    {
        "for csi plugin without migration path": (claim("1Gi", "2Gi"), volume(CSI), EXTERNAL),
        "for plugin without expansion support": (claim("1Gi", "2Gi"), volume({"nfs": {}}), EXTERNAL),
        "when pvc and pv has everything for in-tree plugin": (
            claim("1Gi", "2Gi"),
            volume(EBS),
            WaitForResizer(
                "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc",
                "ebs.csi.aws.com",
            ),
        ),
        "if pv has pre-resize capacity annotation, the file system is still to grow": (
            claim("2Gi", "2Gi"),
            volume(CSI, before="1Gi"),
            EXTERNAL,
        ),
        "status equals the request": (claim("2Gi", "2Gi"), volume(CSI), NoExpansionNeeded()),
        "status above the request": (claim("3Gi", "2Gi"), volume(CSI), NoExpansionNeeded()),
        "amounts are compared, not texts": (claim("2Gi", "2048Mi"), volume(CSI), NoExpansionNeeded()),
        "no status capacity": (claim("", "2Gi"), volume(CSI), EXTERNAL),
        "volume without claimRef": (claim("1Gi", "2Gi"), volume(CSI, uid=None), NotBound()),
        "the volume is another claim's": (claim("1Gi", "2Gi"), volume(CSI, uid="other"), NotBound()),
        "volume of a claim in another namespace": (claim("1Gi", "2Gi"), volume(CSI, namespace="else"), NotBound()),
    },
)
def test_resizer_of_a_claim(requested: PersistentVolumeClaim, has: PersistentVolume, step: Step) -> None:
    assert decide(requested, has) == step


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
def test_csi_drivers_of_migrated_plugins(field: str, plugin: str) -> None:
    step = decide(claim("1Gi", "2Gi"), volume({field: {}}))
    assert isinstance(step, WaitForResizer)
    assert step.resizer == plugin


@cases(
    "old, new, expected",
    {
        "request increased": (claim("1Gi", "1Gi"), claim("1Gi", "2Gi"), True),
        "status increased": (claim("1Gi", "2Gi"), claim("2Gi", "2Gi"), True),
        "no change": (claim("1Gi", "2Gi"), claim("1Gi", "2Gi"), False),
        "request decreased": (claim("1Gi", "3Gi"), claim("1Gi", "2Gi"), False),
        "equal quantity in another notation": (claim("1Gi", "1Gi"), claim("1Gi", "1024Mi"), False),
    },
)
def test_claim_updates_that_enqueue(old: PersistentVolumeClaim, new: PersistentVolumeClaim, expected: bool) -> None:
    assert has_grown(old, new) is expected
