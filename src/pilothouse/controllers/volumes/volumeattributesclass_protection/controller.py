"""What enqueues a class that is being deleted, and who uses it: the caches say so."""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS
from pilothouse.api.storage import PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass
from pilothouse.controllers.shared.in_use_protection import ProtectionController
from pilothouse.controllers.volumes.volumeattributesclass_protection import DESCRIPTOR
from pilothouse.controllers.volumes.volumeattributesclass_protection.decide import (
    classes_of_claim,
    classes_of_volume,
    let_go,
)
from pilothouse.runtime import ControllerContext

FINALIZER = "kubernetes.io/vac-protection"
INDEX = "volumeAttributesClassName"


def build(context: ControllerContext) -> "AttributesClassProtectionController":
    """The factory of the descriptor."""
    return AttributesClassProtectionController(context)


class AttributesClassProtectionController(ProtectionController[VolumeAttributesClass]):
    """See the package for the promises."""

    def __init__(self, context: ControllerContext) -> None:
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS, indexes={INDEX: classes_of_claim})
        volumes = context.informer(PERSISTENT_VOLUMES, indexes={INDEX: classes_of_volume})
        super().__init__(
            DESCRIPTOR.name,
            context,
            VOLUME_ATTRIBUTES_CLASSES,
            FINALIZER,
            queue_name="vacprotection",
        )
        self._claims, self._volumes = claims.cache, volumes.cache
        claims.add_handler(
            on_update=lambda old, new: self._wake(classes_of_claim(old), classes_of_claim(new)),
            on_delete=lambda claim, _unknown: self._wake(classes_of_claim(claim)),
            resync_seconds=0.0,
        )
        volumes.add_handler(
            on_update=lambda old, new: self._wake(classes_of_volume(old), classes_of_volume(new)),
            on_delete=lambda volume, _unknown: self._wake(classes_of_volume(volume)),
            resync_seconds=0.0,
        )

    def _wake(self, old: tuple[str, ...], new: tuple[str, ...] = ()) -> None:
        for name in let_go(old, new):
            self.wake(name)

    async def is_used(self, obj: VolumeAttributesClass) -> bool:
        """By a volume or a claim in the caches."""
        name = obj.metadata.name
        return bool(self._volumes.by_index(INDEX, name) or self._claims.by_index(INDEX, name))
