"""Whose volumes are whose: upstream's plugins, and the CSI drivers that do now what some of them did. Pure.

v1.36 ``cmd/kube-controller-manager/app/plugins.go`` and ``csi-translation-lib/plugins``.
"""

from pilothouse.api.storage import PersistentVolume

CSI = "kubernetes.io/csi"
HOST_PATH = "kubernetes.io/host-path"
_PREFIX = "kubernetes.io/"
_MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}


def is_in_tree(provisioner: str) -> bool:
    """Whether the name is of a plugin that was, or is, inside upstream's program."""
    return provisioner.startswith(_PREFIX)


def csi_name_of(plugin: str) -> str:
    """The driver that does now what this plugin did, or nothing."""
    return _MIGRATED.get(plugin, "")


def migrated_plugin_of(volume: PersistentVolume) -> str:
    """The plugin that the volume is of, if a driver does its work now (``GetInTreePluginNameFromSpec``)."""
    spec = volume.spec
    sources = {
        "kubernetes.io/aws-ebs": spec.aws_elastic_block_store,
        "kubernetes.io/azure-disk": spec.azure_disk,
        "kubernetes.io/azure-file": spec.azure_file,
        "kubernetes.io/cinder": spec.cinder,
        "kubernetes.io/gce-pd": spec.gce_persistent_disk,
        "kubernetes.io/portworx-volume": spec.portworx_volume,
        "kubernetes.io/vsphere-volume": spec.vsphere_volume,
    }
    return next((plugin for plugin, source in sources.items() if source is not None), "")


def plugin_of(volume: PersistentVolume) -> str:
    """Which kind of volume it is, as upstream's metrics call it, where that is known here."""
    if volume.spec.csi is not None:
        return f"{CSI}:{volume.spec.csi.driver}"
    return HOST_PATH if volume.spec.host_path is not None else ""
