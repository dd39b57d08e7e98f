"""Volumes: ``v1`` PersistentVolumes and the kinds of ``storage.k8s.io/v1``. Claims are in ``core``."""

import msgspec

from pilothouse.api.core import NodeSelector, ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class VolumeNodeAffinity(View, frozen=True):
    required: NodeSelector | None = None


class HostPathSource(View, frozen=True):
    path: str = ""


class DriverSource(View, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class MigratedSource(View, frozen=True):
    """A volume of an in-tree plugin that was migrated to a CSI driver: AWS EBS, Cinder and Portworx. The fields of the
    others have different names."""

    disk: str = msgspec.field(default="", name="volumeID")


class AzureDiskSource(MigratedSource, frozen=True):
    disk: str = msgspec.field(default="", name="diskURI")


class AzureFileSource(MigratedSource, frozen=True):
    disk: str = msgspec.field(default="", name="shareName")
    secret_name: str = ""


class GceDiskSource(MigratedSource, frozen=True):
    disk: str = msgspec.field(default="", name="pdName")


class VsphereSource(MigratedSource, frozen=True):
    disk: str = msgspec.field(default="", name="volumePath")


class IscsiSource(View, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0


class FibreChannelSource(View, frozen=True):
    target_wwns: tuple[str, ...] = msgspec.field(default=(), name="targetWWNs")
    lun: int | None = None
    wwids: tuple[str, ...] = ()


class NfsSource(View, frozen=True):
    """An NFS export. Only its presence is read."""


class Sources(View, frozen=True):
    aws_elastic_block_store: MigratedSource | None = None
    azure_disk: AzureDiskSource | None = None
    azure_file: AzureFileSource | None = None
    cinder: MigratedSource | None = None
    gce_persistent_disk: GceDiskSource | None = None
    portworx_volume: MigratedSource | None = None
    vsphere_volume: VsphereSource | None = None
    iscsi: IscsiSource | None = None
    fc: FibreChannelSource | None = None


class PersistentVolumeSpec(Sources, frozen=True):
    capacity: dict[str, str] = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    host_path: HostPathSource | None = None
    nfs: NfsSource | None = None
    csi: DriverSource | None = None


class PersistentVolumeStatus(View, frozen=True):
    phase: str = ""
    message: str = ""


class PersistentVolume(View, frozen=True):
    """A PersistentVolume. To write one back, read the complete object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(View, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(View, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: dict[str, str] = {}
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeAttributesClass(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    driver_name: str = ""


class DriverSpec(View, frozen=True):
    """The requirements of a CSI driver. ``attach_required`` None means True. With ``se_linux_mount`` volumes are
    mounted with the SELinux label of the pod, with ``storage_capacity`` it publishes CSIStorageCapacity objects."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    se_linux_mount: bool | None = None


class Driver(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DriverSpec = DriverSpec()


class AttachmentSource(View, frozen=True):
    """The volume to attach. None if it is specified inline."""

    persistent_volume_name: str | None = None


class AttachmentSpec(View, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class AttachmentError(View, frozen=True):
    message: str = ""


class AttachmentStatus(View, frozen=True):
    attached: bool = False
    attach_error: AttachmentError | None = None
    detach_error: AttachmentError | None = None


class VolumeAttachment(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()


class VolumeNodeResources(View, frozen=True):
    """How many volumes of a driver can be attached. None means that there is no limit."""

    count: int | None = None


class CSINodeDriver(View, frozen=True):
    allocatable: VolumeNodeResources | None = None
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()


class CSINodeSpec(View, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIStorageCapacity(View, frozen=True):
    capacity: str = ""
    maximum_volume_size: str = ""
    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""


PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)
VOLUME_ATTRIBUTES_CLASSES = Kind(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", False, VolumeAttributesClass
)
CSI_DRIVERS = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, Driver)
VOLUME_ATTACHMENTS = Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, VolumeAttachment)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", False, CSINode)
CSI_STORAGE_CAPACITIES = Kind(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True, CSIStorageCapacity
)
