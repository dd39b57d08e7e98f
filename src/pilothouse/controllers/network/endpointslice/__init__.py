"""Maintains the EndpointSlices of each Service with a selector, which kube-proxy, DNS and gateways use.

Behaviour: every selected pod with an address is in exactly one slice with its ports, with the conditions ready, serving
and terminating; a slice has at most ``--max-endpoints-per-slice`` endpoints; a change writes as few slices as possible
and moves no endpoint unnecessarily. A Service without pods has an empty slice. Slices of other managers are not
changed; own slices that somebody changes or deletes are corrected. Nothing is decided while the cache is older than the
controller's own writes.

Not guaranteed: that slices are full. After pods were deleted they stay partly empty until others are added.

``desired`` computes the endpoints, ``decide`` assigns them to slices, ``hints`` and ``topology_cache`` are for
topology. docs/controllers/endpointslice.md has the triggers and the differences from upstream.
"""

import msgspec

from pilothouse.api.core import NODES, PODS, SERVICES
from pilothouse.api.discovery import PARTIAL_ENDPOINT_SLICES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.shared.slices import is_managed
from pilothouse.machinery.flags import DURATION, INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch


class EndpointSliceOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 5
    max_endpoints: int = 100
    """In one slice."""
    batch_seconds: float = 0.0
    """How long changes of pods are batched before a service is synced."""


DESCRIPTOR = Descriptor(
    name="endpointslice-controller",
    aliases=("endpointslice",),
    client_name="endpointslice-controller",
    options=EndpointSliceOptions,
    flags=(
        flag_spec(
            "workers",
            "concurrent-service-endpoint-syncs",
            INT32,
            5,
            "The number of service endpoint syncing operations that will be done concurrently. Larger number = "
            "faster endpoint slice updating, but more CPU (and network) load.",
        ),
        flag_spec(
            "batch_seconds",
            "endpointslice-updates-batch-period",
            DURATION,
            0.0,
            "The length of endpoint slice updates batching period. Processing of pod changes will be delayed by "
            "this duration to join them with potential upcoming updates and reduce the overall number of "
            "endpoints updates. Larger number = higher endpoint programming latency, but lower number of "
            "endpoints revision generated",
        ),
        flag_spec(
            "max_endpoints",
            "max-endpoints-per-slice",
            INT32,
            100,
            "The maximum number of endpoints that will be added to an EndpointSlice. More endpoints per slice "
            "will result in less endpoint slices, but larger resources.",
        ),
    ),
    watches=(
        Watch(kind=SERVICES, predicate=lambda service: bool(service.spec.selector)),
        Watch(kind=PODS),
        Watch(kind=NODES),
        Watch(kind=PARTIAL_ENDPOINT_SLICES, keep_raw=True, predicate=is_managed),
    ),
    package=__name__,
)
