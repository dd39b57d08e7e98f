"""Addresses and ranges of addresses as objects have them, judged with field paths; what an object has had before stays
right (apimachinery ``pkg/util/validation/ip.go``, v0.36)."""

import re
from collections.abc import Container

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.strategies.network_forms import address_faults, is_mapped, network_faults, sloppy_address

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_plain = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}", re.ASCII)
"""Nearly every address that a server sees."""


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
