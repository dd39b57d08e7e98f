"""Labels of slices, and the identity of endpoints. Pure; for both controllers of slices.

Upstream: v1.36 ``staging/src/k8s.io/endpointslice/util`` (``endpointset.go``, ``controller_utils.go``).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from pilothouse.api.discovery import Endpoint, EndpointPort, PartialEndpointSlice

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"

Identity = tuple[tuple[str, ...], str, str, str]
PortKey = tuple[tuple[str, int, str, str], ...]


def identity(endpoint: Endpoint) -> Identity:
    """Equal for the same endpoint: addresses, hostname, and target."""
    target = endpoint.target_ref
    namespace, name = (target.namespace, target.name) if target is not None else ("", "")
    return (tuple(sorted(endpoint.addresses)), endpoint.hostname or "", namespace, name)


def port_key(ports: Iterable[EndpointPort]) -> PortKey:
    """Equal for the same ports in whatever order."""
    return tuple(
        sorted((port.name or "", port.port or 0, port.protocol or "TCP", port.app_protocol or "") for port in ports)
    )


def endpoints_equal(a: Endpoint, b: Endpoint) -> bool:
    """Equality of endpoints that are the same one (``EndpointsEqualBeyondHash``). Hints are not compared."""
    if a.conditions != b.conditions or a.node_name != b.node_name or a.zone != b.zone:
        return False
    if a.target_ref is None or b.target_ref is None:
        return a.target_ref is b.target_ref
    return replace(a.target_ref, resource_version="") == replace(b.target_ref, resource_version="")


def service_key_of(endpoint_slice: PartialEndpointSlice) -> str:
    """The key of the slice's service; empty if it has none."""
    name = endpoint_slice.metadata.labels.get(SERVICE_NAME, "")
    return f"{endpoint_slice.metadata.namespace}/{name}" if name else ""


def manager_of(endpoint_slice: PartialEndpointSlice) -> str:
    """The controller that manages the slice, or nothing."""
    return endpoint_slice.metadata.labels.get(MANAGED_BY, "")


def is_managed(endpoint_slice: PartialEndpointSlice) -> bool:
    """Whether the slice has a label of a manager."""
    return MANAGED_BY in endpoint_slice.metadata.labels
