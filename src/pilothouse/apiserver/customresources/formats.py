"""The string formats that schemas of custom resources may ask for. Unknown ones accept everything, as upstream's do."""

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable

from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors
from pilothouse.machinery.times import TimeError, parse_time

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?([0-9a-f])[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_MAC = re.compile(r"(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*|/\S*")
_HEX_COLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


def _is_ip(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except TimeError:
        return False
    return True


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except DurationError:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": _is_base64,
    "cidr": _is_cidr,
    "date": _is_date,
    "date-time": _is_time,
    "datetime": _is_time,
    "duration": _is_duration,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hexcolor": lambda text: _HEX_COLOR.fullmatch(text) is not None,
    "hostname": lambda text: not dns_subdomain_errors(text.lower()),
    "ipv4": lambda text: _is_ip(text, 4),
    "ipv6": lambda text: _is_ip(text, 6),
    "k8s-long-name": lambda text: not dns_subdomain_errors(text),
    "k8s-short-name": lambda text: not dns_label_errors(text),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": lambda text: _URI.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
