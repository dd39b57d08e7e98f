"""Who makes and deletes volumes: the few plugins inside the program, and those that are CSI drivers by now. Pure.

Every other name without the prefix ``kubernetes.io/`` is somebody else's.
"""

import re

from pilothouse.api.storage import PersistentVolume
from pilothouse.controllers.shared.volume_plugins import HOST_PATH, csi_name_of, is_in_tree
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.volumes import PROVISIONED_BY

HOST_PATHS = "/tmp/hostpath_pv"  # noqa: S108  # upstream's folder, of the node; nothing is opened here
_DELETABLE = re.compile("/tmp/.+")  # noqa: S108  # compared only


class NoPlugin(Exception):
    """Nobody is there who could."""


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
