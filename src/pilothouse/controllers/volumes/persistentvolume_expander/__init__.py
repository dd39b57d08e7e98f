"""Detects claims that request more capacity than they have, and reports who expands them.

Volumes grow by the hand of CSI drivers (external-resizer and the kubelet). What is left to this program is to say so
on the claim, and for volumes of plugins whose work a driver does now, to name that driver.

Behaviour: a bound claim whose request has come to be larger than what it has gets the event ``ExternalExpanding``, once
for each time that the request or the capacity grows; one whose volume is of a migrated plugin also the annotation
``volume.kubernetes.io/storage-resizer``. Nothing else is written, and no capacity is ever changed here.

Not guaranteed: that the volume grows.

docs/controllers/persistentvolume_expander.md has what enqueues it and where it differs from upstream.
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
