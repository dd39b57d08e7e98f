"""Reports how many devices the resource pools of a driver have, how many are allocated and how many are
available.

Behaviour: a ResourcePoolStatusRequest is answered once, in one write, from ResourceSlices and the allocations of
ResourceClaims as the caches have them; what has a status is never written again. Pools are listed in the order of their
names, as many as the request wants; their total number is always given. A pool of which slices are missing is given
a moment, and then listed as incomplete, without counts. A request is deleted an hour after the answer, one without an
answer after a day; only that very request is deleted (its uid is a precondition).

Not guaranteed: that the numbers still hold when somebody reads them.

docs/controllers/resourcepoolstatusrequest.md has where it differs from upstream.
"""

from pilothouse.api.resource import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

DESCRIPTOR = Descriptor(
    name="resourcepoolstatusrequest-controller",
    client_name="resourcepoolstatusrequest-controller",
    gates=("DRAResourcePoolStatus",),
    watches=(
        Watch(kind=RESOURCE_POOL_STATUS_REQUESTS, keep_raw=True),
        Watch(kind=RESOURCE_SLICES),
        Watch(kind=RESOURCE_CLAIMS),
    ),
    package=__name__,
)
