"""IP addresses and ranges as in flags and objects: ``10.0.0.0/16``, ``2001:db8::/48``."""

import ipaddress
import re

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_leading_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")


def parse_cidr(text: str) -> Network:
    """The range of ``text``: host bits are cleared, ``10.1.2.3/16`` is ``10.1.0.0/16``.

    As Go's ``ParseCIDRSloppy`` (k8s.io/utils/net): an address and a prefix length; leading zeros of an IPv4 address are
    ignored. Raises ``ValueError``.
    """
    address, slash, length = text.partition("/")
    if not (slash and length.isascii() and length.isdigit()) or "%" in address:
        raise ValueError(f"invalid CIDR address: {text}")
    if ":" not in address:
        address = _leading_zeros.sub("", address)
    try:
        return ipaddress.ip_network(f"{address}/{length}", strict=False)
    except ValueError:
        raise ValueError(f"invalid CIDR address: {text}") from None


def address_text(address: Address) -> str:
    """Go's text of an address (``net.IP.String``): an IPv4-mapped one is IPv4. Python's depends on its version."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(address if mapped is None else mapped)


def prefixes_overlap(a: Network, b: Network) -> bool:
    """Whether the ranges overlap. Never for different IP families."""
    if a.version != b.version:
        return False
    free_bits = a.max_prefixlen - min(a.prefixlen, b.prefixlen)
    return int(a.network_address) >> free_bits == int(b.network_address) >> free_bits


def contains(outer: Network, inner: Network) -> bool:
    return outer.prefixlen <= inner.prefixlen and prefixes_overlap(outer, inner)


def prefix_contains_ip(network: Network, address: Address) -> bool:
    """Whether Services can get this address of the range: not the first one and, for IPv4, not the last.

    Upstream: v1.36 ``pkg/api/servicecidr/servicecidr.go`` (``PrefixContainsIP``).
    """
    if address.version != network.version or address not in network or address == network.network_address:
        return False
    return network.version == 6 or address != network.broadcast_address
