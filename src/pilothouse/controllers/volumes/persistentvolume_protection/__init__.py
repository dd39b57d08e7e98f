"""Delays the deletion of volumes that are bound to claims.

Behaviour: a volume that lives has the finalizer ``kubernetes.io/pv-protection``; one that is being deleted loses it as
soon as it is not Bound, and not before.

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
