"""Mirrors Endpoints that users write for Services without selector to EndpointSlices, because kube-proxy, DNS
and gateways only read slices.

Behaviour: if there is a Service with the same name and without a selector, each subset has one slice per address
family, with its addresses, readiness, labels and annotations, up to ``--mirroring-max-endpoints-per-subset`` addresses;
a slice that somebody changes or deletes is corrected. When the Service or the Endpoints are deleted, or are not to be
mirrored any more, the slices are deleted. Slices of other managers are never changed. Nothing is decided while the
cache is older than the controller's own writes.

Not guaranteed: that no other program writes slices for the same Service. A program that writes both Endpoints and
slices must set the label ``endpointslice.kubernetes.io/skip-mirror``.

docs/controllers/endpointslice_mirroring.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.core import PARTIAL_ENDPOINTS, SERVICES
from pilothouse.api.discovery import LABEL_SKIP_MIRROR, PARTIAL_ENDPOINT_SLICES
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
        Watch(
            kind=PARTIAL_ENDPOINTS,
            keep_raw=True,
            predicate=lambda endpoints: endpoints.metadata.labels.get(LABEL_SKIP_MIRROR) != "true",
        ),
        Watch(kind=PARTIAL_ENDPOINT_SLICES, keep_raw=True, predicate=is_managed),
        Watch(kind=SERVICES),
    ),
    package=__name__,
)
