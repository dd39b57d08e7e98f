"""``discovery.k8s.io/v1``: EndpointSlices."""

from pilothouse.api.core import ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class EndpointConditions(View, frozen=True):
    """The conditions of an endpoint. ``ready``: serving, and not terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForTopology(View, frozen=True):
    name: str = ""


class EndpointHints(View, frozen=True):
    for_zones: tuple[ForTopology, ...] = ()
    for_nodes: tuple[ForTopology, ...] = ()


class Endpoint(View, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    deprecated_topology: dict[str, str] = {}
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(View, frozen=True):
    name: str | None = None
    protocol: str | None = None
    port: int | None = None
    app_protocol: str | None = None


class PartialEndpointSlice(View, frozen=True):
    """An EndpointSlice without its endpoints, for caches: endpoints need a third of their memory as JSON."""

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""


class EndpointSlice(PartialEndpointSlice, frozen=True):
    """A part of the endpoints of a Service. ``endpoints`` and ``ports`` are null if there are none."""

    endpoints: tuple[Endpoint, ...] | None = ()
    ports: tuple[EndpointPort, ...] | None = ()


ENDPOINT_SLICES = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice)
PARTIAL_ENDPOINT_SLICES = ENDPOINT_SLICES.read_as(PartialEndpointSlice)

LABEL_SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
"""The label of Endpoints that are not to be mirrored."""
