"""Who makes and deletes volumes: the few plugins inside the program, and those that are CSI drivers by now. Pure.

v1.36 ``cmd/kube-controller-manager/app/plugins.go`` and ``csi-translation-lib/plugins``. Every other name without the
prefix ``kubernetes.io/`` is somebody else's.
"""

import re

from pilothouse.api.storage import PersistentVolume
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.volumes import PROVISIONED_BY

HOST_PATH = "kubernetes.io/host-path"
HOST_PATHS = "/tmp/hostpath_pv"  # noqa: S108  # upstream's folder, of the node; nothing is opened here
_DELETABLE = re.compile("/tmp/.+")  # noqa: S108  # compared only
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


class NoPlugin(Exception):
    """Nobody is there who could."""


def is_in_tree(provisioner: str) -> bool:
    """Whether the name is of a plugin that was, or is, inside upstream's program."""
    return provisioner.startswith(_PREFIX)


def csi_name_of(provisioner: str) -> str:
    """The driver that does now what this plugin did, or nothing."""
    return _MIGRATED.get(provisioner, "")


def provisioner_of(name: str, *, host_paths: bool) -> str:
    """Who makes volumes for a class with this provisioner: ``HOST_PATH``, or the external one's name.

    Raises ``NoPlugin``: for a plugin that is gone, and for ``kubernetes.io/no-provisioner``.
    """
    if csi_name_of(name):
        return csi_name_of(name)
    if name == HOST_PATH and host_paths:
        return HOST_PATH
    if is_in_tree(name):
        raise NoPlugin(f"no volume plugin matched name: {name}")
    return name


def deleter_of(volume: PersistentVolume) -> str:
    """Who deletes the volume: ``HOST_PATH``, or nothing where somebody else does. Raises ``NoPlugin``."""
    made_by = volume.metadata.annotations.get(PROVISIONED_BY, "")
    if made_by:
        if made_by == HOST_PATH:
            return HOST_PATH
        if is_in_tree(made_by) and not csi_name_of(made_by):
            raise NoPlugin(f"no volume plugin matched name: {made_by}")
        return ""
    if volume.spec.csi is not None:
        return ""
    if volume.spec.host_path is not None:
        return HOST_PATH
    name = quote(volume.metadata.name)
    raise NoPlugin(f"error getting deleter volume plugin for volume {name}: no deletable volume plugin matched")


def why_not_deletable(volume: PersistentVolume) -> str:
    """Why the plugin for host paths leaves the volume alone, or nothing."""
    path = volume.spec.host_path.path if volume.spec.host_path is not None else ""
    if _DELETABLE.search(path):  # anywhere in it, as upstream
        return ""
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"


def plugin_of(volume: PersistentVolume) -> str:
    """Which kind of volume it is, as upstream's metrics call it, where that is known here."""
    if volume.spec.csi is not None:
        return f"kubernetes.io/csi:{volume.spec.csi.driver}"
    return HOST_PATH if volume.spec.host_path is not None else ""
