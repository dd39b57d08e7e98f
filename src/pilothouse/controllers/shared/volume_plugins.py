"""Upstream's in-tree volume plugins, and the CSI drivers that some of them were migrated to. Pure.

v1.36 ``cmd/kube-controller-manager/app/plugins.go``, ``csi-translation-lib/plugins`` and ``pkg/volume/{fc,iscsi}``.
"""

from collections.abc import Iterator

import msgspec

from pilothouse.api.storage import AzureFileSource, DriverSource, MigratedSource, PersistentVolume, Sources
from pilothouse.semantics.attachments import unique_name
from pilothouse.semantics.csi_translation import IN_TREE_PLUGINS

CSI = "kubernetes.io/csi"
HOST_PATH = "kubernetes.io/host-path"
_PREFIX = "kubernetes.io/"
_MIGRATED = {plugin.name: plugin.driver for plugin in IN_TREE_PLUGINS.values()}


def is_in_tree(provisioner: str) -> bool:
    """Whether the name is that of an in-tree plugin."""
    return provisioner.startswith(_PREFIX)


def csi_name_of(plugin: str) -> str:
    """The driver that the plugin was migrated to, or nothing."""
    return _MIGRATED.get(plugin, "")


def _migrated(volume_sources: Sources) -> Iterator[tuple[str, MigratedSource]]:
    sources: dict[str, MigratedSource | None] = {
        "kubernetes.io/aws-ebs": volume_sources.aws_elastic_block_store,
        "kubernetes.io/azure-disk": volume_sources.azure_disk,
        "kubernetes.io/azure-file": volume_sources.azure_file,
        "kubernetes.io/cinder": volume_sources.cinder,
        "kubernetes.io/gce-pd": volume_sources.gce_persistent_disk,
        "kubernetes.io/portworx-volume": volume_sources.portworx_volume,
        "kubernetes.io/vsphere-volume": volume_sources.vsphere_volume,
    }
    for plugin, source in sources.items():
        if source is not None:
            yield plugin, source


def migrated_plugin_of(volume: PersistentVolume) -> str:
    """The in-tree plugin of the volume, if it was migrated (``GetInTreePluginNameFromSpec``)."""
    return next((plugin for plugin, _source in _migrated(volume.spec)), "")


class VolumeIdentity(msgspec.Struct, frozen=True, gc=False):
    """The unique name of a volume, and the CSI driver that mounts it, if any."""

    name: str
    driver: str


def volume_identity(sources: Sources, csi: DriverSource | None) -> VolumeIdentity | None:
    """The volume of a CSI driver, a migrated plugin, iSCSI or Fibre Channel; None for all others. The name is that of
    ``GetUniqueVolumeName``, but for migrated disks without the zones and resource groups of upstream's translation."""
    if csi is not None:
        return VolumeIdentity(unique_name(csi.driver, csi.volume_handle), csi.driver)
    for plugin, source in _migrated(sources):
        disk = f"{source.secret_name}#{source.disk}" if isinstance(source, AzureFileSource) else source.disk
        return VolumeIdentity(unique_name(_MIGRATED[plugin], disk), _MIGRATED[plugin])
    if sources.iscsi is not None:
        disk = f"{sources.iscsi.target_portal}:{sources.iscsi.iqn}:{sources.iscsi.lun}"
        return VolumeIdentity(f"{_PREFIX}iscsi/{disk}", "")
    if sources.fc is not None and sources.fc.target_wwns and sources.fc.lun is not None:
        return VolumeIdentity(f"{_PREFIX}fc/[{' '.join(sources.fc.target_wwns)}]:{sources.fc.lun}", "")
    if sources.fc is not None and sources.fc.wwids:
        return VolumeIdentity(f"{_PREFIX}fc/[{' '.join(sources.fc.wwids)}]", "")
    return None


def plugin_of(volume: PersistentVolume) -> str:
    """The name of the volume's plugin in upstream's metrics, if it is known here."""
    if volume.spec.csi is not None:
        return f"{CSI}:{volume.spec.csi.driver}"
    return HOST_PATH if volume.spec.host_path is not None else ""
