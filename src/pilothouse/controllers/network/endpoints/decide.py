"""The desired Endpoints of a Service. Pure.

Upstream: v1.36 ``pkg/controller/endpoint/endpoints_controller.go``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from pilothouse.api.core import (
    EndpointAddress,
    Endpoints,
    EndpointsPort,
    EndpointSubset,
    ObjectReference,
    Pod,
    Service,
)
from pilothouse.semantics.pods import is_ready
from pilothouse.semantics.services import (
    HEADLESS,
    HEADLESS_LABEL,
    TRIGGER_TIME,
    belongs_in_endpoints,
    canonical_ip,
    has_cluster_ip,
    has_hostname_in,
    port_of,
)
from pilothouse.semantics.subsets import Subsets, repack

MANAGED_BY = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
TRUNCATED = "truncated"
CAPACITY = 1000


class DesiredEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    subsets: Subsets
    labels: Mapping[str, str]
    truncated: bool


def desired_endpoints(service: Service, pods: Iterable[Pod]) -> DesiredEndpoints:
    """Subsets in canonical order, truncated to the maximum."""
    subsets, truncated = truncate(repack(_subsets(service, pods)))
    labels = {**service.metadata.labels, MANAGED_BY: MANAGER}
    labels.pop(HEADLESS_LABEL, None)
    if not has_cluster_ip(service):
        labels[HEADLESS_LABEL] = ""
    return DesiredEndpoints(subsets=subsets, labels=labels, truncated=truncated)


def _subsets(service: Service, pods: Iterable[Pod]) -> list[EndpointSubset]:
    """One subset for each pod and port, before ``repack``."""
    subsets: list[EndpointSubset] = []
    publish_not_ready = service.spec.publish_not_ready_addresses
    for pod in pods:
        if not belongs_in_endpoints(pod, with_terminating=publish_not_ready):
            continue
        address = address_of(service, pod)
        if address is None:
            continue
        ready, not_ready = ((address,), ()) if publish_not_ready or is_ready(pod) else ((), (address,))
        if not service.spec.ports:
            if service.spec.cluster_ip == HEADLESS:
                subsets.append(EndpointSubset(addresses=ready, not_ready_addresses=not_ready))
            continue
        for port in service.spec.ports:
            number = port_of(pod, port)
            if number is not None:
                endpoint_port = EndpointsPort(
                    name=port.name, port=number, protocol=port.protocol or "TCP", app_protocol=port.app_protocol
                )
                subsets.append(EndpointSubset(addresses=ready, not_ready_addresses=not_ready, ports=(endpoint_port,)))
    return subsets


def address_of(service: Service, pod: Pod) -> EndpointAddress | None:
    """The pod's address in the Service's IP family; ``None`` if it has none (``podToEndpointAddressForService``)."""
    family = _family(service, pod)
    for pod_ip in pod.status.pod_ips:
        ip = canonical_ip(pod_ip.ip)
        if ip is not None and ip[0] == family:
            meta = pod.metadata
            return EndpointAddress(
                ip=ip[1],
                hostname=pod.spec.hostname if has_hostname_in(pod, service) else "",
                # v1.36.2 sends an empty one for a pod without a node, and the API server rejects all Endpoints of the
                # Service.
                node_name=pod.spec.node_name or None,
                target_ref=ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid),
            )
    return None


def _family(service: Service, pod: Pod) -> str:
    spec = service.spec
    if spec.ip_families:
        return spec.ip_families[0]
    ip = canonical_ip(spec.cluster_ip if has_cluster_ip(service) else pod.status.pod_ip)
    return ip[0] if ip is not None else "IPv4"


def truncate(subsets: Subsets, capacity: int = CAPACITY) -> tuple[Subsets, bool]:
    """At most ``capacity`` addresses, and whether some were removed (``truncateEndpoints``).

    Addresses are removed from each subset in proportion, rounded up. Ready addresses are only removed if they alone are
    too many, and then no not-ready ones remain.
    """
    ready = sum(len(subset.addresses) for subset in subsets)
    not_ready = sum(len(subset.not_ready_addresses) for subset in subsets)
    if ready + not_ready <= capacity:
        return subsets, False
    cut_ready = ready > capacity
    limit, total = (capacity, ready) if cut_ready else (capacity - ready, not_ready)
    remaining = limit
    truncated_subsets: list[EndpointSubset] = []
    for subset in subsets:
        addresses = subset.addresses if cut_ready else subset.not_ready_addresses
        share = addresses[: min(remaining, math.ceil(len(addresses) / total * limit))]
        remaining -= len(share)
        if cut_ready:
            truncated_subsets.append(replace(subset, addresses=share, not_ready_addresses=()))
        else:
            truncated_subsets.append(replace(subset, not_ready_addresses=share))
    return tuple(truncated_subsets), True


def endpoint_subsets_equal_ignore_trigger_time(existing: Endpoints, desired: DesiredEndpoints) -> bool:
    """Whether no write is needed. The last-change-trigger-time of pods is not compared."""
    labels = {name: value for name, value in existing.metadata.labels.items() if name != HEADLESS_LABEL}
    desired_labels = {name: value for name, value in desired.labels.items() if name != HEADLESS_LABEL}
    return (
        labels == desired_labels
        and existing.metadata.annotations.get(OVER_CAPACITY) == (TRUNCATED if desired.truncated else None)
        and repack(map(_without_resource_versions, existing.subsets)) == repack(desired.subsets)
    )


def _without_resource_versions(subset: EndpointSubset) -> EndpointSubset:
    return replace(
        subset,
        addresses=_without_resource_version(subset.addresses),
        not_ready_addresses=_without_resource_version(subset.not_ready_addresses),
    )


def _without_resource_version(addresses: Sequence[EndpointAddress]) -> tuple[EndpointAddress, ...]:
    return tuple(
        replace(address, target_ref=replace(address.target_ref, resource_version=""))
        if address.target_ref is not None and address.target_ref.resource_version
        else address
        for address in addresses
    )


def annotations_of(existing: Mapping[str, str], desired: DesiredEndpoints, trigger_time: str) -> dict[str, str]:
    """The existing annotations with the trigger time and over-capacity set."""
    annotations = {name: value for name, value in existing.items() if name not in (TRIGGER_TIME, OVER_CAPACITY)}
    if trigger_time:
        annotations[TRIGGER_TIME] = trigger_time
    if desired.truncated:
        annotations[OVER_CAPACITY] = TRUNCATED
    return annotations
