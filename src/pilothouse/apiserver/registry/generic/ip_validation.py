"""Addresses and ranges of them in objects, as strictly as they are read since v1.36 (``StrictIPCIDRValidation``).

After apimachinery's ``pkg/util/validation/ip.go`` (v0.36). What can be read, but is ambiguous, is reported as such:
zeros that other programs read as octal numbers, IPv4 inside of IPv6, bits that no mask covers. ``…_errors`` are texts,
``validate_…`` return errors about a field, and take what an object has had before.
"""

import ipaddress
import re
from collections.abc import Container

from pilothouse.apiserver.field_errors import ErrorList, invalid
from pilothouse.machinery.remembered import remembered

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")
_plain_number = re.compile(r"\d{1,3}")
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_plain = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""Nearly every address that a server sees."""


def parse_ip_sloppy(text: str) -> Address | None:
    """The address, also where numbers begin with zeros."""
    try:
        return ipaddress.ip_address(_without_zeros(text))
    except ValueError:
        return None


def parse_cidr_sloppy(text: str) -> Network | None:
    """The range, also where bits are set that its mask does not cover."""
    address, slash, bits = text.partition("/")
    found = parse_ip_sloppy(address)
    if found is None or not slash or _plain_number.fullmatch(bits) is None or "%" in address:
        return None
    try:
        return ipaddress.ip_network((found, int(bits)), strict=False)
    except ValueError:
        return None


@remembered(8192)
def ip_errors(text: str) -> tuple[str, ...]:
    """Why it is no address; where there are two forms of the same, the one that is not canonical will do."""
    found = parse_ip_sloppy(text)
    if found is None or "%" in text:
        return (_NO_ADDRESS,)
    if _without_zeros(text) != text:
        return ("must not have leading 0s",)
    return ("must not be an IPv4-mapped IPv6 address",) if is_mapped(found) else ()


def canonical_ip_errors(text: str) -> tuple[str, ...]:
    """The same where only the canonical form will do."""
    errors = ip_errors(text)
    if errors or text == str(ipaddress.ip_address(text)):
        return errors
    return (f'must be in canonical form ("{ipaddress.ip_address(text)}")',)


@remembered(1024)
def cidr_errors(text: str) -> tuple[str, ...]:
    """Why it is no CIDR; one error at most."""
    network = parse_cidr_sloppy(text)
    if network is None:
        return (_NO_NETWORK,)
    address, _slash, bits = text.partition("/")
    found = parse_ip_sloppy(address)
    if _without_zeros(address) != address or (len(bits) > 1 and bits[0] == "0"):
        return ("must not have leading 0s in IP or prefix length",)
    if found is not None and is_mapped(found):
        return ("must not have an IPv4-mapped IPv6 address",)
    if found != network.network_address:
        return ("must not have bits set beyond the prefix length",)
    return ()


def canonical_cidr_errors(text: str) -> tuple[str, ...]:
    """The same where only the canonical form will do."""
    errors = cidr_errors(text)
    if errors or text == str(parse_cidr_sloppy(text)):
        return errors
    return (f'must be in canonical form ("{parse_cidr_sloppy(text)}")',)


def is_mapped(address: Address) -> bool:
    """Whether it is an IPv4 address inside an IPv6 one."""
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def family_of(text: str) -> int:
    """4 or 6, or 0 for what is no address. An IPv4 address inside an IPv6 one is IPv4."""
    address = None if "%" in text else parse_ip_sloppy(text)
    return 0 if address is None else 4 if is_mapped(address) else address.version


def validate_ip_for_legacy_field(text: str, path: str, known: Container[str] = ()) -> ErrorList:
    if _plain.fullmatch(text) or text in known:
        return []
    return [invalid(path, text, detail) for detail in ip_errors(text)]


def validate_cidr_for_legacy_field(text: str, path: str, known: Container[str] = ()) -> ErrorList:
    return [] if text in known else [invalid(path, text, detail) for detail in cidr_errors(text)]


def _without_zeros(text: str) -> str:
    """Without the leading zeros of an IPv4 address, which may be the end of an IPv6 one."""
    first, colon, last = text.rpartition(":")
    return first + colon + _zeros.sub("", last) if "." in last else text
