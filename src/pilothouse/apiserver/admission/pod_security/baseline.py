"""The checks of the level baseline, which prevent known privilege escalations. Pure.

One function per file ``policy/check_*.go`` of pod-security-admission (v0.36). The docstrings say what is forbidden.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

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
    values_of,
)
from pilothouse.machinery.go_text import quote


def relaxed_for_user_namespaces(check: Check) -> Check:
    """The check, which pods with their own user namespace (``hostUsers: false``) pass: their root user is unprivileged
    on the node (``relaxPolicyForUserNamespacePod``)."""

    def checked(annotations: Annotations, spec: Spec) -> Violation | None:
        return None if spec.get("hostUsers") is False else check(annotations, spec)

    return checked


_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def app_armor(annotations: Annotations, spec: Spec) -> Violation | None:
    """Profiles other than ``RuntimeDefault`` and ``Localhost``, in fields or annotations."""
    pod, bad_containers, bad_values = _by_type(spec, "appArmorProfile", ("RuntimeDefault", "Localhost"))
    bad_annotations = sorted(
        f"{key}={quote(value)}"
        for key, value in annotations.items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    bad_setters = [setters(pod, bad_containers)] if pod or bad_containers else []
    if bad_annotations:
        bad_setters.append("annotation" if len(bad_annotations) == 1 else "annotations")
    if not bad_setters:
        return None
    bad_values += bad_annotations
    return Violation(
        "forbidden AppArmor profile" if len(bad_values) == 1 else "forbidden AppArmor profiles",
        f"{' and '.join(bad_setters)} must not set AppArmor profile type to {quoted(bad_values)}",
    )


def _by_type(spec: Spec, field: str, allowed: tuple[str, ...]) -> tuple[bool, list[str], list[str]]:
    """Whether the pod sets a profile of a forbidden type, the names of the containers that do, and the types."""
    bad_values = set()

    def is_forbidden(setter: Mapping[str, Any]) -> bool:
        profile = security_context_of(setter).get(field)
        if profile is None or profile.get("type", "") in allowed:
            return False
        bad_values.add(profile.get("type", ""))
        return True

    pod, bad_containers = is_forbidden(spec), names_of(spec, is_forbidden)
    return pod, bad_containers, sorted(bad_values)


_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip


def capabilities(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Capabilities in addition to the default set of container runtimes."""
    detail = added_capabilities(spec, _CAPABILITIES)
    return Violation("non-default capabilities", detail) if detail else None


def added_capabilities(spec: Spec, allowed: Collection[str]) -> str:
    """The violation text for containers that add other than the allowed capabilities; empty for none."""
    bad_containers, added = values_of(
        spec,
        lambda container: [
            capability
            for capability in (security_context_of(container).get("capabilities") or {}).get("add") or ()
            if capability not in allowed
        ],
    )
    if not bad_containers:
        return ""
    return f"{named('container', bad_containers)} must not include {quoted(added)} in securityContext.capabilities.add"


def host_namespaces(_annotations: Annotations, spec: Spec) -> Violation | None:
    """``hostNetwork``, ``hostPID`` and ``hostIPC``."""
    used = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(used)) if used else None


def host_path_volumes(_annotations: Annotations, spec: Spec) -> Violation | None:
    """HostPath volumes."""
    volume_names = [
        volume.get("name", "") for volume in spec.get("volumes") or () if volume.get("hostPath") is not None
    ]
    return Violation("hostPath volumes", named("volume", volume_names)) if volume_names else None


def host_ports(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Host ports."""
    bad_containers, ports = values_of(
        spec,
        lambda container: [str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")],
    )
    if not bad_containers:
        return None
    verb, host_port = "uses" if len(bad_containers) == 1 else "use", "hostPort" if len(ports) == 1 else "hostPorts"
    return Violation("hostPort", f"{named('container', bad_containers)} {verb} {host_port} {', '.join(ports)}")


def host_probes(_annotations: Annotations, spec: Spec) -> Violation | None:
    """A ``host`` in probes and lifecycle hooks."""
    bad_containers, hosts = values_of(spec, _hosts)
    if not bad_containers:
        return None
    verb = "uses" if len(set(bad_containers)) == 1 else "use"
    return Violation(
        "probe or lifecycle host",
        f"{named('container', sorted(set(bad_containers)))} {verb} {named('probe or lifecycle host', hosts)}",
    )


def _hosts(container: Mapping[str, Any]) -> Iterator[str]:
    hooks = container.get("lifecycle") or {}
    handlers = [container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
    for handler in (*handlers, hooks.get("postStart"), hooks.get("preStop")):
        for action in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(action) or {}).get("host")
            if host:
                yield host


def privileged(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Privileged containers."""
    bad_containers = names_of(spec, lambda container: bool(security_context_of(container).get("privileged")))
    if not bad_containers:
        return None
    return Violation("privileged", f"{named('container', bad_containers)} must not set securityContext.privileged=true")


def proc_mount(_annotations: Annotations, spec: Spec) -> Violation | None:
    """A ``procMount`` other than ``Default``."""
    bad_containers, proc_mounts = values_of(
        spec, lambda container: {security_context_of(container).get("procMount", "Default")} - {None, "Default"}
    )
    if not bad_containers:
        return None
    return Violation(
        "procMount",
        f"{named('container', bad_containers)} must not set securityContext.procMount to {quoted(proc_mounts)}",
    )


_SE_LINUX = ("", "container_t", "container_init_t", "container_kvm_t")


def se_linux_0(_annotations: Annotations, spec: Spec) -> Violation | None:
    """SELinux types other than the container types, and any SELinux user or role."""
    return _se_linux(spec, _SE_LINUX)


def se_linux_31(_annotations: Annotations, spec: Spec) -> Violation | None:
    """Like ``se_linux_0``, with the type ``container_engine_t`` allowed."""
    return _se_linux(spec, (*_SE_LINUX, "container_engine_t"))


def _se_linux(spec: Spec, allowed: tuple[str, ...]) -> Violation | None:
    types, details_by_field = set(), {}

    def is_forbidden(setter: Mapping[str, Any]) -> bool:
        options = security_context_of(setter).get("seLinuxOptions") or {}
        type_ = options.get("type") or ""
        if type_ not in allowed:
            types.add(type_)
        for field in ("user", "role"):
            if options.get(field):
                details_by_field[field] = f"{field} may not be set"
        return type_ not in allowed or bool(options.get("user") or options.get("role"))

    pod, bad_containers = is_forbidden(spec), names_of(spec, is_forbidden)
    if not pod and not bad_containers:
        return None
    details = [named("type", sorted(types))] if types else []
    details += [details_by_field[field] for field in ("user", "role") if field in details_by_field]
    return Violation(
        "seLinuxOptions",
        f"{setters(pod, bad_containers)} set forbidden securityContext.seLinuxOptions: {'; '.join(details)}",
    )


_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def seccomp_annotations(annotations: Annotations, spec: Spec) -> Violation | None:
    """Unconfined seccomp profiles in annotations, before v1.19."""
    keys = [_SECCOMP_POD, *(_SECCOMP_CONTAINER + container.get("name", "") for container in containers(spec))]
    bad_annotations = sorted(
        {
            f"{key}={quote(annotations[key])}"
            for key in keys
            if key in annotations
            and annotations[key] not in ("runtime/default", "docker/default")
            and not annotations[key].startswith("localhost/")
        }
    )
    if not bad_annotations:
        return None
    return Violation(
        "seccompProfile",
        f"forbidden {'annotation' if len(bad_annotations) == 1 else 'annotations'} {', '.join(bad_annotations)}",
    )


SECCOMP_TYPES = ("RuntimeDefault", "Localhost")


def seccomp(_annotations: Annotations, spec: Spec) -> Violation | None:
    """``Unconfined`` seccomp profiles."""
    pod, bad_containers, values = _by_type(spec, "seccompProfile", SECCOMP_TYPES)
    if not pod and not bad_containers:
        return None
    return Violation(
        "seccompProfile",
        f"{setters(pod, bad_containers)} must not set securityContext.seccompProfile.type to {quoted(values)}",
    )


_SYSCTLS_0 = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SYSCTLS_27 = _SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str]) -> Check:
    def check(_annotations: Annotations, spec: Spec) -> Violation | None:
        forbidden = [
            sysctl.get("name", "")
            for sysctl in security_context_of(spec).get("sysctls") or ()
            if sysctl.get("name", "") not in allowed
        ]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


sysctls_0 = _sysctls(_SYSCTLS_0)
sysctls_27 = _sysctls(_SYSCTLS_27)
sysctls_29 = _sysctls(_SYSCTLS_29)
sysctls_32 = _sysctls(_SYSCTLS_32)


def windows_host_process(_annotations: Annotations, spec: Spec) -> Violation | None:
    """HostProcess containers (Windows)."""

    def sets_host_process(setter: Mapping[str, Any]) -> bool:
        return bool((security_context_of(setter).get("windowsOptions") or {}).get("hostProcess"))

    subject = setters(sets_host_process(spec), names_of(spec, sets_host_process))
    if not subject:
        return None
    return Violation("hostProcess", f"{subject} must not set securityContext.windowsOptions.hostProcess=true")
