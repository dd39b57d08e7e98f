"""Maintains the EndpointSlices of each Service with a selector, which kube-proxy, DNS and gateways use.

Behaviour: every pod of the service with an address is in exactly one slice of its ports, with whether it is ready,
serving and on its way out; a slice holds no more than ``--max-endpoints-per-slice``; a change rewrites as few slices as
it can and moves no endpoint that may stay. A service without any pod has an empty slice. Slices written by others are
left alone, those that are ours are put right when somebody changes or deletes them. Nothing is decided on a cache that
is older than our own writes.

Not guaranteed: that slices are full. After pods went they stay half empty until others come.

``desired`` has the endpoints, ``decide`` places them in slices, ``hints`` and ``topology_cache`` are for topology.
docs/controllers/endpointslice.md has what enqueues it and where it differs from upstream.
"""

import msgspec

from pilothouse.api.core import NODES, PODS, SERVICES
from pilothouse.api.discovery import ENDPOINT_SLICES
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
        Watch(kind=ENDPOINT_SLICES, keep_raw=True, predicate=is_managed),
    ),
    package=__name__,
)
