"""The values of YAML scalars, as in go-yaml (``go.yaml.in/yaml/v2`` ``resolve.go``, of Kubernetes v1.36).

It differs from YAML 1.1: no numbers in base 60, and dates are strings.
"""

import base64
import binascii
import math
import re
import struct
from typing import Any

from pilothouse.machinery.go_text import print_value, quote

_LONG = "tag:yaml.org,2002:"
_STRING, _BINARY = f"{_LONG}str", f"{_LONG}binary"
_RESOLVABLE = frozenset(_LONG + name for name in ("str", "bool", "int", "float", "null", "timestamp"))

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_HINTS = frozenset("+-.0123456789yYnNtTfFoO~")
"""The first characters of scalars that may be other than strings."""

_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[Tt ].*)?", re.ASCII)


_FROM_EXPONENT = 6
"""From this number on Go's shortest form has an exponent."""


class ScalarError(ValueError):
    """A scalar that is invalid for its tag."""


def is_plain_text(text: str) -> bool:
    """Whether a scalar without quotes and tag can only be a string."""
    return text[:1] not in _HINTS and text not in ("", "null", "Null", "NULL")


def resolve(text: str, tag: str | None, *, plain: bool) -> Any:
    """The value of a scalar: None, bool, int, float or str. Raises ``ScalarError``."""
    if tag is None:
        return _untagged(text) if plain else text
    if tag == _BINARY:
        return _binary(text)
    if tag == _STRING or tag not in _RESOLVABLE:
        return text
    value = _untagged(text)
    desired, kind = tag.removeprefix(_LONG), _kind(value, text)
    if desired == "float" and kind == "int":
        return float(value)
    if desired == "timestamp" and kind == "timestamp":
        return text
    if desired != kind:
        raise ScalarError(f"cannot decode !!{kind} `{text}` as a !!{desired}")
    return value


def key_text(key: Any) -> str | None:
    """A map key as in JSON (``sigs.k8s.io/yaml``, ``convertToJSONableObject``); None if it is not supported."""
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() if key < 1 << 63:
            return str(key)
        case float():
            return _float_key(key)
        case _:
            return None


def key_error(key: Any, value: Any) -> str:
    """The error about a key that ``key_text`` does not support."""
    kind = "%!s(<nil>)" if key is None else "uint64"
    formatted = "<nil>" if key is None else f"{key:#x}"
    return f"unsupported map key of type: {kind}, key: {formatted}, value: {value_shown(value)}"


def value_shown(value: Any) -> str:
    """A value as in messages."""
    return quote(value) if isinstance(value, str) else print_value(value)


def _untagged(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] not in _HINTS:
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        number = _integer(plain)
        if number is not None:
            return number
    if _FLOAT.fullmatch(plain):
        real = float(plain)
        if not math.isinf(real):
            return real
    return text


def _integer(text: str) -> int | None:
    """The number if it has 64 bits. Only unsigned ones may use the highest bit."""
    if len(text) > 80:
        return None
    digits = text.lstrip("+-")
    base = {"x": 16, "b": 2, "o": 8}.get(digits[1:2].lower(), 8) if digits[0] == "0" and len(digits) > 1 else 10
    number = int(digits[2:] if digits[1:2].isalpha() else digits, base)
    if text[0] == "-":
        number = -number
    return number if -(1 << 63) <= number < 1 << (64 if digits == text else 63) else None


def _kind(value: Any, text: str) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float"
        case _:
            return "timestamp" if _DATE.fullmatch(text) else "str"


def _binary(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        raise ScalarError("!!binary value contains invalid base64 data") from None
    return data.decode("utf-8", "replace")


def _float_key(key: float) -> str:
    """Go's shortest form of a float32."""
    if math.isnan(key):
        return ".nan"
    if math.isinf(key):
        return ".inf" if key > 0 else "-.inf"
    try:
        single = struct.pack("f", key)
    except OverflowError:
        return ".inf" if key > 0 else "-.inf"
    decimals = next(n for n in range(17) if struct.pack("f", float(f"{key:.{n}e}")) == single)
    formatted = f"{key:.{decimals}e}"
    exponent = int(formatted.partition("e")[2])
    if not -4 <= exponent < _FROM_EXPONENT:
        return formatted
    return f"{float(formatted):.{max(0, decimals - exponent)}f}"
