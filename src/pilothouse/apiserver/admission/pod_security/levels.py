"""Levels, versions and labels of the Pod Security Standards. Pure. After pod-security-admission's ``api`` (v0.36)."""

import re
from collections.abc import Mapping

import msgspec

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import ErrorList, FieldError

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
"""From the least to the most restrictive."""
LATEST = -1
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)", re.ASCII)


class LevelVersion(msgspec.Struct, frozen=True):
    """A level and the minor version of its checks, or ``LATEST``."""

    level: str = "privileged"
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:latest" if self.version == LATEST else f"{self.level}:v1.{self.version}"


class Policy(msgspec.Struct, frozen=True):
    """The levels of a namespace for the modes enforce, audit and warn."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()


class PodSecurityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """A ``PodSecurityConfiguration``: defaults for namespaces without labels, and exemptions."""

    defaults: Policy = Policy()
    exempt_usernames: frozenset[str] = frozenset()
    exempt_namespaces: frozenset[str] = frozenset()
    exempt_runtime_classes: frozenset[str] = frozenset()


def is_stricter(level: str, than: str) -> bool:
    """Whether the first level allows less than the other."""
    return LEVELS.index(level) > LEVELS.index(than)


def policy_to_evaluate(labels: Mapping[str, str], defaults: Policy) -> tuple[Policy, ErrorList]:
    """The policy in the labels of a namespace, and the errors in them.

    An invalid level is restricted for enforce, privileged for audit and warn. Without a warn label, a stricter enforce
    level is also used for warnings.
    """
    errors: ErrorList = []
    by_mode: dict[str, LevelVersion] = {}
    for mode, default in (("enforce", defaults.enforce), ("audit", defaults.audit), ("warn", defaults.warn)):
        level, version = default.level, default.version
        name = PREFIX + mode
        if name in labels:
            level = labels[name]
            if level not in LEVELS:
                errors.append(_invalid_label(name, level, f"must be one of {', '.join(LEVELS)}"))
                level = "restricted" if mode == "enforce" else "privileged"
        name += "-version"
        if name in labels:
            match = _VERSION.fullmatch(labels[name])
            if match is None and labels[name] != "latest":
                errors.append(_invalid_label(name, labels[name], 'must be "latest" or "v1.x"'))
            version = LATEST if match is None else int(match[1])
        by_mode[mode] = LevelVersion(level, version)
    enforce, warn = by_mode["enforce"], by_mode["warn"]
    if (
        PREFIX + "warn" not in labels
        and labels.get(PREFIX + "enforce") in LEVELS
        and is_stricter(enforce.level, warn.level)
    ):
        version = warn.version if PREFIX + "warn-version" in labels else enforce.version
        warn = LevelVersion(enforce.level, version)
    return Policy(enforce, by_mode["audit"], warn), errors


def _invalid_label(label: str, value: str, reason: str) -> FieldError:
    return field_errors.invalid(f"metadata.labels[{label}]", value, reason)
