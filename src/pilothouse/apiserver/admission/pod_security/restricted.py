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
    bad_containers = names_of(
        spec, lambda container: security_context_of(container).get("allowPrivilegeEscalation") is not False
    )
    if not bad_containers:
        return None
    return Violation(
        "allowPrivilegeEscalation != false",
        f"{named('container', bad_containers)} must set securityContext.allowPrivilegeEscalation=false",
    )


def capabilities(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Containers that do not drop ``ALL`` capabilities, or add others than ``NET_BIND_SERVICE``."""
    missing_drop_all = names_of(
        spec,
        lambda container: "ALL" not in ((security_context_of(container).get("capabilities") or {}).get("drop") or ()),
    )
    drop_all_detail = (
        f'{named("container", missing_drop_all)} must set securityContext.capabilities.drop=["ALL"]'
        if missing_drop_all
        else ""
    )
    details = [detail for detail in (drop_all_detail, added_capabilities(spec, ("NET_BIND_SERVICE",))) if detail]
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
    bad_volumes, bad_volume_types = [], set()
    for volume in spec.get("volumes") or ():
        if any(volume.get(kind) is not None for kind in _VOLUMES):
            continue
        bad_volumes.append(volume.get("name", ""))
        bad_volume_types.add(next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not bad_volumes:
        return None
    verb = "uses" if len(bad_volumes) == 1 else "use"
    return Violation(
        "restricted volume types",
        f"{named('volume', bad_volumes)} {verb} {named('restricted volume type', sorted(bad_volume_types))}",
    )


def run_as_non_root(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Containers without ``runAsNonRoot: true``."""
    pod_run_as_non_root = security_context_of(spec).get("runAsNonRoot")
    explicitly_bad_containers, implicitly_bad_containers = [], []
    for container in containers(spec):
        container_value = security_context_of(container).get("runAsNonRoot")
        if container_value is False:
            explicitly_bad_containers.append(container.get("name", ""))
        elif container_value is None and pod_run_as_non_root is not True:
            implicitly_bad_containers.append(container.get("name", ""))
    subject = setters(pod_run_as_non_root is False, explicitly_bad_containers)
    if subject:
        return Violation("runAsNonRoot != true", f"{subject} must not set securityContext.runAsNonRoot=false")
    if implicitly_bad_containers:
        return Violation(
            "runAsNonRoot != true",
            f"pod or {named('container', implicitly_bad_containers)} must set securityContext.runAsNonRoot=true",
        )
    return None


def run_as_user(_annotations: Annotations, spec: Spec) -> Violation | None:
    """``runAsUser: 0``."""

    def runs_as_root(setter: Mapping[str, Any]) -> bool:
        return security_context_of(setter).get("runAsUser") == 0

    subject = setters(runs_as_root(spec), names_of(spec, runs_as_root))
    return Violation("runAsUser=0", f"{subject} must not set runAsUser=0") if subject else None


def seccomp(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Seccomp profiles that are ``Unconfined`` or not set."""
    bad_values = set()

    def is_bad(profile: Mapping[str, Any] | None) -> bool:
        if profile is None or profile.get("type", "") in SECCOMP_TYPES:
            return False
        bad_values.add(profile.get("type", ""))
        return True

    pod_profile = security_context_of(spec).get("seccompProfile")
    pod_is_bad = is_bad(pod_profile)
    explicitly_bad_containers, implicitly_bad_containers = [], []
    for container in containers(spec):
        profile = security_context_of(container).get("seccompProfile")
        if is_bad(profile):
            explicitly_bad_containers.append(container.get("name", ""))
        elif profile is None and (pod_profile is None or pod_is_bad):
            implicitly_bad_containers.append(container.get("name", ""))
    subject = setters(pod_is_bad, explicitly_bad_containers)
    if subject:
        return Violation(
            "seccompProfile",
            f"{subject} must not set securityContext.seccompProfile.type to {quoted(sorted(bad_values))}",
        )
    if implicitly_bad_containers:
        return Violation(
            "seccompProfile",
            f"pod or {named('container', implicitly_bad_containers)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"',
        )
    return None
