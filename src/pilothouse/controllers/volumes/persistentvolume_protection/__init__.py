"""Delays the deletion of volumes that are bound to claims.

Behaviour: a volume that is not being deleted has the finalizer ``kubernetes.io/pv-protection``; it is removed from one
that is being deleted as soon as that is not Bound, and not before.

docs/controllers/persistentvolume_protection.md lists its triggers and its differences from upstream.
"""

from pilothouse.api.storage import PERSISTENT_VOLUMES
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="persistentvolume-protection-controller",
    aliases=("pv-protection",),
    client_name="pv-protection-controller",
    watches=(Watch(kind=PERSISTENT_VOLUMES, keep_raw=True, predicate=any_object),),
    package=__name__,
)
