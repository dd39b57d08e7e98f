"""``ip()`` and ``cidr()`` (k8s.io/apiserver ``pkg/cel/library/{ip,cidr}.go``, v0.36)."""

import ipaddress
import re
from typing import Any

from pilothouse.cel.tagged import CallError, Function, tagged, text_of
from pilothouse.machinery.go_text import quote

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _parse_ip(text: str) -> Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        detail = _address_error(text)
        raise CallError(f"IP Address {quote(text)} parse error during conversion from string: {detail}") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            raise CallError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise CallError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parse_cidr(text: str) -> tuple[Address, Network]:
    address_text, slash, bits = text.rpartition("/")
    try:
        address = ipaddress.ip_address(address_text)
    except ValueError:
        detail = _address_error(address_text) if slash else "no '/'"
        raise _network_error(text, detail) from None
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
        raise _network_error(text, "IPv6 zones cannot be present in a prefix")
    if _BITS.fullmatch(bits) is None:
        raise _network_error(text, f"bad bits after slash: {quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise _network_error(text, "prefix length out of range")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CallError(f"{_CONVERSION}: IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address, ipaddress.ip_network(text, strict=False)


_CONVERSION = "network address parse error during conversion from string"
_BITS = re.compile(r"0|[1-9][0-9]{0,8}")


def _network_error(text: str, detail: str) -> CallError:
    return CallError(f"{_CONVERSION}: {_CONVERSION}: netip.ParsePrefix({quote(text)}): {detail}")


def _address_error(text: str) -> str:
    """Why a text is no address (``netip.ParseAddr``)."""
    first = next((letter for letter in text if letter in ".:%"), "")
    match first:
        case "":
            detail = "unable to parse IP"
        case "%":
            detail = "missing IPv6 address"
        case ".":
            detail = _octets_error(text)
        case _:
            detail = "unable to parse IP"
    return f"ParseAddr({quote(text)}): {detail}"


def _octets_error(text: str) -> str:
    value = digits = dots = 0
    for position, letter in enumerate(text):
        if letter in "0123456789":
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, digits = value * 10 + int(letter), digits + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif letter == ".":
            if position in (0, len(text) - 1) or text[position - 1] == ".":
                return f"IPv4 field must have at least one digit (at {quote(text[position:])})"
            if dots == 3:
                return "IPv4 address too long"
            dots, value, digits = dots + 1, 0, 0
        else:
            return f"unexpected character (at {quote(text[position:])})"
    return "IPv4 address too short"


def _ip(text: str) -> dict[str, Any]:
    return tagged("IP", str(_parse_ip(text)))


def _cidr(text: str) -> dict[str, Any]:
    address, network = _parse_cidr(text)
    return tagged("CIDR", f"{address}/{network.prefixlen}")


def _is(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except CallError:
        return False
    return True


def _address(value: dict[str, Any]) -> Address:
    return _parse_ip(text_of(value))


def _is_global(address: Address) -> bool:
    """Whether it is a global unicast address (``netip.Addr.IsGlobalUnicast``)."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != "255.255.255.255"


def _is_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _contains(value: dict[str, Any], address: Address) -> bool:
    network = _parse_cidr(text_of(value))[1]
    return address.version == network.version and address in network


def _covers(value: dict[str, Any], other: str) -> bool:
    network, other_network = _parse_cidr(text_of(value))[1], _parse_cidr(other)[1]
    if isinstance(network, ipaddress.IPv4Network) and isinstance(other_network, ipaddress.IPv4Network):
        return other_network.subnet_of(network)
    if isinstance(network, ipaddress.IPv6Network) and isinstance(other_network, ipaddress.IPv6Network):
        return other_network.subnet_of(network)
    return False


_I, _C = "kubernetes.IP", "kubernetes.CIDR"
FUNCTIONS = (
    Function("ip", ("string",), _I, _ip, member=False),
    Function("isIP", ("string",), "bool", lambda text: _is(_parse_ip, text), member=False),
    Function("ip.isCanonical", ("string",), "bool", lambda text: str(_parse_ip(text)) == text, member=False),
    Function("string", (_I,), "string", text_of, member=False),
    Function("family", (_I,), "int", lambda value: _address(value).version),
    Function("isUnspecified", (_I,), "bool", lambda value: _address(value).is_unspecified),
    Function("isLoopback", (_I,), "bool", lambda value: _address(value).is_loopback),
    Function("isLinkLocalMulticast", (_I,), "bool", lambda value: _is_local_multicast(_address(value))),
    Function("isLinkLocalUnicast", (_I,), "bool", lambda value: _address(value).is_link_local),
    Function("isGlobalUnicast", (_I,), "bool", lambda value: _is_global(_address(value))),
    Function("cidr", ("string",), _C, _cidr, member=False),
    Function("isCIDR", ("string",), "bool", lambda text: _is(_parse_cidr, text), member=False),
    Function("string", (_C,), "string", text_of, member=False),
    Function("containsIP", (_C, _I), "bool", lambda value, ip: _contains(value, _address(ip))),
    Function("containsIP", (_C, "string"), "bool", lambda value, ip: _contains(value, _parse_ip(ip))),
    Function("containsCIDR", (_C, _C), "bool", lambda value, other: _covers(value, text_of(other))),
    Function("containsCIDR", (_C, "string"), "bool", _covers),
    Function("ip", (_C,), _I, lambda value: tagged("IP", str(_parse_cidr(text_of(value))[0]))),
    Function("masked", (_C,), _C, lambda value: tagged("CIDR", str(_parse_cidr(text_of(value))[1]))),
    Function("prefixLength", (_C,), "int", lambda value: _parse_cidr(text_of(value))[1].prefixlen),
)
