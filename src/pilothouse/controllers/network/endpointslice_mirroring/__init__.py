"""Mirrors Endpoints that users write for Services without selector to EndpointSlices, because kube-proxy, DNS
and gateways only read slices.

Behaviour: while there is a service of the same name without a selector, each subset has one slice per address family,
with its addresses, readiness, labels and annotations, as many addresses as ``--mirroring-max-endpoints-per-subset``
says; a slice that somebody changes or deletes is put right. When the service, the Endpoints or their right to be
mirrored go, so do the slices. Slices of others are never touched. Nothing is decided on a cache that is older than our
own writes.

Not guaranteed: that no other program has slices of the same service. Who writes Endpoints and slices says so with the
label ``endpointslice.kubernetes.io/skip-mirror``.

docs/controllers/endpointslice_mirroring.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.core import ENDPOINTS, SERVICES
from pilothouse.api.discovery import ENDPOINT_SLICES, LABEL_SKIP_MIRROR
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.controllers.shared.slices import is_managed
from pilothouse.machinery.flags import DURATION, INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch


class MirroringOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 5
    max_endpoints: int = 1000
    """Of one subset."""
    batch_seconds: float = 0.0
    """How long changes of slices are batched before the Endpoints are synced."""


DESCRIPTOR = Descriptor(
    name="endpointslice-mirroring-controller",
    aliases=("endpointslicemirroring",),
    client_name="endpointslicemirroring-controller",
    options=MirroringOptions,
    flags=(
        flag_spec(
            "workers",
            "mirroring-concurrent-service-endpoint-syncs",
            INT32,
            5,
            "The number of service endpoint syncing operations that will be done concurrently by the "
            "endpointslice-mirroring-controller. Larger number = faster endpoint slice updating, but more CPU "
            "(and network) load.",
        ),
        flag_spec(
            "batch_seconds",
            "mirroring-endpointslice-updates-batch-period",
            DURATION,
            0.0,
            "The length of EndpointSlice updates batching period for endpointslice-mirroring-controller. "
            "Processing of EndpointSlice changes will be delayed by this duration to join them with potential "
            "upcoming updates and reduce the overall number of EndpointSlice updates. Larger number = higher "
            "endpoint programming latency, but lower number of endpoints revision generated",
        ),
        flag_spec(
            "max_endpoints",
            "mirroring-max-endpoints-per-subset",
            INT32,
            1000,
            "The maximum number of endpoints that will be added to an EndpointSlice by the "
            "endpointslice-mirroring-controller. More endpoints per slice will result in less endpoint slices, "
            "but larger resources.",
        ),
    ),
    watches=(
        Watch(kind=ENDPOINTS, predicate=lambda endpoints: endpoints.metadata.labels.get(LABEL_SKIP_MIRROR) != "true"),
        Watch(kind=ENDPOINT_SLICES, predicate=is_managed),
        Watch(kind=SERVICES),
    ),
    package=__name__,
)
