"""The checks that the level restricted has beyond baseline: what hardened pods do. Pure.

One function per file ``policy/check_*.go`` of pod-security-admission (v0.36).
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver.admission.pod_security.baseline import SECCOMP_TYPES, added_capabilities
from pilothouse.apiserver.admission.pod_security.wording import (
    Annotations,
    Check,
    Spec,
    Violation,
    containers,
    named,
    names_of,
    quoted,
    security,
    setters,
)


def outside_windows(check: Check) -> Check:
    """The check for pods of other systems: Windows has no such fields."""

    def checked(annotations: Annotations, spec: Spec) -> Violation | None:
        return None if (spec.get("os") or {}).get("name") == "windows" else check(annotations, spec)

    return checked


def privilege_escalation(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Processes that may get more rights than their parent."""
    bad = names_of(spec, lambda container: security(container).get("allowPrivilegeEscalation") is not False)
    if not bad:
        return None
    return Violation(
        "allowPrivilegeEscalation != false",
        f"{named('container', bad)} must set securityContext.allowPrivilegeEscalation=false",
    )


def capabilities(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Capabilities that are not dropped, or are added."""
    keeping = names_of(
        spec,
        lambda container: "ALL" not in ((security(container).get("capabilities") or {}).get("drop") or ()),
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
    """Volumes that are neither of the cluster nor of the pod."""
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
    """Containers that might run as root."""
    of_pod = security(spec).get("runAsNonRoot")
    daring, silent = [], []
    for container in containers(spec):
        own = security(container).get("runAsNonRoot")
        if own is False:
            daring.append(container.get("name", ""))
        elif own is None and of_pod is not True:
            silent.append(container.get("name", ""))
    who = setters(of_pod is False, daring)
    if who:
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    if silent:
        return Violation(
            "runAsNonRoot != true", f"pod or {named('container', silent)} must set securityContext.runAsNonRoot=true"
        )
    return None


def run_as_user(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Containers that say they run as root."""

    def is_bad(one: Mapping[str, Any]) -> bool:
        return security(one).get("runAsUser") == 0

    who = setters(is_bad(spec), names_of(spec, is_bad))
    return Violation("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def seccomp(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Seccomp turned off, or not turned on."""
    values = set()

    def is_bad(profile: Mapping[str, Any] | None) -> bool:
        if profile is None or profile.get("type", "") in SECCOMP_TYPES:
            return False
        values.add(profile.get("type", ""))
        return True

    of_pod = security(spec).get("seccompProfile")
    pod = is_bad(of_pod)
    off, silent = [], []
    for container in containers(spec):
        own = security(container).get("seccompProfile")
        if is_bad(own):
            off.append(container.get("name", ""))
        elif own is None and (of_pod is None or pod):
            silent.append(container.get("name", ""))
    who = setters(pod, off)
    if who:
        return Violation(
            "seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
        )
    if silent:
        return Violation(
            "seccompProfile",
            f"pod or {named('container', silent)} must set securityContext.seccompProfile.type to "
            '"RuntimeDefault" or "Localhost"',
        )
    return None
