"""Volumes: ``v1`` PersistentVolumes and the kinds of ``storage.k8s.io/v1``. Claims are in ``core``."""

import msgspec

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


class MigratedSource(View, frozen=True):
    """A disk of a plugin whose work a CSI driver does now: of Amazon, OpenStack and Portworx. Others call it
    differently."""

    disk: str = msgspec.field(default="", name="volumeID")


class AzureDiskSource(MigratedSource, frozen=True):
    """A disk of Azure."""

    disk: str = msgspec.field(default="", name="diskURI")


class AzureFileSource(MigratedSource, frozen=True):
    """A share of the storage account whose key is in the Secret."""

    disk: str = msgspec.field(default="", name="shareName")
    secret_name: str = ""


class GceDiskSource(MigratedSource, frozen=True):
    """A disk of Google."""

    disk: str = msgspec.field(default="", name="pdName")


class VsphereSource(MigratedSource, frozen=True):
    """A disk of vSphere."""

    disk: str = msgspec.field(default="", name="volumePath")


class IscsiSource(View, frozen=True):
    """A disk in the network."""

    target_portal: str = ""
    iqn: str = ""
    lun: int = 0


class FibreChannelSource(View, frozen=True):
    """A disk behind Fibre Channel, by port and number or by what it calls itself."""

    target_wwns: tuple[str, ...] = msgspec.field(default=(), name="targetWWNs")
    lun: int | None = None
    wwids: tuple[str, ...] = ()


class NfsSource(View, frozen=True):
    """A folder of a server. That it is one is all that is read."""


class Sources(View, frozen=True):
    """Where a volume lies, as a PersistentVolume says it, and so does a pod with one that nobody claims."""

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
    nfs: NfsSource | None = None
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


class VolumeAttributesClass(View, frozen=True):
    """How volumes behave, of which a claim can name another one later."""

    metadata: ObjectMeta = ObjectMeta()
    driver_name: str = ""


class DriverSpec(View, frozen=True):
    """What a CSI driver wants. ``attach_required`` None means yes. With ``se_linux_mount`` a volume is mounted with the
    pod's SELinux label."""

    attach_required: bool | None = None
    se_linux_mount: bool | None = None


class Driver(View, frozen=True):
    """A CSI driver."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DriverSpec = DriverSpec()


class AttachmentSource(View, frozen=True):
    """What is to be attached. None if it is described in the attachment itself."""

    persistent_volume_name: str | None = None


class AttachmentSpec(View, frozen=True):
    """A wish to have a volume attached to a node, and whose work that is."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class AttachmentError(View, frozen=True):
    """What went wrong last."""

    message: str = ""


class AttachmentStatus(View, frozen=True):
    """What became of the wish."""

    attached: bool = False
    attach_error: AttachmentError | None = None
    detach_error: AttachmentError | None = None


class VolumeAttachment(View, frozen=True):
    """A volume on a node, from the wish until it is detached."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AttachmentSpec = AttachmentSpec()
    status: AttachmentStatus = AttachmentStatus()


PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass)
VOLUME_ATTRIBUTES_CLASSES = Kind(
    "storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass", False, VolumeAttributesClass
)
CSI_DRIVERS = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, Driver)
VOLUME_ATTACHMENTS = Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, VolumeAttachment)
