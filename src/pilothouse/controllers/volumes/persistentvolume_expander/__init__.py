"""Detects claims that request more capacity than they have, and reports which component expands them.

CSI drivers (external-resizer and the kubelet) expand volumes. This controller only records an event, and for volumes of
migrated plugins sets an annotation with the driver.

Behaviour: a bound claim whose request exceeds its capacity gets the event ``ExternalExpanding``, once for each increase
of request or capacity; one whose volume is of a migrated plugin also gets the annotation
``volume.kubernetes.io/storage-resizer``. Nothing else is written.

Not guaranteed: that the volume grows.

docs/controllers/persistentvolume_expander.md has the triggers and the differences from upstream.
"""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="persistentvolume-expander-controller",
    aliases=("persistentvolume-expander",),
    client_name="expand-controller",
    watches=(Watch(kind=PERSISTENT_VOLUME_CLAIMS, predicate=any_object),),
    package=__name__,
)
