"""Addresses and ranges of them in objects, as strictly as they are read since v1.36 (``StrictIPCIDRValidation``).

After apimachinery's ``pkg/util/validation/ip.go`` (v0.36). What can be read, but is ambiguous, is told of as such:
zeros that other programs read as octal numbers, IPv4 inside of IPv6, bits that no mask covers. ``_faults`` are texts,
``_problems`` are errors about a field, which take what an object has had before.
"""

import ipaddress
import re
from collections.abc import Container
from functools import lru_cache

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")
_plain_number = re.compile(r"\d{1,3}")
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_plain = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""Nearly every address that a server sees."""


def sloppy_address(text: str) -> Address | None:
    """The address, also where numbers begin with zeros."""
    try:
        return ipaddress.ip_address(_without_zeros(text))
    except ValueError:
        return None


def sloppy_network(text: str) -> Network | None:
    """The range, also where bits are set that its mask does not cover."""
    address, slash, bits = text.partition("/")
    found = sloppy_address(address)
    if found is None or not slash or _plain_number.fullmatch(bits) is None or "%" in address:
        return None
    try:
        return ipaddress.ip_network((found, int(bits)), strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def address_faults(text: str) -> tuple[str, ...]:
    """Why it is no address; where there are two forms of the same, the one that is not canonical will do."""
    found = sloppy_address(text)
    if found is None or "%" in text:
        return (_NO_ADDRESS,)
    if _without_zeros(text) != text:
        return ("must not have leading 0s",)
    return ("must not be an IPv4-mapped IPv6 address",) if is_mapped(found) else ()


def canonical_address_faults(text: str) -> tuple[str, ...]:
    """The same where only the canonical form will do."""
    faults = address_faults(text)
    if faults or text == str(ipaddress.ip_address(text)):
        return faults
    return (f'must be in canonical form ("{ipaddress.ip_address(text)}")',)


@lru_cache(maxsize=1024)
def network_faults(text: str) -> tuple[str, ...]:
    """Why it is no range of addresses; one fault at most."""
    network = sloppy_network(text)
    if network is None:
        return (_NO_NETWORK,)
    address, _slash, bits = text.partition("/")
    found = sloppy_address(address)
    if _without_zeros(address) != address or (len(bits) > 1 and bits[0] == "0"):
        return ("must not have leading 0s in IP or prefix length",)
    if found is not None and is_mapped(found):
        return ("must not have an IPv4-mapped IPv6 address",)
    if found != network.network_address:
        return ("must not have bits set beyond the prefix length",)
    return ()


def canonical_network_faults(text: str) -> tuple[str, ...]:
    """The same where only the canonical form will do."""
    faults = network_faults(text)
    if faults or text == str(sloppy_network(text)):
        return faults
    return (f'must be in canonical form ("{sloppy_network(text)}")',)


def is_mapped(address: Address) -> bool:
    """Whether it is an IPv4 address inside an IPv6 one."""
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def family_of(text: str) -> int:
    """4 or 6, or 0 for what is no address. An IPv4 address inside an IPv6 one is IPv4."""
    address = None if "%" in text else sloppy_address(text)
    return 0 if address is None else 4 if is_mapped(address) else address.version


def address_problems(text: str, path: str, known: Container[str] = ()) -> list[FieldError]:
    """What is wrong with an address, but for those that were there before."""
    if _plain.fullmatch(text) or text in known:
        return []
    return [errors.invalid_value(path, text, fault) for fault in address_faults(text)]


def range_problems(text: str, path: str, known: Container[str] = ()) -> list[FieldError]:
    """What is wrong with a range of addresses, but for those that were there before."""
    return [] if text in known else [errors.invalid_value(path, text, fault) for fault in network_faults(text)]


def _without_zeros(text: str) -> str:
    """Without the leading zeros of an IPv4 address, which may be the end of an IPv6 one."""
    first, colon, last = text.rpartition(":")
    return first + colon + _zeros.sub("", last) if "." in last else text
