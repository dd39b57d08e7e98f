"""The additional checks of the level restricted (pod hardening). Pure.

One function per file ``policy/check_*.go`` of pod-security-admission (v0.36). The docstrings say what is forbidden.
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver.admission.pod_security.baseline import SECCOMP_TYPES, added_capabilities
from pilothouse.apiserver.admission.pod_security.checks import (
    Annotations,
    Check,
    Spec,
    Violation,
    containers,
    named,
    names_of,
    quoted,
    security_context_of,
    setters,
)


def skipped_for_windows(check: Check) -> Check:
    """The check, which pods with ``os.name: windows`` pass: they cannot set these fields."""

    def checked(annotations: Annotations, spec: Spec) -> Violation | None:
        return None if (spec.get("os") or {}).get("name") == "windows" else check(annotations, spec)

    return checked


def privilege_escalation(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Containers without ``allowPrivilegeEscalation: false``."""
    bad = names_of(spec, lambda container: security_context_of(container).get("allowPrivilegeEscalation") is not False)
    if not bad:
        return None
    return Violation(
        "allowPrivilegeEscalation != false",
        f"{named('container', bad)} must set securityContext.allowPrivilegeEscalation=false",
    )


def capabilities(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Containers that do not drop ``ALL`` capabilities, or add others than ``NET_BIND_SERVICE``."""
    keeping = names_of(
        spec,
        lambda container: "ALL" not in ((security_context_of(container).get("capabilities") or {}).get("drop") or ()),
    )
    kept = f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]' if keeping else ""
    details = [detail for detail in (kept, added_capabilities(spec, ("NET_BIND_SERVICE",))) if detail]
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


_VOLUMES = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_OTHER_VOLUMES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip


def volumes(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Volume types other than the allowed ones."""
    bad, kinds = [], set()
    for volume in spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _VOLUMES):
            continue
        bad.append(volume.get("name", ""))
        kinds.add(next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not bad:
        return None
    verb = "uses" if len(bad) == 1 else "use"
    return Violation(
        "restricted volume types",
        f"{named('volume', bad)} {verb} {named('restricted volume type', sorted(kinds))}",
    )


def run_as_non_root(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Containers without ``runAsNonRoot: true``."""
    pod_value = security_context_of(spec).get("runAsNonRoot")
    explicitly_bad, implicitly_bad = [], []
    for container in containers(spec):
        own = security_context_of(container).get("runAsNonRoot")
        if own is False:
            explicitly_bad.append(container.get("name", ""))
        elif own is None and pod_value is not True:
            implicitly_bad.append(container.get("name", ""))
    subject = setters(pod_value is False, explicitly_bad)
    if subject:
        return Violation("runAsNonRoot != true", f"{subject} must not set securityContext.runAsNonRoot=false")
    if implicitly_bad:
        return Violation(
            "runAsNonRoot != true",
            f"pod or {named('container', implicitly_bad)} must set securityContext.runAsNonRoot=true",
        )
    return None


def run_as_user(_annotations: Annotations, spec: Spec) -> Violation | None:
    """``runAsUser: 0``."""

    def is_bad(one: Mapping[str, Any]) -> bool:
        return security_context_of(one).get("runAsUser") == 0

    subject = setters(is_bad(spec), names_of(spec, is_bad))
    return Violation("runAsUser=0", f"{subject} must not set runAsUser=0") if subject else None


def seccomp(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Seccomp profiles that are ``Unconfined`` or not set."""
    values = set()

    def is_bad(profile: Mapping[str, Any] | None) -> bool:
        if profile is None or profile.get("type", "") in SECCOMP_TYPES:
            return False
        values.add(profile.get("type", ""))
        return True

    pod_profile = security_context_of(spec).get("seccompProfile")
    pod = is_bad(pod_profile)
    explicitly_bad, implicitly_bad = [], []
    for container in containers(spec):
        own = security_context_of(container).get("seccompProfile")
        if is_bad(own):
            explicitly_bad.append(container.get("name", ""))
        elif own is None and (pod_profile is None or pod):
            implicitly_bad.append(container.get("name", ""))
    subject = setters(pod, explicitly_bad)
    if subject:
        return Violation(
            "seccompProfile", f"{subject} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
        )
    if implicitly_bad:
        return Violation(
            "seccompProfile",
            f"pod or {named('container', implicitly_bad)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"',
        )
    return None
