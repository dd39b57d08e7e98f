"""The functions of semantic versions (k8s.io/apiserver ``pkg/cel/library/semverlib.go``, v0.36)."""

import re
from functools import cmp_to_key
from typing import Any

from pilothouse.cel.tagged import CallError, Function, tagged, text_of
from pilothouse.machinery.go_text import quote

_SEMVER = "kubernetes.Semver"
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
