"""``quantity()`` and ``semver()`` (k8s.io/apiserver ``pkg/cel/library/{quantity,semverlib}.go``, v0.36)."""

import re
from functools import cmp_to_key
from typing import Any

from pilothouse.cel.tagged import CallError, Function, tagged, text_of
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.quantities import Quantity, QuantityError, parse_quantity

_QUANTITY, _SEMVER = "kubernetes.Quantity", "kubernetes.Semver"
_INT64 = 1 << 63
_MAX_DIGITS = 19
"""The maximum number of digits in a 64-bit number; larger powers of ten are not computed."""


def quantity(text: str) -> dict[str, Any]:
    try:
        return _tag(parse_quantity(text))
    except QuantityError as error:
        raise CallError(str(error)) from None


def _tag(quantity: Quantity) -> dict[str, Any]:
    # Tagged with the number, so that 1Gi and 1024Mi are equal.
    return tagged(
        "Quantity", f"{quantity.mantissa}e{quantity.exponent}" if quantity else "0e0", canonical=str(quantity)
    )


def _quantity_of(value: dict[str, Any]) -> Quantity:
    return parse_quantity(value["canonical"])


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _sign(quantity: Quantity) -> int:
    return (quantity.mantissa > 0) - (quantity.mantissa < 0)


def _compare(left: dict[str, Any], right: dict[str, Any]) -> int:
    return _sign(_quantity_of(left) - _quantity_of(right))


def _as_int64(value: dict[str, Any]) -> int | None:
    """The value as an integer; None if it is not an integer or does not fit in 64 bits."""
    quantity = _quantity_of(value)
    if quantity.exponent > _MAX_DIGITS or (quantity.exponent < 0 and quantity.mantissa % 10**-quantity.exponent):
        return None
    number = (
        quantity.mantissa * 10**quantity.exponent
        if quantity.exponent >= 0
        else quantity.mantissa // 10**-quantity.exponent
    )
    return number if -_INT64 <= number < _INT64 else None


def _as_integer(value: dict[str, Any]) -> int:
    number = _as_int64(value)
    if number is None:
        raise CallError("cannot convert value to integer")
    return number


def _as_float(value: dict[str, Any]) -> float:
    quantity = _quantity_of(value)
    return float(f"{quantity.mantissa}e{quantity.exponent}")


def _add(value: dict[str, Any], other: dict[str, Any] | int, factor: int) -> dict[str, Any]:
    addend = Quantity(other) if isinstance(other, int) else _quantity_of(other)
    return _tag(_quantity_of(value) + addend if factor > 0 else _quantity_of(value) - addend)


_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)


def _normalized(text: str) -> str:
    """``v1.01`` → ``1.1.0``: removes a leading v and leading zeros, and adds missing parts (``normalizeAndParse``)."""
    text = text.removeprefix("v")
    end = next((position for position, letter in enumerate(text) if letter in "-+"), len(text))
    parts = text[:end].split(".")
    if len(parts) > 3:
        raise CallError("Invalid character(s) found in version number")
    parts = [part.lstrip("0") or "0" if part else part for part in parts]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + text[end:]


def semver(text: str, normalize: bool = False) -> dict[str, Any]:
    version = _normalized(text) if normalize else text
    if _VERSION.fullmatch(version) is None:
        raise CallError(_version_error(version))
    return tagged("Semver", version)


def _version_error(text: str) -> str:
    """The error of an invalid version (github.com/blang/semver/v4 ``Parse``)."""
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    for number, name in ((parts[0], "major"), (parts[1], "minor"), (patch, "patch")):
        if not re.fullmatch(r"[0-9]*", number):
            return f"Invalid character(s) found in {name} number {quote(number)}"
        if len(number) > 1 and number[0] == "0":
            return f"{name.capitalize()} number must not contain leading zeroes {quote(number)}"
        if not number:
            return 'strconv.ParseUint: parsing "": invalid syntax'
    for part in prerelease.split(".") if dash else ():
        if not part:
            return "Prerelease is empty"
        if part.isdecimal() and len(part) > 1 and part[0] == "0":
            return f"Numeric PreRelease version must not contain leading zeroes {quote(part)}"
        if not _ALPHANUMERIC.fullmatch(part):
            return f"Invalid character(s) found in prerelease {quote(part)}"
    for part in build.split(".") if plus else ():
        if not part:
            return "Build meta data is empty"
        if not _ALPHANUMERIC.fullmatch(part):
            return f"Invalid character(s) found in build meta data {quote(part)}"
    return f"Invalid version {quote(text)}"


_ALPHANUMERIC = re.compile(r"[0-9A-Za-z-]+")


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        semver(text, normalize)
    except CallError:
        return False
    return True


def _parts(value: dict[str, Any]) -> tuple[tuple[int, ...], list[str]]:
    """(major, minor, patch) and the prerelease identifiers."""
    match = _VERSION.fullmatch(text_of(value))
    assert match is not None, "versions are validated when they are created"
    return tuple(int(part) for part in match.groups()[:3]), (match[4] or "").split(".") if match[4] else []


def _compare_versions(left: dict[str, Any], right: dict[str, Any]) -> int:
    (left_version, left_pre), (right_version, right_pre) = _parts(left), _parts(right)
    if left_version != right_version:
        return 1 if left_version > right_version else -1
    if not left_pre or not right_pre:
        return bool(right_pre) - bool(left_pre)
    key = cmp_to_key(_compare_identifiers)
    left_keys, right_keys = [key(part) for part in left_pre], [key(part) for part in right_pre]
    return 0 if left_pre == right_pre else 1 if left_keys > right_keys else -1


def _compare_identifiers(left: str, right: str) -> int:
    """Compare prerelease identifiers: numbers numerically and before others, others by bytes."""
    if left.isdigit() and right.isdigit():
        return (int(left) > int(right)) - (int(left) < int(right))
    if left.isdigit() != right.isdigit():
        return -1 if left.isdigit() else 1
    return (left > right) - (left < right)


FUNCTIONS = (
    Function("quantity", ("string",), _QUANTITY, quantity, member=False),
    Function("isQuantity", ("string",), "bool", _is_quantity, member=False),
    Function("sign", (_QUANTITY,), "int", lambda value: _sign(_quantity_of(value))),
    Function("compareTo", (_QUANTITY, _QUANTITY), "int", _compare),
    Function("isGreaterThan", (_QUANTITY, _QUANTITY), "bool", lambda left, right: _compare(left, right) > 0),
    Function("isLessThan", (_QUANTITY, _QUANTITY), "bool", lambda left, right: _compare(left, right) < 0),
    Function("isInteger", (_QUANTITY,), "bool", lambda value: _as_int64(value) is not None),
    Function("asInteger", (_QUANTITY,), "int", _as_integer),
    Function("asApproximateFloat", (_QUANTITY,), "double", _as_float),
    Function("add", (_QUANTITY, _QUANTITY), _QUANTITY, lambda value, other: _add(value, other, 1)),
    Function("add", (_QUANTITY, "int"), _QUANTITY, lambda value, other: _add(value, other, 1)),
    Function("sub", (_QUANTITY, _QUANTITY), _QUANTITY, lambda value, other: _add(value, other, -1)),
    Function("sub", (_QUANTITY, "int"), _QUANTITY, lambda value, other: _add(value, other, -1)),
    Function("semver", ("string",), _SEMVER, semver, member=False),
    Function("semver", ("string", "bool"), _SEMVER, semver, member=False),
    Function("isSemver", ("string",), "bool", _is_semver, member=False),
    Function("isSemver", ("string", "bool"), "bool", _is_semver, member=False),
    Function("major", (_SEMVER,), "int", lambda value: _parts(value)[0][0]),
    Function("minor", (_SEMVER,), "int", lambda value: _parts(value)[0][1]),
    Function("patch", (_SEMVER,), "int", lambda value: _parts(value)[0][2]),
    Function("compareTo", (_SEMVER, _SEMVER), "int", _compare_versions),
    Function("isGreaterThan", (_SEMVER, _SEMVER), "bool", lambda left, right: _compare_versions(left, right) > 0),
    Function("isLessThan", (_SEMVER, _SEMVER), "bool", lambda left, right: _compare_versions(left, right) < 0),
)
