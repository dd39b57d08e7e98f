"""The event handlers of classes that are being deleted, and what uses them. Upstream: v1.36
``pkg/controller/volume/vacprotection/vac_protection_controller.go``."""

from collections.abc import Sequence

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from pilothouse.api.storage import (
    PERSISTENT_VOLUMES,
    VOLUME_ATTRIBUTES_CLASSES,
    PersistentVolume,
    VolumeAttributesClass,
)
from pilothouse.controllers.shared.in_use_protection import ProtectionController
from pilothouse.controllers.volumes.volumeattributesclass_protection import DESCRIPTOR
from pilothouse.runtime import ControllerContext


def classes_of_claim(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    """The classes that a claim requests, has, and is being modified to, without duplicates."""
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    names = (claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target)
    return tuple(dict.fromkeys(name for name in names if name))


def classes_of_volume(volume: PersistentVolume) -> tuple[str, ...]:
    name = volume.spec.volume_attributes_class_name
    return (name,) if name else ()


def stopped_using(old: Sequence[str], new: Sequence[str]) -> list[str]:
    return [name for name in old if name not in new]


FINALIZER = "kubernetes.io/vac-protection"
INDEX = "volumeAttributesClassName"


class AttributesClassProtectionController(ProtectionController[VolumeAttributesClass]):
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
            on_update=lambda old, new: self._enqueue_released(classes_of_claim(old), classes_of_claim(new)),
            on_delete=lambda claim, _unknown: self._enqueue_released(classes_of_claim(claim)),
            resync_seconds=0.0,
        )
        volumes.add_handler(
            on_update=lambda old, new: self._enqueue_released(classes_of_volume(old), classes_of_volume(new)),
            on_delete=lambda volume, _unknown: self._enqueue_released(classes_of_volume(volume)),
            resync_seconds=0.0,
        )

    def _enqueue_released(self, old: tuple[str, ...], new: tuple[str, ...] = ()) -> None:
        for name in stopped_using(old, new):
            self.enqueue(name)

    async def is_being_used(self, obj: VolumeAttributesClass) -> bool:
        name = obj.metadata.name
        return bool(self._volumes.by_index(INDEX, name) or self._claims.by_index(INDEX, name))


build = AttributesClassProtectionController
