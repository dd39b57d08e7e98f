"""What the cluster IPs of a snapshot are of. Pure."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_DEFAULT = "kubernetes"
_WIDEST = {4: 16, 6: 112}
"""A range that is not known is taken to be at least so large."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def service_range_of(services: Iterable[Mapping[str, Any]], ranges: Sequence[Mapping[str, Any]]) -> str:
    """The range of the API server that the Services are of: the ServiceCIDR that it made (v1.33 and later), or the
    smallest one that has all their addresses; of each family one, that of the service ``kubernetes`` first. Empty if
    there are no addresses."""
    for range_ in ranges:
        if range_["metadata"].get("name") == _DEFAULT:
            cidrs = (range_.get("spec") or {}).get("cidrs") or ()
            if cidrs and all(_network(cidr) is not None for cidr in cidrs):
                return ",".join(cidrs)
    found: dict[int, list[Address]] = {}
    # Stable, and the service of the API server itself says which family comes first.
    for service in sorted(services, key=lambda each: each["metadata"].get("name") != _DEFAULT):
        spec = service["spec"]
        for text in spec.get("clusterIPs") or [spec.get("clusterIP") or ""]:
            address = _address(text)
            if address is not None:
                found.setdefault(address.version, []).append(address)
    return ",".join(str(_covering(addresses)) for addresses in found.values())


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
