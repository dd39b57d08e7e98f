"""In-tree volume plugins and the CSI drivers that do their work now (csi-translation-lib ``translate.go``, v0.36)."""

from collections.abc import Mapping

import msgspec


class InTreePlugin(msgspec.Struct, frozen=True):
    """A plugin that was migrated: its name, and the driver's."""

    name: str
    driver: str


IN_TREE_PLUGINS: Mapping[str, InTreePlugin] = {
    "awsElasticBlockStore": InTreePlugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "azureDisk": InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "azureFile": InTreePlugin("kubernetes.io/azure-file", "file.csi.azure.com"),
    "cinder": InTreePlugin("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "gcePersistentDisk": InTreePlugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    "portworxVolume": InTreePlugin("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    "vsphereVolume": InTreePlugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
}
"""By the field of a volume that names one of their disks."""
