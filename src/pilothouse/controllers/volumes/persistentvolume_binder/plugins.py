"""Finds the plugin that provisions or deletes a volume: an in-tree plugin, or one that is migrated to a CSI driver.
Pure.

Names without the prefix ``kubernetes.io/`` are external provisioners.
"""

import re

from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_plugins import HOST_PATH, csi_name_of, is_in_tree
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.volumes import MIGRATED_TO, PROVISIONED_BY

HOST_PATHS = "/tmp/hostpath_pv"  # noqa: S108  # upstream's folder, of the node; nothing is opened here
NFS = "kubernetes.io/nfs"
_DELETABLE = re.compile("/tmp/.+")  # noqa: S108  # compared only


class NoPluginError(Exception):
    """No plugin supports the operation."""


def provisioner_of(name: str) -> str:
    """The provisioner of a class: ``HOST_PATH``, or the external one's name.

    Raises ``NoPluginError``: for an unknown plugin, one that cannot provision, and ``kubernetes.io/no-provisioner``.
    """
    if csi_name_of(name):
        return csi_name_of(name)
    if name == NFS:
        raise NoPluginError("no provisionable volume plugin matched")
    if is_in_tree(name) and name != HOST_PATH:
        raise NoPluginError(f"no volume plugin matched name: {name}")
    return name


def deleter_of(volume: PersistentVolume) -> str:
    """``HOST_PATH``, or "" for an external deleter. Raises ``NoPluginError``.

    As ``findDeletablePlugin``: upstream's binder has the plugins of host paths and NFS, and only the first one deletes.
    """
    annotations, spec = volume.metadata.annotations, volume.spec
    provisioner = annotations.get(PROVISIONED_BY, "")
    if provisioner:
        if provisioner == NFS:
            raise NoPluginError("no deletable volume plugin matched")
        if provisioner == HOST_PATH:
            return HOST_PATH
        if is_in_tree(provisioner) and not csi_name_of(provisioner):
            raise NoPluginError(f"no volume plugin matched name: {provisioner}")
        return ""
    if MIGRATED_TO in annotations or spec.csi is not None:
        return ""
    if spec.host_path is not None:
        return HOST_PATH
    reason = "no volume plugin matched" if spec.nfs is None else "no deletable volume plugin matched"
    raise NoPluginError(f"error getting deleter volume plugin for volume {quote(volume.metadata.name)}: {reason}")


def not_deletable_reason(volume: PersistentVolume) -> str:
    """Why the host path plugin cannot delete the volume, or ""."""
    path = volume.spec.host_path.path if volume.spec.host_path is not None else ""
    if _DELETABLE.search(path):  # not anchored, as upstream
        return ""
    return f"host_path deleter only supports /tmp/.+ but received provided {path}"
