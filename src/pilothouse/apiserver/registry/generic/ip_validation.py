"""IP addresses and CIDRs in objects, with the strictness of v1.36 (``StrictIPCIDRValidation``).

After apimachinery's ``pkg/util/validation/ip.go`` (v0.36). Values that can be parsed but are ambiguous are errors:
leading zeros, which other programs read as octal, IPv4-mapped IPv6 addresses, bits beyond the prefix length.
``…_errors`` return texts; ``validate_…`` return field errors, and accept the values that the old object has.
"""

import ipaddress
import re
from collections.abc import Container

from pilothouse.apiserver.field_errors import ErrorList, invalid
from pilothouse.machinery.bounded_cache import bounded_cache

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_INVALID_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_INVALID_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")
_plain_number = re.compile(r"\d{1,3}")
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_plain = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""The usual form of an IPv4 address, which needs no parsing."""


def parse_ip_sloppy(text: str) -> Address | None:
    """Parse an address; its octets may have leading zeros."""
    try:
        return ipaddress.ip_address(_without_zeros(text))
    except ValueError:
        return None


def parse_cidr_sloppy(text: str) -> Network | None:
    """Parse a CIDR; bits beyond the prefix length may be set."""
    address, slash, bits = text.partition("/")
    found = parse_ip_sloppy(address)
    if found is None or not slash or _plain_number.fullmatch(bits) is None or "%" in address:
        return None
    try:
        return ipaddress.ip_network((found, int(bits)), strict=False)
    except ValueError:
        return None


@bounded_cache(8192)
def ip_errors(text: str) -> tuple[str, ...]:
    """The errors in an IP address (``parseIP`` with strict validation); forms that are not canonical are accepted."""
    found = parse_ip_sloppy(text)
    if found is None or "%" in text:
        return (_INVALID_IP,)
    if _without_zeros(text) != text:
        return ("must not have leading 0s",)
    return ("must not be an IPv4-mapped IPv6 address",) if is_ipv4_mapped(found) else ()


def canonical_ip_errors(text: str) -> tuple[str, ...]:
    """The same, but only the canonical form is accepted."""
    errors = ip_errors(text)
    if errors or text == str(ipaddress.ip_address(text)):
        return errors
    return (f'must be in canonical form ("{ipaddress.ip_address(text)}")',)


@bounded_cache(1024)
def cidr_errors(text: str) -> tuple[str, ...]:
    """The errors in a CIDR, at most one; forms that are not canonical are accepted."""
    network = parse_cidr_sloppy(text)
    if network is None:
        return (_INVALID_CIDR,)
    address, _slash, bits = text.partition("/")
    found = parse_ip_sloppy(address)
    if _without_zeros(address) != address or (len(bits) > 1 and bits[0] == "0"):
        return ("must not have leading 0s in IP or prefix length",)
    if found is not None and is_ipv4_mapped(found):
        return ("must not have an IPv4-mapped IPv6 address",)
    if found != network.network_address:
        return ("must not have bits set beyond the prefix length",)
    return ()


def canonical_cidr_errors(text: str) -> tuple[str, ...]:
    """The same, but only the canonical form is accepted."""
    errors = cidr_errors(text)
    if errors or text == str(parse_cidr_sloppy(text)):
        return errors
    return (f'must be in canonical form ("{parse_cidr_sloppy(text)}")',)


def is_ipv4_mapped(address: Address) -> bool:
    """Whether it is an IPv4-mapped IPv6 address."""
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def family_of(text: str) -> int:
    """4 or 6, or 0 if it is not an address. An IPv4-mapped IPv6 address is IPv4."""
    address = None if "%" in text else parse_ip_sloppy(text)
    return 0 if address is None else 4 if is_ipv4_mapped(address) else address.version


def validate_ip_for_legacy_field(text: str, path: str, known: Container[str] = ()) -> ErrorList:
    if _plain.fullmatch(text) or text in known:
        return []
    return [invalid(path, text, detail) for detail in ip_errors(text)]


def validate_cidr_for_legacy_field(text: str, path: str, known: Container[str] = ()) -> ErrorList:
    return [] if text in known else [invalid(path, text, detail) for detail in cidr_errors(text)]


def _without_zeros(text: str) -> str:
    """Remove leading zeros from an IPv4 address, or from the IPv4 part at the end of an IPv6 address."""
    first, colon, last = text.rpartition(":")
    return first + colon + _zeros.sub("", last) if "." in last else text
