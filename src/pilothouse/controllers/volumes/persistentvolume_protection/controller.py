"""Who uses a volume: the claim that it is Bound to. Upstream: v1.36 ``pkg/controller/volume/pvprotection``."""

from pilothouse.api.storage import PERSISTENT_VOLUMES, PersistentVolume
from pilothouse.controllers.shared.in_use_protection import ProtectionController
from pilothouse.controllers.volumes.persistentvolume_protection import DESCRIPTOR
from pilothouse.runtime import ControllerContext

FINALIZER = "kubernetes.io/pv-protection"


class VolumeProtectionController(ProtectionController[PersistentVolume]):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(DESCRIPTOR.name, context, PERSISTENT_VOLUMES, FINALIZER, queue_name="pvprotection")

    async def is_used(self, obj: PersistentVolume) -> bool:
        """Its phase says so, which is the binder's. A claim that the binder has just given the volume to has changed
        the volume, so that the write which would let it go is refused."""
        return obj.status.phase == "Bound"


build = VolumeProtectionController
