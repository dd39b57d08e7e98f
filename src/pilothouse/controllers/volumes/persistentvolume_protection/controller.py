"""A volume is in use while it is Bound to a claim. Upstream: v1.36 ``pkg/controller/volume/pvprotection``."""

from pilothouse.api.storage import PERSISTENT_VOLUMES, PersistentVolume
from pilothouse.controllers.shared.in_use_protection import ProtectionController
from pilothouse.controllers.volumes.persistentvolume_protection import DESCRIPTOR
from pilothouse.runtime import ControllerContext

FINALIZER = "kubernetes.io/pv-protection"


class VolumeProtectionController(ProtectionController[PersistentVolume]):
    def __init__(self, context: ControllerContext) -> None:
        super().__init__(DESCRIPTOR.name, context, PERSISTENT_VOLUMES, FINALIZER, queue_name="pvprotection")

    async def is_being_used(self, obj: PersistentVolume) -> bool:
        """By its phase. Binding changes the volume, so a concurrent write is a conflict."""
        return obj.status.phase == "Bound"


build = VolumeProtectionController
