"""The string formats in schemas of custom resources. Unknown ones accept everything, as upstream.

After kube-openapi's ``pkg/validation/strfmt`` and the functions of govalidator that it uses. Expressions are compiled
at their first use: together they take ten milliseconds, and few servers need them.
"""

import base64
import binascii
import datetime
import ipaddress
import re
from collections.abc import Callable
from functools import cache

from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

_HEX12 = "[0-9a-f]{12}"
_MAC = (
    r"(?i)(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?"
    r"|(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}(?:(?:\.[0-9a-f]{4})|(?:\.[0-9a-f]{4}){7})?"
)
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]+"
_ADDRESS = rf"{_ATOM}(?:\.{_ATOM})*@{_ATOM}(?:\.{_ATOM})*"
_NAMED_ADDRESS = r"[^<>@]*<([^<>]*)>"
_URI = r"[A-Za-z][A-Za-z0-9+.-]*:\S*|/\S*"
_HOST = r"(?:[^\W_](?:(?:[^\W_]|-){0,61}[^\W_])?\.)+[^\W\d_]{2,63}|[^\W_](?:-?[^\W_]{0,62})?"
_CARD = (
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|222[1-9]\d{12}|22[3-9]\d{13}|2[3-6]\d{14}|27[01]\d{13}|2720\d{12}|6(?:011|5\d\d)\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}|6[27]\d{14}"
)
_CHANNEL = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_RGB = rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)"
_SPAN = r"([0-9]+)\s*([A-Za-zµ]+)"
_SPANS = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_CLOCK = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"


_compiled = cache(re.compile)


def _fullmatch(pattern: str, text: str) -> "re.Match[str] | None":
    match: re.Match[str] | None = _compiled(pattern).fullmatch(text)
    return match


def _matches(pattern: str) -> Callable[[str], bool]:
    return lambda text: _fullmatch(pattern, text) is not None


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
    """A date and a time of day with its zone; the letters between them may be in lower case."""
    date, _t, clock = text.lower().partition("t")
    match = _fullmatch(_CLOCK, clock.partition("t")[0])
    return _is_date(date) and match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _is_duration(text: str) -> bool:
    """Go's durations, or anything with a number and a unit word in it: ``3 weeks``, ``P1D``."""
    try:
        parse_duration(text)
    except DurationError:
        spans = _compiled(_SPAN).findall(text)
        return all(int(number) < 1 << 63 for number, _unit in spans) and any(_is_unit(unit) for _number, unit in spans)
    return True


def _is_unit(text: str) -> bool:
    unit = text.lower()
    return any(unit in words or unit.startswith(words[-1]) for words in _SPANS)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _is_hostname(text: str) -> bool:
    labels = text.split(".")
    return len(text) <= 255 and all(len(label) <= 63 for label in labels) and _fullmatch(_HOST, text) is not None


def _is_email(text: str) -> bool:
    named = _fullmatch(_NAMED_ADDRESS, text.strip())
    return _fullmatch(_ADDRESS, named[1] if named is not None else text) is not None


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch(r"\d{9}[\dX]", digits) is None:
        return False
    return sum((position + 1) * (10 if digit == "X" else int(digit)) for position, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch(r"\d{13}", digits) is None:
        return False
    return sum((3 if position % 2 else 1) * int(digit) for position, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if _fullmatch(_CARD, digits) is None:
        return False
    total = 0
    for position, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (2 if position % 2 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _uuid(kind: str, variant: str) -> Callable[[str], bool]:
    tail = f"{variant}[0-9a-f]{{3}}"
    return _matches(
        rf"(?i)[0-9a-f]{{8}}-[0-9a-f]{{4}}-{kind}[0-9a-f]{{3}}-{tail}-{_HEX12}|{_HEX12}{kind}[0-9a-f]{{3}}{tail}{_HEX12}"
    )


FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": _is_base64,
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "date-time": _is_time,
    "datetime": _is_time,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": _is_hostname,
    "ipv4": lambda text: _is_ip(text, 4),
    "ipv6": lambda text: _is_ip(text, 6),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8s-long-name": lambda text: not dns_subdomain_errors(text),
    "k8s-short-name": lambda text: not dns_label_errors(text),
    "mac": _matches(_MAC),
    "rgbcolor": _matches(_RGB),
    "ssn": lambda text: len(text) == 11 and re.fullmatch(r"\d{3}[- ]?\d{2}[- ]?\d{4}", text) is not None,
    "uri": _matches(_URI),
    "uuid": _uuid("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _uuid("3", "[0-9a-f]"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
