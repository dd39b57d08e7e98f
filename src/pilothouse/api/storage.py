"""Volumes and their classes: ``v1`` PersistentVolumes, ``storage.k8s.io/v1`` StorageClasses. Claims are in ``core``."""

from pilothouse.api.core import NodeSelector, ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class VolumeNodeAffinity(View, frozen=True):
    """From which nodes a volume can be reached."""

    required: NodeSelector | None = None


class HostPathSource(View, frozen=True):
    """A directory of the node."""

    path: str = ""


class DriverSource(View, frozen=True):
    """What a CSI driver manages."""

    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(View, frozen=True):
    """What a volume is. Of where it lies only that is read which somebody here decides by."""

    capacity: dict[str, str] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    host_path: HostPathSource | None = None
    csi: DriverSource | None = None


class PersistentVolumeStatus(View, frozen=True):
    """What becomes of it."""

    phase: str = ""
    message: str = ""


class PersistentVolume(View, frozen=True):
    """A piece of storage. Who writes one back needs it whole."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(View, frozen=True):
    """A label, and the values of which it must have one."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(View, frozen=True):
    """Labels that must all be there."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(View, frozen=True):
    """Who makes volumes for claims of this class, where, and when."""

    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)
