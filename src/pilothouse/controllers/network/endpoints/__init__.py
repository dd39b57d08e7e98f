"""Maintains the Endpoints object of each Service with a selector, the older form of EndpointSlices.

Behaviour: every pod of the service with an address of the service's first family is in it once for each port that it
has, among the ready or the not ready addresses; more than 1,000 addresses are cut off, the not ready ones first, and an
annotation says so. Services without selector are left alone. Nothing is decided on a cache that is known to show what
was overwritten. An Endpoints without a service goes when this program starts, and with its service.

Not guaranteed: that it is complete: proxies use EndpointSlices, which have both families.

docs/controllers/endpoints.md has what enqueues it and where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import ENDPOINTS, PODS, SERVICES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import DURATION, INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch


class EndpointsOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 5
    batch_seconds: float = 0.0
    """How long changes of pods are batched before a service is synced."""


DESCRIPTOR = Descriptor(
    name="endpoints-controller",
    aliases=("endpoint",),
    client_name="endpoint-controller",
    options=EndpointsOptions,
    flags=(
        flag_spec(
            "workers",
            "concurrent-endpoint-syncs",
            INT32,
            5,
            "The number of endpoint syncing operations that will be done concurrently. Larger number = faster "
            "endpoint updating, but more CPU (and network) load.",
        ),
        flag_spec(
            "batch_seconds",
            "endpoint-updates-batch-period",
            DURATION,
            0.0,
            "The length of endpoint updates batching period. Processing of pod changes will be delayed by this "
            "duration to join them with potential upcoming updates and reduce the overall number of endpoints "
            "updates. Larger number = higher endpoint programming latency, but lower number of endpoints revision "
            "generated",
        ),
    ),
    watches=(Watch(kind=SERVICES), Watch(kind=PODS), Watch(kind=ENDPOINTS, keep_raw=True)),
    package=__name__,
)
