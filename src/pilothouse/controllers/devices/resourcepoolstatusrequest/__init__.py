"""Answers how many devices the pools of a driver have, how many of them are taken and how many can be had.

Promises: a ResourcePoolStatusRequest is answered once, in one write, from ResourceSlices and the allocations of
ResourceClaims as the caches have them; what has a status is never written again. Pools are told in the order of their
names, as many as the request wants; how many there are is told in any case. A pool of which slices are missing is
given a moment, and then told as incomplete, without counts. Answers go after an hour, what nobody answered after a day;
only that very request is deleted (its uid is a precondition).

Not promised: that the numbers still hold when somebody reads them.

Files: ``decide`` counts, and says whose time is over, ``status`` what the answer says, ``controller`` the wiring.
docs/controllers/resourcepoolstatusrequest.md has where it differs from upstream.
"""

from pilothouse.api.resource import RESOURCE_CLAIMS, RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from pilothouse.runtime.descriptor import Descriptor, Watch

DESCRIPTOR = Descriptor(
    name="resourcepoolstatusrequest-controller",
    client_name="resourcepoolstatusrequest-controller",
    gates=("DRAResourcePoolStatus",),
    watches=(
        Watch(kind=RESOURCE_POOL_STATUS_REQUESTS, keep_raw=True),
        Watch(kind=RESOURCE_SLICES, indexes=("driver",)),
        Watch(kind=RESOURCE_CLAIMS, indexes=("allocated driver",)),
    ),
    factory="pilothouse.controllers.devices.resourcepoolstatusrequest.controller:build",
)
