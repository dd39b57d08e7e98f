"""Maintains the Endpoints object of each Service with a selector, the older form of EndpointSlices.

Behaviour: every selected pod with an address of the Service's first family is in the Endpoints, once for each of its
ports, in ready or not-ready addresses. Above 1,000 addresses they are truncated, not-ready ones first, and an
annotation reports that. Services without a selector are ignored. Nothing is decided while the cache is older than the
controller's own writes. Endpoints without a Service are deleted at the start, and together with their Service.

Not guaranteed: that it is complete: proxies use EndpointSlices, which have both families.

docs/controllers/endpoints.md has the triggers and the differences from upstream.
"""

import msgspec

from pilothouse.api.core import PARTIAL_ENDPOINTS, PODS, SERVICES
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
    watches=(Watch(kind=SERVICES), Watch(kind=PODS), Watch(kind=PARTIAL_ENDPOINTS, keep_raw=True)),
    package=__name__,
)
