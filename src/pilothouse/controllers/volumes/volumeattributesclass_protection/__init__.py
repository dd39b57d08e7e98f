"""Delays the deletion of VolumeAttributesClasses that claims or volumes use.

Behaviour: a VolumeAttributesClass that lives has the finalizer ``kubernetes.io/vac-protection``. One that is being
deleted loses it as soon as the caches show no volume and no claim that names it, and not before. A claim names the
class that it asks for, the one that it has, and the one to which it is being changed.

Not guaranteed: that a claim which was made in the moment of the deletion is noticed. Upstream reads its caches only,
too; the drivers that would need the class then say so.

docs/controllers/volumeattributesclass_protection.md has what enqueues it.
"""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS
from pilothouse.api.storage import PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="volumeattributesclass-protection-controller",
    client_name="volumeattributesclass-protection-controller",
    gates=("VolumeAttributesClass",),
    watches=(
        Watch(kind=VOLUME_ATTRIBUTES_CLASSES, keep_raw=True, predicate=any_object),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS),
        Watch(kind=PERSISTENT_VOLUMES),
    ),
    package=__name__,
)
