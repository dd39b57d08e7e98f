"""Determines the service IP range of a snapshot. Pure."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_DEFAULT = "kubernetes"
_WIDEST = {4: 16, 6: 112}
"""The minimum size (prefix length) of an unknown range."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def service_range_of(services: Iterable[Mapping[str, Any]], ranges: Sequence[Mapping[str, Any]]) -> str:
    """The service IP range of the cluster: its default ServiceCIDR (v1.33 and later), otherwise the smallest range with
    all cluster IPs; one for each family, that of the service ``kubernetes`` first. Empty if there are no cluster
    IPs."""
    for range_ in ranges:
        if range_["metadata"].get("name") == _DEFAULT:
            cidrs = (range_.get("spec") or {}).get("cidrs") or ()
            if cidrs and all(_network(cidr) is not None for cidr in cidrs):
                return ",".join(cidrs)
    ranges_by_family: dict[int, list[Address]] = {}
    # The sort is stable, and the API server's own Service determines the first family.
    for service in sorted(services, key=lambda service_range: service_range["metadata"].get("name") != _DEFAULT):
        spec = service["spec"]
        for text in spec.get("clusterIPs") or [spec.get("clusterIP") or ""]:
            address = _address(text)
            if address is not None:
                ranges_by_family.setdefault(address.version, []).append(address)
    return ",".join(str(_covering(addresses)) for addresses in ranges_by_family.values())


def _covering(addresses: Sequence[Address]) -> Network:
    first, last = min(addresses, key=int), max(addresses, key=int)
    length = first.max_prefixlen - (int(first) ^ int(last)).bit_length()
    return ipaddress.ip_network(f"{first}/{min(length, _WIDEST[first.version])}", strict=False)


def _network(text: Any) -> Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def _address(text: Any) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
