"""IP addresses and CIDRs in objects, with the strictness of v1.36 (``StrictIPCIDRValidation``).

After apimachinery's ``pkg/util/validation/ip.go`` (v0.36). Values that can be parsed but are ambiguous are errors:
leading zeros, which other programs read as octal, IPv4-mapped IPv6 addresses, bits beyond the prefix length.
``…_errors`` return texts; ``validate_…`` return field errors, and accept the values that the old object has;
``warnings_for_…`` return warnings about accepted values.
"""

import ipaddress
import re
from collections.abc import Container, Iterator

from pilothouse.apiserver.field_errors import ErrorList, invalid
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.cidrs import Address, Network, address_text
from pilothouse.machinery.go_text import quote

_INVALID_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_INVALID_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")
_plain_number = re.compile(r"\d{1,3}")
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_plain = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""The usual form of an IPv4 address, which needs no parsing."""


def parse_ip_sloppy(value: str) -> Address | None:
    """Parse an address; its octets may have leading zeros."""
    try:
        return ipaddress.ip_address(_without_zeros(value))
    except ValueError:
        return None


def parse_cidr_sloppy(value: str) -> Network | None:
    """Parse a CIDR; bits beyond the prefix length may be set."""
    address, slash, bits = value.partition("/")
    ip = parse_ip_sloppy(address)
    if ip is None or not slash or _plain_number.fullmatch(bits) is None or "%" in address:
        return None
    try:
        return ipaddress.ip_network((ip, int(bits)), strict=False)
    except ValueError:
        return None


@bounded_cache(8192)
def ip_errors(value: str) -> tuple[str, ...]:
    """The errors in an IP address (``parseIP`` with strict validation); forms that are not canonical are accepted."""
    ip = parse_ip_sloppy(value)
    if ip is None or "%" in value:
        return (_INVALID_IP,)
    if _without_zeros(value) != value:
        return ("must not have leading 0s",)
    return ("must not be an IPv4-mapped IPv6 address",) if is_ipv4_mapped(ip) else ()


def canonical_ip_errors(value: str) -> tuple[str, ...]:
    """The errors in an IP address that must be in canonical form, at most one."""
    errors = ip_errors(value)
    if errors or value == str(ipaddress.ip_address(value)):
        return errors
    return (f'must be in canonical form ("{ipaddress.ip_address(value)}")',)


@bounded_cache(1024)
def cidr_errors(value: str) -> tuple[str, ...]:
    """The errors in a CIDR, at most one; forms that are not canonical are accepted."""
    network = parse_cidr_sloppy(value)
    if network is None:
        return (_INVALID_CIDR,)
    address, _slash, bits = value.partition("/")
    ip = parse_ip_sloppy(address)
    if _without_zeros(address) != address or (len(bits) > 1 and bits[0] == "0"):
        return ("must not have leading 0s in IP or prefix length",)
    if ip is not None and is_ipv4_mapped(ip):
        return ("must not have an IPv4-mapped IPv6 address",)
    if ip != network.network_address:
        return ("must not have bits set beyond the prefix length",)
    return ()


def canonical_cidr_errors(value: str) -> tuple[str, ...]:
    """The errors in a CIDR that must be in canonical form, at most one."""
    errors = cidr_errors(value)
    if errors or value == str(parse_cidr_sloppy(value)):
        return errors
    return (f'must be in canonical form ("{parse_cidr_sloppy(value)}")',)


def is_ipv4_mapped(address: Address) -> bool:
    """Whether ``address`` is an IPv4-mapped IPv6 address."""
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def family_of(value: str) -> int:
    """The IP family of an address: 4 or 6, or 0 if ``value`` is not an address. An IPv4-mapped IPv6 address is IPv4."""
    address = None if "%" in value else parse_ip_sloppy(value)
    return 0 if address is None else 4 if is_ipv4_mapped(address) else address.version


def validate_ip_for_legacy_field(value: str, path: str, valid_old_ips: Container[str] = ()) -> ErrorList:
    if _plain.fullmatch(value) or value in valid_old_ips:
        return []
    return [invalid(path, value, detail) for detail in ip_errors(value)]


def validate_cidr_for_legacy_field(value: str, path: str, valid_old_cidrs: Container[str] = ()) -> ErrorList:
    return [] if value in valid_old_cidrs else [invalid(path, value, detail) for detail in cidr_errors(value)]


def warnings_for_ip(value: str, path: str) -> Iterator[str]:
    """``GetWarningsForIP``."""
    if _plain.fullmatch(value):
        return
    ip = parse_ip_sloppy(value)
    if ip is None:
        return
    if _without_zeros(value) != value or is_ipv4_mapped(ip):
        yield f"{path}: non-standard IP address {quote(value)} is invalid: use {quote(address_text(ip))}"
    elif str(ip) != value:
        yield f"{path}: IPv6 address {quote(value)} should be in RFC 5952 canonical format ({quote(str(ip))})"


def warnings_for_cidr(value: str, path: str) -> Iterator[str]:
    """``GetWarningsForCIDR``."""
    network = parse_cidr_sloppy(value)
    address, _slash, bits = value.partition("/")
    ip = parse_ip_sloppy(address)
    if network is None or ip is None or str(network) == value:
        return
    preferred = quote(_go_network(network))
    is_ambiguous = ip != network.network_address
    if is_ambiguous:
        single = quote(f"{address_text(ip)}/{network.max_prefixlen}")
        yield f"{path}: CIDR value {quote(value)} is ambiguous in this context (should be {preferred} or {single}?)"
    if _without_zeros(address) != address or (len(bits) > 1 and bits[0] == "0") or is_ipv4_mapped(ip):
        yield f"{path}: non-standard CIDR value {quote(value)} is invalid: use {preferred}"
    elif not is_ambiguous:
        yield f"{path}: IPv6 CIDR value {quote(value)} should be in RFC 5952 canonical format ({quote(str(network))})"


def _go_network(network: Network) -> str:
    """``net.IPNet.String``."""
    address = address_text(network.network_address)
    if ":" not in address and network.version == 6:
        return f"{address}/{max(network.prefixlen - 96, 0)}"
    return f"{address}/{network.prefixlen}"


def warnings_for_load_balancer_status(status: Object) -> Iterator[str]:
    """Warnings about the addresses of a load balancer, in the status of Services and Ingresses."""
    for position, ingress in enumerate((status.get("loadBalancer") or {}).get("ingress") or ()):
        if ingress.get("ip"):
            yield from warnings_for_ip(ingress["ip"], f"status.loadBalancer.ingress[{position}]")


def _without_zeros(value: str) -> str:
    """Remove leading zeros from an IPv4 address, or from the IPv4 part at the end of an IPv6 address."""
    head, colon, ipv4 = value.rpartition(":")
    return head + colon + _zeros.sub("", ipv4) if "." in ipv4 else value
