"""Which ranges overlap or contain an address, and whether one may be deleted. Pure. Upstream: v1.36
``pkg/controller/servicecidrs/servicecidrs_controller.go`` and ``pkg/api/servicecidr/servicecidr.go``."""

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

from pilothouse.api.networking import IPAddress, ServiceCIDR
from pilothouse.machinery.cidrs import Address, Network, contains, parse_cidr, prefix_contains_ip, prefixes_overlap

MANAGED_BY = "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
FAMILY = "ipaddress.kubernetes.io/ip-family"

_parse = lru_cache(maxsize=1024)(parse_cidr)


def networks_of(cidr: ServiceCIDR) -> list[Network]:
    """Its ranges; the API server has validated them."""
    return [_parse(text) for text in cidr.spec.cidrs]


def address_of(ip_address: IPAddress) -> Address | None:
    """The address of the object, if an API server allocated it for a service."""
    if ip_address.metadata.labels.get(MANAGED_BY) != MANAGER:
        return None
    try:
        return ipaddress.ip_address(ip_address.metadata.name)
    except ValueError:
        return None  # the API server rejects them


def overlapping_service_cidrs(cidr: ServiceCIDR, all_cidrs: Iterable[ServiceCIDR]) -> list[str]:
    """The names of those that share an address with it, itself included if it is among them."""
    networks = networks_of(cidr)
    return [
        service_cidr.metadata.name
        for service_cidr in all_cidrs
        if any(prefixes_overlap(covered, network) for covered in networks_of(service_cidr) for network in networks)
    ]


def containing_service_cidrs(address: Address, all_cidrs: Iterable[ServiceCIDR]) -> list[ServiceCIDR]:
    """Those that contain the address."""
    return [cidr for cidr in all_cidrs if any(prefix_contains_ip(network, address) for network in networks_of(cidr))]


def is_deleting(cidr: ServiceCIDR) -> bool:
    """Whether it is being deleted: no address is allocated from it any more."""
    return cidr.metadata.deletion_timestamp is not None


def has_finalizer(cidr: ServiceCIDR) -> bool:
    return FINALIZER in cidr.metadata.finalizers


def is_contained(cidr: ServiceCIDR, all_cidrs: Iterable[ServiceCIDR]) -> bool:
    covering = [network for service_cidr in _others(cidr, all_cidrs) for network in networks_of(service_cidr)]
    return all(any(contains(network, network_of_cidr) for network in covering) for network_of_cidr in networks_of(cidr))


def orphaned_address(cidr: ServiceCIDR, all_cidrs: Sequence[ServiceCIDR], addresses: Iterable[IPAddress]) -> str:
    """An address that no other ServiceCIDR contains; empty if it may be deleted."""
    if is_contained(cidr, all_cidrs):
        return ""
    others = _others(cidr, all_cidrs)
    families = {f"IPv{network.version}" for network in networks_of(cidr)}
    for ip_address in addresses:
        address = address_of(ip_address)
        if address is None or ip_address.metadata.labels.get(FAMILY) not in families:
            continue
        if containing_service_cidrs(address, (cidr,)) and not containing_service_cidrs(address, others):
            return ip_address.metadata.name
    return ""


def _others(cidr: ServiceCIDR, all_cidrs: Iterable[ServiceCIDR]) -> list[ServiceCIDR]:
    """Those that may contain others: not those that are being deleted, because two deleted at once would rely on each
    other, nor those without the finalizer, which may be deleted at any moment. Upstream counts both."""
    return [
        service_cidr
        for service_cidr in all_cidrs
        if service_cidr.metadata.name != cidr.metadata.name
        and not is_deleting(service_cidr)
        and has_finalizer(service_cidr)
    ]
