"""Unique names of volumes.

After v1.36 ``pkg/volume/iscsi/iscsi_test.go``, ``pkg/volume/fc/fc_test.go`` and ``csi-translation-lib/plugins``.
"""

from typing import Any

import msgspec
import pytest

from pilothouse.api.storage import PersistentVolumeSpec
from pilothouse.controllers.shared.volume_plugins import VolumeIdentity, volume_identity


@pytest.mark.parametrize(
    ("source", "driver", "disk"),
    [
        ({"csi": {"driver": "d.example.com", "volumeHandle": "h"}}, "d.example.com", "h"),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "ebs.csi.aws.com", "vol-1"),
        ({"azureDisk": {"diskName": "n", "diskURI": "/sub/disk"}}, "disk.csi.azure.com", "/sub/disk"),
        ({"azureFile": {"secretName": "s", "shareName": "share"}}, "file.csi.azure.com", "s#share"),
        ({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c"),
        ({"gcePersistentDisk": {"pdName": "pd"}}, "pd.csi.storage.gke.io", "pd"),
        ({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p"),
        ({"vsphereVolume": {"volumePath": "[ds] x.vmdk"}}, "csi.vsphere.vmware.com", "[ds] x.vmdk"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_csi_unique_volume_names(source: dict[str, Any], driver: str, disk: str) -> None:
    spec = msgspec.convert(source, PersistentVolumeSpec)
    assert volume_identity(spec, spec.csi) == VolumeIdentity(f"kubernetes.io/csi/{driver}^{disk}", driver)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (
            {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2014", "lun": 1}},
            "kubernetes.io/iscsi/10.0.0.1:iqn.2014:1",
        ),
        ({"fc": {"targetWWNs": ["a", "b"], "lun": 2, "wwids": ["w"]}}, "kubernetes.io/fc/[a b]:2"),
        ({"fc": {"wwids": ["w", "x"]}}, "kubernetes.io/fc/[w x]"),
        ({"fc": {"targetWWNs": ["a"]}}, None),
        ({"nfs": {"server": "s", "path": "/"}}, None),
        ({"hostPath": {"path": "/x"}}, None),
        ({}, None),
    ],
)
def test_in_tree_unique_volume_names(source: dict[str, Any], name: str | None) -> None:
    result = volume_identity(msgspec.convert(source, PersistentVolumeSpec), None)
    assert result == (VolumeIdentity(name, "") if name is not None else None)
