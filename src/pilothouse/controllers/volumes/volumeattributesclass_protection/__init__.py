"""Delays the deletion of VolumeAttributesClasses that claims or volumes use.

Behaviour: a VolumeAttributesClass that is not being deleted has the finalizer ``kubernetes.io/vac-protection``. It is
removed from one that is being deleted when no cached volume or claim refers to it, and not before. A claim refers to
the requested class, the current one, and the target of a modification.

Not guaranteed: that a claim counts that was created at the moment of the deletion. As upstream, only the caches are
used; in that case the driver reports that the class does not exist.

docs/controllers/volumeattributesclass_protection.md has the triggers.
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
