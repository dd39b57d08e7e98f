"""Which volumes must be attached to a node before a pod can use them, and their unique names. Pure.

Used by the attach/detach controller, simulated nodes and drivers. Sources: kubernetes v1.36,
``pkg/volume/csi/{csi_plugin,csi_attacher}.go``, ``pkg/volume/util/util.go`` (``GetUniqueVolumeName``,
``IsMultiAttachAllowed``).
"""

import hashlib
from collections.abc import Callable

import msgspec

from pilothouse.api.core import PersistentVolumeClaim, Pod, Volume
from pilothouse.api.storage import Driver, PersistentVolume, VolumeAttachment
from pilothouse.semantics.volumes import volume_for

MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
"""On nodes: the controller attaches and detaches there, not the kubelet. The value does not count."""

BY_VOLUME = "attached volume"
"""The index of VolumeAttachments by the PersistentVolume that they attach."""
_PREFIX = "kubernetes.io/csi/"
_SEPARATOR = "^"
_SHARED = frozenset(("ReadWriteMany", "ReadOnlyMany"))


class Disk(msgspec.Struct, frozen=True, gc=False):
    """A volume of a CSI driver that must be attached. ``name`` is its unique name, ``volume`` the PersistentVolume; an
    ``exclusive`` one may only be attached to one node at a time."""

    name: str
    volume: str
    driver: str
    handle: str
    exclusive: bool


def unique_name(driver: str, handle: str) -> str:
    """The unique name of a volume in ``status.volumesAttached`` and ``status.volumesInUse`` of nodes."""
    return f"{_PREFIX}{driver}{_SEPARATOR}{handle}"


def driver_and_handle(name: str) -> tuple[str, str] | None:
    """The parts of such a name; None if it is not a CSI driver's."""
    if not name.startswith(_PREFIX):
        return None
    parts = name.removeprefix(_PREFIX).split(_SEPARATOR)
    return (parts[0], parts[1]) if len(parts) == 2 else None


def attachment_name(driver: str, handle: str, node: str) -> str:
    return f"csi-{hashlib.sha256(f'{handle}{driver}{node}'.encode()).hexdigest()}"


def index_by_volume(attachment: VolumeAttachment) -> tuple[str, ...]:
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()


def is_attached_by(driver: Driver | None) -> bool:
    """Whether volumes of the driver must be attached; True for a driver without a CSIDriver object."""
    return driver is None or driver.spec.attach_required is not False


def disk_of(volume: PersistentVolume) -> Disk | None:
    """The volume as an attachable one; None if it is not a CSI driver's."""
    source = volume.spec.csi
    if source is None:
        return None
    modes = volume.spec.access_modes
    # Without access modes it may be attached to several nodes; the driver decides.
    exclusive = bool(modes) and not _SHARED.intersection(modes)
    return Disk(
        unique_name(source.driver, source.volume_handle),
        volume.metadata.name,
        source.driver,
        source.volume_handle,
        exclusive,
    )


def disk_for(
    pod: Pod,
    volume: Volume,
    find_claim: Callable[[str], PersistentVolumeClaim | None],
    find_volume: Callable[[str], PersistentVolume | None],
    find_driver: Callable[[str], Driver | None],
) -> Disk | None:
    """The attachable volume of a pod's volume; None if it needs no attachment, or if that is not known yet.

    Claims are found by namespace and name, the others by name.
    """
    persistent_volume = volume_for(pod, volume, find_claim, find_volume)
    disk = disk_of(persistent_volume) if persistent_volume is not None else None
    return disk if disk is not None and is_attached_by(find_driver(disk.driver)) else None
