"""Reports how many devices the resource pools of a driver have, how many are allocated and how many are
available.

Behaviour: the status of a ResourcePoolStatusRequest is written once, from the cached ResourceSlices and ResourceClaims;
a status is never changed. Pools are sorted by name and limited as the request specifies; their total number is always
reported. If slices of a pool are missing the controller waits a moment, and then reports the pool as incomplete,
without counts. A request is deleted an hour after its status was written, or a day after its creation if it has none,
with its uid as precondition.

Not guaranteed: that the numbers are still correct when somebody reads them.

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
