"""Evaluates a pod against one level and version of the Pod Security Standards, with upstream's order and messages.
Pure.

After pod-security-admission's ``policy`` (v0.36). A check takes annotations and spec and returns a ``Violation`` or
None; the checks are in ``baseline`` and ``restricted``.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pilothouse.apiserver.admission.pod_security import baseline, restricted
from pilothouse.apiserver.admission.pod_security.checks import Check, Violation
from pilothouse.apiserver.admission.pod_security.levels import LATEST, LevelVersion

LATEST_KNOWN = 36
"""The latest minor version with checks of its own; later versions use these."""

_BASELINE: Mapping[str, tuple[tuple[int, Check], ...]] = {
    "appArmorProfile": ((0, baseline.app_armor),),
    "capabilities_baseline": ((0, baseline.capabilities),),
    "hostNamespaces": ((0, baseline.host_namespaces),),
    "hostPathVolumes": ((0, baseline.host_path_volumes),),
    "hostPorts": ((0, baseline.host_ports),),
    "hostProbesAndHostLifecycle": ((34, baseline.host_probes),),
    "privileged": ((0, baseline.privileged),),
    "procMount": ((0, baseline.proc_mount), (35, baseline.relaxed_for_user_namespaces(baseline.proc_mount))),
    "seLinuxOptions": ((0, baseline.se_linux_0), (31, baseline.se_linux_31)),
    "seccompProfile_baseline": ((0, baseline.seccomp_annotations), (19, baseline.seccomp)),
    "sysctls": (
        (0, baseline.sysctls_0),
        (27, baseline.sysctls_27),
        (29, baseline.sysctls_29),
        (32, baseline.sysctls_32),
    ),
    "windowsHostProcess": ((0, baseline.windows_host_process),),
}
_RESTRICTED: Mapping[str, tuple[tuple[int, Check], ...]] = {
    "allowPrivilegeEscalation": (
        (8, restricted.privilege_escalation),
        (25, restricted.skipped_for_windows(restricted.privilege_escalation)),
    ),
    "capabilities_restricted": (
        (22, restricted.capabilities),
        (25, restricted.skipped_for_windows(restricted.capabilities)),
    ),
    "procMount_restricted": ((35, baseline.proc_mount),),
    "restrictedVolumes": ((0, restricted.volumes),),
    "runAsNonRoot": (
        (0, restricted.run_as_non_root),
        (35, baseline.relaxed_for_user_namespaces(restricted.run_as_non_root)),
    ),
    "runAsUser": ((23, restricted.run_as_user), (35, baseline.relaxed_for_user_namespaces(restricted.run_as_user))),
    "seccompProfile_restricted": ((19, restricted.seccomp), (25, restricted.skipped_for_windows(restricted.seccomp))),
}
_OVERRIDES = {
    "capabilities_restricted": "capabilities_baseline",
    "procMount_restricted": "procMount",
    "restrictedVolumes": "hostPathVolumes",
    "seccompProfile_restricted": "seccompProfile_baseline",
}
"""Restricted checks that override a baseline check (``OverrideCheckIDs``)."""


@cache
def checks_of(level: str, version: int) -> tuple[Check, ...]:
    """The checks of a level in a version: baseline sorted by ID, then restricted sorted by ID."""
    if level == "privileged":
        return ()
    if version == LATEST or version > LATEST_KNOWN:
        version = LATEST_KNOWN
    checks = _checks_at(_BASELINE, version)
    if level == "baseline":
        return tuple(checks.values())
    restricted_checks = _checks_at(_RESTRICTED, version)
    for name, overridden in _OVERRIDES.items():
        if name in restricted_checks:
            checks.pop(overridden, None)
    return (*checks.values(), *restricted_checks.values())


def _checks_at(versioned: Mapping[str, tuple[tuple[int, Check], ...]], version: int) -> dict[str, Check]:
    checks: dict[str, Check] = {}
    for name in sorted(versioned):
        for minimum_version, check in versioned[name]:
            if minimum_version <= version:
                checks[name] = check
    return checks


def violations(level_version: LevelVersion, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Violation]:
    """The checks of the level that the pod fails."""
    annotations = metadata.get("annotations") or {}
    results = (check(annotations, spec) for check in checks_of(level_version.level, level_version.version))
    return [violation for violation in results if violation is not None]


def forbidden_detail(failed: Iterable[Violation]) -> str:
    """Reasons with their details, for the response to a request for a pod (``ForbiddenDetail``)."""
    return ", ".join(
        f"{violation.reason} ({violation.detail})" if violation.detail else violation.reason for violation in failed
    )


def forbidden_reason(failed: Iterable[Violation]) -> str:
    """Reasons only, for warnings about existing pods when a namespace is labeled (``ForbiddenReason``)."""
    return ", ".join(violation.reason for violation in failed)
