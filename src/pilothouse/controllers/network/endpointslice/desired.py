"""The endpoints of a service in one address family, by the ports that they share. Pure. Upstream: v1.36
``staging/src/k8s.io/endpointslice/utils.go`` (podToEndpoint, getEndpointPorts)."""

from collections.abc import Callable, Iterable

import msgspec

from pilothouse.api.core import Node, ObjectReference, Pod, Service
from pilothouse.api.discovery import Endpoint, EndpointConditions, EndpointPort
from pilothouse.controllers.shared.slices import Identity, PortKey, identity, port_key
from pilothouse.semantics.pods import is_ready
from pilothouse.semantics.services import (
    HEADLESS,
    belongs_in_endpoints,
    canonical_ip,
    has_hostname_in,
    port_of,
)

ZONE_LABEL = "topology.kubernetes.io/zone"


class PortGroup(msgspec.Struct):
    ports: tuple[EndpointPort, ...]
    endpoints: dict[Identity, Endpoint]


class Desired(msgspec.Struct):
    """All groups of one address family, and the pods that were omitted because their node is unknown."""

    groups: dict[PortKey, PortGroup]
    without_node: list[Pod]


def desired_endpoints(
    service: Service, pods: Iterable[Pod], address_type: str, node_of: Callable[[str], Node | None]
) -> Desired:
    """The endpoints of these pods. A pod whose node is not in the cache is omitted, because its zone is unknown, unless
    not-ready addresses are published."""
    desired = Desired({}, [])
    for pod in pods:
        if not belongs_in_endpoints(pod, with_terminating=True):
            continue
        ports = endpoint_ports(service, pod)
        key = port_key(ports)
        group = desired.groups.get(key)
        if group is None:
            group = desired.groups[key] = PortGroup(ports, {})
        node = node_of(pod.spec.node_name)
        if node is None and not service.spec.publish_not_ready_addresses:
            desired.without_node.append(pod)
            continue
        endpoint = endpoint_of(pod, node, service, address_type)
        if endpoint.addresses:
            group.endpoints[identity(endpoint)] = endpoint
    return desired


def endpoint_ports(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """The Service's ports, resolved for this pod. A port that the pod does not have is omitted."""
    if not service.spec.ports and service.spec.cluster_ip == HEADLESS:
        return ()
    resolved = []
    for port in service.spec.ports:
        number = port_of(pod, port)
        if number is not None:
            resolved.append(
                EndpointPort(
                    name=port.name, protocol=port.protocol or "TCP", port=number, app_protocol=port.app_protocol
                )
            )
    return tuple(resolved)


def endpoint_of(pod: Pod, node: Node | None, service: Service, address_type: str) -> Endpoint:
    """One pod as an endpoint; without addresses if it has none of the family."""
    serving = is_ready(pod)
    terminating = pod.metadata.deletion_timestamp is not None
    meta, spec = pod.metadata, pod.spec
    return Endpoint(
        addresses=addresses_of(pod, address_type),
        conditions=EndpointConditions(
            ready=service.spec.publish_not_ready_addresses or (serving and not terminating),
            serving=serving,
            terminating=terminating,
        ),
        hostname=spec.hostname if has_hostname_in(pod, service) else None,
        target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
        node_name=spec.node_name or None,
        zone=(node.metadata.labels.get(ZONE_LABEL) or None) if node is not None else None,
    )


def addresses_of(pod: Pod, address_type: str) -> tuple[str, ...]:
    ips = [canonical_ip(pod_ip.ip) for pod_ip in pod.status.pod_ips]
    return tuple([ip[1] for ip in ips if ip is not None and ip[0] == address_type])
